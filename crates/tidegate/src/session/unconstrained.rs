//! Tables of DataFusion's without the constraints that were given to them: nobody checks those, and
//! plans would rely on them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Constraints;
use datafusion::datasource::listing::ListingTable;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

/// Returns the same table without constraints, if it is one of DataFusion's. What a table of the
/// program's own states is the program's promise.
///
/// # Errors
/// Those of making a table in memory.
pub(super) fn without_constraints(table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    if table.constraints().is_none_or(|known| known.is_empty()) {
        return Ok(table);
    }
    if let Some(files) = table.downcast_ref::<ListingTable>() {
        let files = files.clone().with_constraints(Constraints::default());
        return Ok(Arc::new(files));
    }
    let Some(memory) = table.downcast_ref::<MemTable>() else {
        return Ok(table);
    };
    let schema = memory.schema();
    let defaults: HashMap<String, Expr> = schema
        .fields()
        .iter()
        .filter_map(|field| {
            let default = memory.get_column_default(field.name())?;
            Some((field.name().clone(), default.clone()))
        })
        .collect();
    // It must be made with a partition.
    let mut same = MemTable::try_new(Arc::clone(&schema), vec![Vec::new()])?;
    same.batches = memory.batches.clone();
    same.sort_order = Arc::clone(&memory.sort_order);
    Ok(Arc::new(same.with_column_defaults(defaults)))
}
