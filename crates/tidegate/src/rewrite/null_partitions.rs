//! Statistics of tables in folders whose names are values, one of which is NULL (`k=__HIVE_DEFAULT_PARTITION__`).
//!
//! DataFusion takes it that no such column is NULL, and answers `count(k)` from the number of rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::files::file_scan;
use crate::node_rule::Replaced;

/// Has a scan say nothing of such columns. Must come before the rules that believe what a plan claims.
pub(super) fn forget_null_partitions(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(config) = file_scan(node) else {
        return Ok(None);
    };
    let mut files = config.file_groups.iter().flat_map(FileGroup::files);
    if !files.any(has_null) {
        return Ok(None);
    }
    let first = config.file_schema().fields().len();
    let mut statistics = config.statistics();
    for column in statistics.column_statistics.iter_mut().skip(first) {
        *column = ColumnStatistics::new_unknown();
    }
    let without = |file: &PartitionedFile| {
        let mut file = file.clone();
        if let Some(statistics) = &mut file.statistics {
            let columns = &mut Arc::make_mut(statistics).column_statistics;
            for column in columns.iter_mut().skip(first) {
                *column = ColumnStatistics::new_unknown();
            }
        }
        file
    };
    let groups = config.file_groups.iter().map(|group| {
        let files = group.files().iter().map(without);
        FileGroup::new(files.collect())
    });
    let config = FileScanConfigBuilder::from(config.clone())
        .with_file_groups(groups.collect())
        .with_statistics(statistics)
        .build();
    Ok(Some(DataSourceExec::from_data_source(config)))
}

fn has_null(file: &PartitionedFile) -> bool {
    file.partition_values.iter().any(ScalarValue::is_null)
}
