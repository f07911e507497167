//! `INSERT INTO t VALUES (ROW(1, 'a'))`: the values of a row are those of the fields of a struct, in their order.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use sqlparser::ast::{self, Expr, ObjectName, ObjectNamePart, SetExpr, TableObject, Values};

use crate::statements::using::folded;
use crate::statements::{named_row, row_values};

/// Names the values of rows within the values of an INSERT; leaves any other statement as it is.
///
/// # Errors
/// Those of looking up the table.
pub(super) async fn name_fields(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let Statement::Statement(inner) = statement else {
        return Ok(());
    };
    let ast::Statement::Insert(insert) = inner.as_mut() else {
        return Ok(());
    };
    let (TableObject::TableName(name), Some(source)) = (&insert.table, &mut insert.source) else {
        return Ok(());
    };
    let SetExpr::Values(values) = source.body.as_mut() else {
        return Ok(());
    };
    if !has_rows(values) {
        return Ok(());
    }
    let Some(provider) = target(state, name).await? else {
        return Ok(());
    };
    let schema = provider.schema();
    let of_name = |name: &ObjectName| {
        let name = name.0.last().and_then(ObjectNamePart::as_ident)?;
        let (_, field) = schema.fields().find(&folded(name))?;
        Some(FieldRef::clone(field))
    };
    let columns: Vec<Option<FieldRef>> = match insert.columns.is_empty() {
        true => schema.fields().iter().cloned().map(Some).collect(),
        false => insert.columns.iter().map(of_name).collect(),
    };
    for row in &mut values.rows {
        for (value, column) in row.iter_mut().zip(&columns) {
            if let Some(column) = column {
                name_values(value, column.data_type());
            }
        }
    }
    Ok(())
}

/// Returns the table that a statement names; `None` if there is none, which the planner says.
///
/// # Errors
/// Those of looking it up.
pub(super) async fn target(
    state: &SessionState,
    name: &ObjectName,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let normalizes = state.config_options().sql_parser.enable_ident_normalization;
    let table = object_name_to_table_reference(name.clone(), normalizes)?;
    let Ok(schema) = state.schema_for_ref(table.clone()) else {
        return Ok(None);
    };
    schema.table(table.table()).await
}

fn has_rows(values: &Values) -> bool {
    let mut all = values.rows.iter().flat_map(|row| row.iter());
    all.any(|value| matches!(value, Expr::Array(_)) || row_values(value).is_some())
}

/// Names the values of a row as the fields of a type are, also within a list.
fn name_values(value: &mut Expr, data_type: &DataType) {
    match (data_type, value) {
        (DataType::List(field) | DataType::LargeList(field), Expr::Array(list)) => {
            for value in &mut list.elem {
                name_values(value, field.data_type());
            }
        }
        (DataType::Struct(fields), value) => {
            let values = row_values(value).filter(|values| values.len() == fields.len());
            let Some(mut values) = values else {
                return;
            };
            for (value, field) in values.iter_mut().zip(fields) {
                name_values(value, field.data_type());
            }
            let names = fields.iter().map(|field| field.name().clone());
            *value = named_row(names.zip(values));
        }
        _ => {}
    }
}
