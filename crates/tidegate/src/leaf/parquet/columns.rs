//! The columns of its table that a Parquet scan yields.

use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion_datasource::file::FileSource;

use crate::lower::plan::plain_columns;

/// Returns the columns of its table that a scan yields, in order, or why they are not those of the table.
pub(super) fn columns_of(
    config: &FileScanConfig,
    source: &ParquetSource,
) -> Result<Vec<usize>, String> {
    if config.expr_adapter_factory.is_some() {
        return Err("the scan has a custom schema adapter".into());
    }
    let schema = source.table_schema();
    if !schema.virtual_columns().is_empty() {
        return Err("the scan has virtual columns".into());
    }
    let columns = match source.projection() {
        Some(exprs) => plain_columns(exprs.iter().map(|named| &named.expr)),
        None => Some((0..schema.table_schema().fields().len()).collect()),
    };
    columns.ok_or_else(|| "the scan computes expressions".into())
}
