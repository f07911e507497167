//! `INSERT`, `UPDATE` and `DELETE … RETURNING …`: a query of the rows that the statement changes.
//!
//! The statement is planned without the clause. `SELECT … FROM t` of what the clause names is planned beside it, and has
//! the rows that are changed where it would read those of the table.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::sql::parser::{DFParser, Statement};
use sqlparser::ast::{self, FromTable, SelectItem, SetExpr, TableObject};

use super::Session;
use crate::accounted::returned::{ReturnedRows, keeps_rows};
use crate::error::{Error, ErrorKind};
use crate::statements::ParsedStatement;

/// What a statement returns.
#[derive(Debug)]
pub(super) struct Returning {
    items: Vec<SelectItem>,
    /// The table as the statement has it, with its other name.
    table: String,
}

/// Takes RETURNING out of a statement.
pub(super) fn take(statement: &mut Statement) -> Option<Returning> {
    let Statement::Statement(inner) = statement else {
        return None;
    };
    let inner = match inner.as_mut() {
        ast::Statement::Prepare { statement, .. } => statement.as_mut(),
        inner => inner,
    };
    let (items, table) = match inner {
        ast::Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => (insert.returning.take(), name.to_string()),
            _ => return None,
        },
        ast::Statement::Update(update) => {
            let table = update.table.relation.to_string();
            (update.returning.take(), table)
        }
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                &delete.from;
            let table = tables.first()?.relation.to_string();
            (delete.returning.take(), table)
        }
        _ => return None,
    };
    let items = items?;
    Some(Returning { items, table })
}

impl Returning {
    /// Makes the plan of a statement a query of the rows that it changes.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if its table is not in memory, and those of planning what is returned.
    pub(super) async fn of(
        self,
        session: &Session,
        state: &SessionState,
        change: LogicalPlan,
    ) -> Result<LogicalPlan> {
        if let LogicalPlan::Statement(PlanStatement::Prepare(mut prepare)) = change {
            let change = prepare.input.as_ref().clone();
            prepare.input = self.rows(session, state, change).await?.into();
            return Ok(LogicalPlan::Statement(PlanStatement::Prepare(prepare)));
        }
        self.rows(session, state, change).await
    }

    async fn rows(
        self,
        session: &Session,
        state: &SessionState,
        change: LogicalPlan,
    ) -> Result<LogicalPlan> {
        let table = match &change {
            LogicalPlan::Dml(dml) if keeps_rows(dml) => dml.table_name.clone(),
            _ => {
                let message = format!(
                    "RETURNING gives the rows of tables in memory alone, and {} is none: SELECT them",
                    self.table
                );
                return Err(Error::new(ErrorKind::NotSupported, message).into());
            }
        };
        let mut parsed = DFParser::parse_sql(&format!("SELECT * FROM {}", self.table))?;
        let Some(mut query) = parsed.pop_front() else {
            return Ok(change);
        };
        if let Statement::Statement(inner) = &mut query
            && let ast::Statement::Query(query) = inner.as_mut()
            && let SetExpr::Select(select) = query.body.as_mut()
        {
            select.projection = self.items;
        }
        let parsed = ParsedStatement {
            statement: query,
            is_summary: false,
        };
        let rows = Box::pin(session.plan_parsed(state, parsed)).await?;
        let mut change = Some(change);
        let returned = rows.transform_up(|node| match node {
            LogicalPlan::TableScan(scan) if scan.table_name == table => match change.take() {
                Some(change) => {
                    let schema = scan.projected_schema;
                    Ok(Transformed::yes(ReturnedRows::plan(change, schema)))
                }
                None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
            },
            node => Ok(Transformed::no(node)),
        })?;
        Ok(returned.data)
    }
}
