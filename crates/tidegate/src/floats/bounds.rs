//! The bounds of float columns that scans of files know.
//!
//! Statistics of files leave NaN out of minimum and maximum, and 0.0 may stand for −0.0 there. DataFusion gives
//! every row of a column the one value between exact bounds that are equal, and takes such a column as
//! constant when it plans sorts. So exact bounds become estimates, whatever provider made the scan.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ColumnStatistics, Statistics, stats::Precision};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;

use crate::files::file_scan;
use crate::node_rule::Replaced;

/// Takes exact bounds of float columns of files as estimates. It must come before the rules that read
/// statistics.
pub(crate) fn estimate_bounds(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let estimated = file_scan(node).and_then(with_estimates);
    Ok(estimated.map(|scan| DataSourceExec::from_data_source(scan) as _))
}

/// Returns a scan without exact bounds of float columns, if it has any.
fn with_estimates(scan: &FileScanConfig) -> Option<FileScanConfig> {
    let schema = scan.file_schema();
    let has_exact = |statistics: &Statistics| has_exact(statistics, schema);
    let mut all = scan.statistics();
    let is_exact = has_exact(&all)
        || scan.file_groups.iter().any(|group| {
            let of_files = group.iter().filter_map(|file| file.statistics.as_deref());
            of_files.chain(group.file_statistics(None)).any(has_exact)
        });
    if !is_exact {
        return None;
    }
    let groups = scan.file_groups.iter().map(|group| {
        let mut files = group.files().to_vec();
        for statistics in files.iter_mut().filter_map(|file| file.statistics.as_mut()) {
            if has_exact(statistics) {
                estimate(Arc::make_mut(statistics), schema);
            }
        }
        let mut estimated = FileGroup::new(files);
        if let Some(statistics) = group.file_statistics(None) {
            let mut statistics = statistics.clone();
            estimate(&mut statistics, schema);
            estimated = estimated.with_statistics(Arc::new(statistics));
        }
        estimated
    });
    estimate(&mut all, schema);
    let scan = FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(groups.collect())
        .with_statistics(all);
    Some(scan.build())
}

fn has_exact(statistics: &Statistics, schema: &Schema) -> bool {
    let columns = statistics.column_statistics.iter().zip(schema.fields());
    let mut floats = columns.filter(|(_, field)| field.data_type().is_floating());
    floats.any(
        |(
            ColumnStatistics {
                min_value,
                max_value,
                ..
            },
            _,
        )| {
            matches!(min_value, Precision::Exact(_)) || matches!(max_value, Precision::Exact(_))
        },
    )
}

fn estimate(statistics: &mut Statistics, schema: &Schema) {
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if field.data_type().is_floating() {
            column.min_value = column.min_value.clone().to_inexact();
            column.max_value = column.max_value.clone().to_inexact();
        }
    }
}
