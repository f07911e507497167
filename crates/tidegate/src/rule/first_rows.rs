//! `LIMIT` without an order: the first rows of a file, not those of the part that is read first.
//!
//! DataFusion cuts files into parts for several threads also where a scan has a limit, and takes the rows that come
//! first. A scan of few rows reads its parts one after the other here: most often the first one is enough.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_groups::FileGroup;

use crate::files::file_scan;
use crate::node_rule::Replaced;

/// The most rows of such a scan. More are read by several threads.
const ROWS_MAX: usize = 100_000;

/// Has a scan with a limit read its parts in order.
pub(super) fn parts_in_order(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(config) = file_scan(node).filter(|config| is_short(config)) else {
        return Ok(None);
    };
    let parts = config.file_groups.iter().flat_map(|group| group.iter());
    let parts = FileGroup::new(parts.cloned().collect());
    let config = FileScanConfigBuilder::from(config.clone())
        .with_file_groups(vec![parts])
        .build();
    Ok(Some(DataSourceExec::from_data_source(config)))
}

/// Returns whether a scan has several partitions, which nobody relies on, and few rows.
fn is_short(config: &FileScanConfig) -> bool {
    let is_free = config.output_ordering.is_empty() && config.output_partitioning.is_none();
    let is_short = config.limit.is_some_and(|limit| limit <= ROWS_MAX);
    is_free && is_short && config.file_groups.len() > 1
}
