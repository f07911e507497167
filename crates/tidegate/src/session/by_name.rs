//! `INSERT INTO t BY NAME SELECT …`: the columns of the query are those of the table that are called alike.

use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, Ident, ObjectName};

use super::Session;
use crate::statements::{BY_NAME, ParsedStatement};

/// Names the columns of an INSERT as its query does; leaves any other statement as it is.
///
/// # Errors
/// Those of planning the query.
pub(super) async fn name_columns(
    session: &Session,
    state: &SessionState,
    statement: &mut Statement,
) -> Result<()> {
    let Statement::Statement(inner) = statement else {
        return Ok(());
    };
    let ast::Statement::Insert(insert) = inner.as_mut() else {
        return Ok(());
    };
    let is_by_name = |name: &ObjectName| match name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| name.value == BY_NAME),
        _ => false,
    };
    let (Some(source), true) = (&insert.source, insert.columns.iter().any(is_by_name)) else {
        return Ok(());
    };
    let query = ast::Statement::Query(source.clone());
    let parsed = ParsedStatement {
        statement: Statement::Statement(Box::new(query)),
        is_summary: false,
    };
    let plan = Box::pin(session.plan_parsed(state, parsed)).await?;
    let names = plan.schema().fields().iter().map(|field| field.name());
    let columns = names.map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]));
    insert.columns = columns.collect();
    Ok(())
}
