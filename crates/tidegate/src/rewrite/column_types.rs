//! `information_schema.columns` names types as SQL does: DataFusion's has the names of Arrow.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::walk::any_node;
use crate::functions::sql_types;

/// Puts a projection above each scan of the table, which has the same columns.
pub(super) fn name_types(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    if !any_node(&plan, |node| Ok(is_of_columns(node)))? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| {
        if !is_of_columns(&node) {
            return Ok(Transformed::no(node));
        }
        let columns = node.schema().columns();
        let columns = columns.into_iter().map(|column| {
            if column.name != "data_type" {
                return Expr::Column(column);
            }
            let (table, name) = (column.relation.clone(), column.name.clone());
            let named = sql_types::function().call(vec![Expr::Column(column)]);
            named.alias_qualified(table, name)
        });
        let columns: Vec<Expr> = columns.collect();
        let named = LogicalPlanBuilder::from(node).project(columns)?.build()?;
        Ok(Transformed::yes(named))
    })
    .data()
}

fn is_of_columns(node: &LogicalPlan) -> bool {
    let LogicalPlan::TableScan(scan) = node else {
        return false;
    };
    let table = &scan.table_name;
    table.table() == "columns" && table.schema() == Some("information_schema")
}
