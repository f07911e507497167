//! Takes expressions out of Parquet scans.
//!
//! DataFusion merges a projection into the scan below it, which computes it then. What such a scan yields are
//! no columns of its files: a region cannot be lowered over it, pages cannot be read for it, and the host
//! tier keeps nothing of it. It becomes a projection over a scan of plain columns again.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion_datasource::file::FileSource;

use crate::files::file_scan;
use crate::leaf::parquet::cached::reorders;
use crate::lower::plan::plain_columns;

/// Returns a projection over a scan of plain columns in place of a Parquet scan that computes expressions;
/// `None` for any other node, and where the scan is better left as it is: it reads parts of nested columns,
/// no column, or its row groups in an order of its own.
pub(super) fn without_expressions(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let config = file_scan(plan)?;
    let source = config.file_source().downcast_ref::<ParquetSource>()?;
    let exprs = source.projection()?;
    if plain_columns(exprs.iter().map(|named| &named.expr)).is_some() || reorders(source) {
        return None;
    }
    let schema = source.table_schema();
    let table = schema.table_schema();
    let columns: BTreeSet<usize> = exprs
        .iter()
        .flat_map(|named| collect_columns(&named.expr))
        .map(|column| column.index())
        .collect();
    let is_nested = |index: &usize| table.field(*index).data_type().is_nested();
    if !schema.virtual_columns().is_empty() || columns.is_empty() || columns.iter().any(is_nested) {
        return None;
    }
    let mut plain = ParquetSource::new(schema.clone())
        .with_table_parquet_options(source.table_parquet_options().clone());
    if let Some(readers) = source.parquet_file_reader_factory() {
        plain = plain.with_parquet_file_reader_factory(Arc::clone(readers));
    }
    if let Some(predicate) = source.filter() {
        plain = plain.with_predicate(predicate);
    }
    let columns: Vec<usize> = columns.into_iter().collect();
    let columns = ProjectionExprs::from_indices(&columns, table);
    let plain = plain.try_pushdown_projection(&columns).ok()??;
    let config = FileScanConfigBuilder::from(config.clone())
        .with_source(plain)
        .build();
    let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
    let below = scan.schema();
    let exprs = exprs.iter().map(|named| {
        let expr = reassign_expr_columns(Arc::clone(&named.expr), &below).ok()?;
        Some(ProjectionExpr::new(expr, named.alias.clone()))
    });
    let exprs = exprs.collect::<Option<Vec<_>>>()?;
    Some(Arc::new(ProjectionExec::try_new(exprs, scan).ok()?))
}
