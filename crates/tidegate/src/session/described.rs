//! What DESCRIBE and SHOW TABLES tell, in the names that SQL has for types.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::format::ExplainFormat;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::unparser::expr_to_sql;
use sqlparser::ast;

use super::rows_by_position::target;
use crate::sql_type::sql_type;

/// What SHOW TABLES lists.
const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_schema NOT IN ('information_schema', 'system') \
                      ORDER BY table_schema, table_name";

/// What SHOW ALL TABLES lists.
const ALL_TABLES: &str = "SELECT table_catalog AS database, table_schema AS schema, table_name AS name, \
                          array_agg(column_name ORDER BY ordinal_position) AS column_names, \
                          array_agg(data_type ORDER BY ordinal_position) AS column_types, \
                          table_schema = 'temp' AS temporary FROM information_schema.columns \
                          WHERE table_schema NOT IN ('information_schema', 'system') \
                          GROUP BY table_catalog, table_schema, table_name ORDER BY 1, 2, 3";

/// Returns the defaults of the columns of a table that is described, as SQL; none for any other statement.
///
/// # Errors
/// Those of looking up the table.
pub(super) async fn defaults(
    state: &SessionState,
    statement: &Statement,
) -> Result<HashMap<String, String>> {
    let Statement::Statement(inner) = statement else {
        return Ok(HashMap::new());
    };
    let ast::Statement::ExplainTable { table_name, .. } = inner.as_ref() else {
        return Ok(HashMap::new());
    };
    let Some(table) = target(state, table_name).await? else {
        return Ok(HashMap::new());
    };
    let schema = table.schema();
    let fields = schema.fields().iter();
    let told = fields.filter_map(|field| {
        let default = table.get_column_default(field.name())?;
        let text = expr_to_sql(default).map_or_else(|_| default.to_string(), |sql| sql.to_string());
        Some((field.name().clone(), text))
    });
    Ok(told.collect())
}

/// Tells of a table's columns in the types of SQL, with their defaults; any other plan stays as it is.
pub(super) fn plan(plan: LogicalPlan, defaults: &HashMap<String, String>) -> Result<LogicalPlan> {
    let LogicalPlan::DescribeTable(described) = plan else {
        return Ok(plan);
    };
    let fields = described.schema.fields();
    let text = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let columns = vec![
        text(fields.iter().map(|field| field.name().clone()).collect()),
        text(
            fields
                .iter()
                .map(|field| sql_type(field.data_type()))
                .collect(),
        ),
        text(
            fields
                .iter()
                .map(|field| if field.is_nullable() { "YES" } else { "NO" }.into())
                .collect(),
        ),
        Arc::new(StringArray::from_iter(
            fields.iter().map(|field| defaults.get(field.name())),
        )) as ArrayRef,
    ];
    let told = described.output_schema.fields().iter().cloned();
    let default = Field::new("column_default", DataType::Utf8, true);
    let schema = Schema::new(told.chain([default.into()]).collect::<Vec<_>>());
    let schema = Arc::new(schema);
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let table = MemTable::try_new(schema, vec![vec![rows]])?;
    LogicalPlanBuilder::scan("described", provider_as_source(Arc::new(table)), None)?.build()
}

/// Makes SHOW TABLES and SHOW ALL TABLES queries for the tables and views that somebody made. Those of the system are
/// in `information_schema.tables` too.
pub(super) fn show_tables(statement: &mut Statement) -> Result<()> {
    let Statement::Statement(inner) = &*statement else {
        return Ok(());
    };
    let query = match inner.as_ref() {
        ast::Statement::ShowTables { .. } if inner.to_string() == "SHOW TABLES" => TABLES,
        ast::Statement::ShowVariable { variable } => match variable.as_slice() {
            [all, tables] if is_word(all, "ALL") && is_word(tables, "TABLES") => ALL_TABLES,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let mut parsed = DFParser::parse_sql(query)?;
    if let Some(query) = parsed.pop_front() {
        *statement = query;
    }
    Ok(())
}

fn is_word(name: &ast::Ident, word: &str) -> bool {
    name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word)
}

/// Takes the format of an `EXPLAIN ANALYZE` out of it: DataFusion's planner knows two, and its plan takes
/// any.
pub(super) fn take_profile(statement: &mut Statement) -> Option<ExplainFormat> {
    match statement {
        Statement::Explain(explain) if explain.options.analyze && !explain.options.verbose => {
            explain.options.format.take()
        }
        _ => None,
    }
}
