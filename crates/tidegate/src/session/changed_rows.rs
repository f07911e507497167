//! `DELETE FROM t AS x WHERE …`, `DELETE FROM t USING u WHERE …` and `UPDATE t SET a = u.b FROM u WHERE …`, which DataFusion
//! does not plan.
//!
//! The rows that change are those of a query, `SELECT * FROM t AS x, u WHERE …`, in which the table stands first; an UPDATE
//! selects the new values.

use std::sync::Arc;

use datafusion::common::plan_err;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::planner::object_name_to_table_reference;
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, Delete, Expr, FromTable, ObjectName, SelectItem, SetExpr,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind,
};

use super::scoped;
use crate::accounted::AccountedTable;
use crate::error::{Error, ErrorKind};

/// Plans a DELETE with an alias, and a DELETE or an UPDATE of rows that other tables tell; returns `None` for any other
/// statement.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for several tables, joins, clauses that would be left out, and tables that are not in
/// memory, and the errors of planning.
pub(super) async fn plan(
    state: &SessionState,
    statement: &Statement,
) -> Result<Option<LogicalPlan>> {
    let Statement::Statement(inner) = statement else {
        return Ok(None);
    };
    let change = match inner.as_ref() {
        ast::Statement::Delete(delete) => of_delete(delete)?,
        ast::Statement::Update(update) => of_update(update)?,
        _ => None,
    };
    let Some(change) = change else {
        return Ok(None);
    };
    let normalizes = state.config_options().sql_parser.enable_ident_normalization;
    let table = object_name_to_table_reference(change.name, normalizes)?;
    let schema = state.schema_for_ref(table.clone())?;
    let Some(provider) = schema.table(table.table()).await? else {
        return plan_err!("table '{table}' not found");
    };
    if AccountedTable::memory_of(provider.as_ref()).is_none() {
        let message = format!("rows of {table} cannot be changed: it is no table in memory");
        return Err(Error::new(ErrorKind::NotSupported, message).into());
    }
    let Some(query) = query_of(change.items, change.from, change.selection)? else {
        return Ok(None);
    };
    let rows = Box::pin(scoped::plan(state, query)).await?;
    Ok(Some(LogicalPlan::Dml(DmlStatement::new(
        table,
        provider_as_source(provider),
        change.op,
        Arc::new(rows),
    ))))
}

/// A statement whose rows are those of a query.
struct Change {
    name: ObjectName,
    op: WriteOp,
    /// The new values by the names of their columns; none of DELETE.
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
}

fn of_delete(delete: &Delete) -> Result<Option<Change>, Error> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let is_plain = match tables.as_slice() {
        [table] => {
            matches!(table.relation, TableFactor::Table { alias: None, .. })
                && table.joins.is_empty()
                && delete.using.is_none()
                && delete.tables.is_empty()
        }
        _ => false,
    };
    if is_plain {
        return Ok(None);
    }
    let is_more = delete.output.is_some() || !delete.order_by.is_empty() || delete.limit.is_some();
    if is_more {
        return Err(not_supported(
            "DELETE: OUTPUT, ORDER BY and LIMIT are not supported: name the rows in WHERE, and RETURNING gives them",
        ));
    }
    let name = match tables.as_slice() {
        [table] if delete.tables.is_empty() => name_of(table),
        _ => None,
    };
    let Some(name) = name else {
        return Err(not_supported(
            "DELETE: rows of one table are deleted: name the others in USING, as in DELETE FROM t USING u WHERE t.i = u.k",
        ));
    };
    let others = delete.using.iter().flatten();
    Ok(Some(Change {
        name,
        op: WriteOp::Delete,
        items: Vec::new(),
        from: tables.iter().chain(others).cloned().collect(),
        selection: delete.selection.clone(),
    }))
}

fn of_update(update: &Update) -> Result<Option<Change>, Error> {
    let Some(UpdateTableFromKind::AfterSet(others)) = &update.from else {
        return Ok(None);
    };
    if update.output.is_some() || update.or.is_some() {
        return Err(not_supported(
            "UPDATE … FROM: OUTPUT and OR are not supported: RETURNING gives the rows",
        ));
    }
    let Some(name) = name_of(&update.table) else {
        return Err(not_supported(
            "UPDATE: rows of one table are changed: name the others in FROM, as in UPDATE t SET a = u.b FROM u WHERE \
             t.i = u.k",
        ));
    };
    let items = update.assignments.iter().map(new_value);
    Ok(Some(Change {
        name,
        op: WriteOp::Update,
        items: items.collect::<Result<_, _>>()?,
        from: std::iter::once(&update.table)
            .chain(others)
            .cloned()
            .collect(),
        selection: update.selection.clone(),
    }))
}

fn new_value(assignment: &Assignment) -> Result<SelectItem, Error> {
    let column = match &assignment.target {
        AssignmentTarget::ColumnName(name) => name.0.last().and_then(|part| part.as_ident()),
        AssignmentTarget::Tuple(_) => None,
    };
    match column {
        Some(column) => Ok(SelectItem::ExprWithAlias {
            expr: assignment.value.clone(),
            alias: column.clone(),
        }),
        None => Err(not_supported("UPDATE … FROM sets each column by itself")),
    }
}

/// Returns the name of a table that is not joined.
fn name_of(table: &TableWithJoins) -> Option<ObjectName> {
    match &table.relation {
        TableFactor::Table {
            name, args: None, ..
        } if table.joins.is_empty() => Some(name.clone()),
        _ => None,
    }
}

/// Writes the query whose rows are changed.
fn query_of(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<Option<Statement>> {
    let mut parsed = DFParser::parse_sql("SELECT * FROM t")?;
    let Some(mut statement) = parsed.pop_front() else {
        return Ok(None);
    };
    if let Statement::Statement(inner) = &mut statement
        && let ast::Statement::Query(query) = inner.as_mut()
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        if !items.is_empty() {
            select.projection = items;
        }
        select.from = from;
        select.selection = selection;
    }
    Ok(Some(statement))
}

fn not_supported(message: &str) -> Error {
    Error::new(ErrorKind::NotSupported, message)
}
