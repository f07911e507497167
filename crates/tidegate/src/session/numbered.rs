//! Columns of what is kept have names of their own: the second `id` of a join is `id_1` in a table, a view or a
//! file.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder};

/// Numbers the columns of a new table, view or file whose name a column before them has.
pub(super) fn number(plan: &mut LogicalPlan) -> Result<()> {
    let input = match plan {
        LogicalPlan::Copy(copy) => &mut copy.input,
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) => &mut table.input,
        LogicalPlan::Ddl(DdlStatement::CreateView(view)) => &mut view.input,
        _ => return Ok(()),
    };
    let schema = Arc::clone(input.schema());
    let fields = schema.fields();
    let mut taken: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
    if taken.len() == fields.len() {
        return Ok(());
    }
    let mut seen = HashSet::new();
    let mut columns = Vec::with_capacity(fields.len());
    for (table, field) in schema.iter() {
        let name = field.name();
        let column = Expr::Column(Column::new(table.cloned(), name));
        columns.push(match seen.insert(name) {
            true => column,
            false => column.alias(free(name, &mut taken)),
        });
    }
    let numbered = LogicalPlanBuilder::new_from_arc(Arc::clone(input)).project(columns)?;
    *input = Arc::new(numbered.build()?);
    Ok(())
}

/// Takes a name that no column has: another one with a number behind it.
fn free(name: &str, taken: &mut HashSet<String>) -> String {
    let mut number = 1;
    loop {
        let numbered = format!("{name}_{number}");
        if taken.insert(numbered.clone()) {
            return numbered;
        }
        number += 1;
    }
}
