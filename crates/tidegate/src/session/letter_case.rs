//! Statements that name columns in other letters than their tables do.

use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::Session;
use super::statement::{Source, plan_parsed, plan_text};
use crate::error::{Error, ErrorKind};
use crate::statements::SqlText;
use crate::statements::letter_case::{CasedNames, tables, write_as_named};

/// The most tables of a statement whose columns are looked up.
const TABLES_MAX: usize = 32;

/// Plans a statement again that could not be planned, with the names of its columns as its tables have them; `None` if
/// it names none in other letters.
pub(super) async fn plan(
    session: &Session,
    state: &SessionState,
    source: &mut Source,
    error: &DataFusionError,
) -> Option<Result<LogicalPlan, DataFusionError>> {
    if Error::from_ref(error).kind() != ErrorKind::Sql {
        return None;
    }
    let sql = source.sql.clone();
    let text = SqlText::new(&sql, &state.config_options().sql_parser).ok()?;
    let mut parsed = source.parse(state, text.parse().ok()?.standard()?).ok()?;
    let mut names = CasedNames::default();
    for table in tables(&parsed.statement).into_iter().take(TABLES_MAX) {
        let select = format!("SELECT * FROM {table}");
        // A table of WITH is none of the session's.
        let Ok(table) = Box::pin(plan_text(session, state, &select)).await else {
            continue;
        };
        for field in table.schema().fields() {
            names.add(field.name());
        }
    }
    if !write_as_named(&mut parsed.statement, &names) {
        return None;
    }
    Some(Box::pin(plan_parsed(session, state, parsed)).await)
}
