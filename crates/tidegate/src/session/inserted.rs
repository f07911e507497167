//! VALUES that a table refuses, and not their list.
//!
//! The planner gives a list of VALUES the columns of the table that it goes into, and so fails at a NULL with its own
//! name of the column, `column1`. Here the list may have NULL, and the table says which column of it may not.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, DmlStatement, LogicalPlan, Values};

/// Lets the VALUES of INSERT and of CREATE TABLE AS have NULL in each column.
pub(super) fn let_table_refuse(plan: &mut LogicalPlan) -> Result<()> {
    let input = match plan {
        LogicalPlan::Dml(DmlStatement { input, .. }) => input,
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) => &mut table.input,
        _ => return Ok(()),
    };
    let is_strict = |node: &LogicalPlan| match node {
        LogicalPlan::Values(values) => {
            let mut fields = values.schema.fields().iter();
            Ok(fields.any(|field| !field.is_nullable()))
        }
        _ => Ok(false),
    };
    if !input.exists(is_strict)? {
        return Ok(());
    }
    let relaxed = input.as_ref().clone().transform_up(|node| match node {
        LogicalPlan::Values(values) => {
            let values = with_nulls(values)?;
            Ok(Transformed::yes(LogicalPlan::Values(values)))
        }
        node => Ok(Transformed::yes(node.recompute_schema()?)),
    })?;
    *input = Arc::new(relaxed.data);
    Ok(())
}

fn with_nulls(values: Values) -> Result<Values> {
    let fields = values.schema.iter().map(|(table, field)| {
        let field: Field = field.as_ref().clone().with_nullable(true);
        (table.cloned(), Arc::new(field))
    });
    let metadata = values.schema.metadata().clone();
    let schema = DFSchema::new_with_metadata(fields.collect(), metadata)?;
    Ok(Values {
        schema: Arc::new(schema),
        values: values.values,
    })
}
