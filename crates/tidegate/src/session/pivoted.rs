//! PIVOT whose values the statement does not list, `PIVOT t ON k USING sum(v)`: they are asked for before it is planned,
//! since its columns are named by them. So are the columns of `UNPIVOT t ON COLUMNS(…)`.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use sqlparser::ast;

use super::Session;
use super::rights::check_rights;
use crate::sql_type::sql_type;
use crate::statements::ParsedStatement;
use crate::statements::pivot::{self, PivotValue, Question};
use crate::statements::scope::{places, visit_at};

/// The most of them in a statement.
const PIVOTS_MAX: usize = 100;

/// Lists the values of every PIVOT of a statement, as its tables have them now, and the columns of every UNPIVOT.
///
/// # Errors
/// Those of the queries, which the session's client must be allowed to ask.
pub(super) async fn list_values(
    session: &Session,
    state: &SessionState,
    statement: &mut Statement,
) -> Result<()> {
    for _ in 0..PIVOTS_MAX {
        let open = places(statement, |query, _| pivot::is_open(query));
        let Some(place) = open.first().copied() else {
            return Ok(());
        };
        let question = visit_at(statement, place, |query, with, _| {
            pivot::question(query, with)
        });
        let Some(question) = question.flatten() else {
            return Ok(());
        };
        let question = match question {
            Question::Values(question) => question,
            Question::Columns(question) => {
                let plan = plan_question(session, state, question).await?;
                let fields = plan.schema().fields().iter();
                let names: Vec<String> = fields.map(|field| field.name().clone()).collect();
                visit_at(statement, place, |query, _, _| {
                    pivot::name_columns(query, &names);
                });
                continue;
            }
        };
        let plan = plan_question(session, state, question).await?;
        let rows = DataFrame::new(state.clone(), plan).collect().await?;
        let mut values = Vec::new();
        for batch in &rows {
            values.extend(values_of(batch)?);
        }
        let answered = visit_at(statement, place, |query, _, _| {
            pivot::answer(query, &values)
        });
        answered.transpose()?;
    }
    Ok(())
}

async fn plan_question(
    session: &Session,
    state: &SessionState,
    question: ast::Query,
) -> Result<LogicalPlan> {
    let question = ast::Statement::Query(Box::new(question));
    let parsed = ParsedStatement {
        statement: Statement::Statement(Box::new(question)),
        is_summary: false,
    };
    let plan = Box::pin(session.plan_parsed(state, parsed)).await?;
    check_rights(state, &plan)?;
    Ok(plan)
}

/// Returns the values of each row.
fn values_of(batch: &RecordBatch) -> Result<Vec<PivotValue>> {
    let columns = batch.columns().iter().map(|column| {
        let data_type = match column.data_type() {
            DataType::Dictionary(_, of) => of.as_ref(),
            other => other,
        };
        let data_type = (!data_type.is_string()).then(|| sql_type(data_type));
        Ok((data_type, cast(column, &DataType::Utf8)?))
    });
    let columns = columns.collect::<Result<Vec<(_, ArrayRef)>>>()?;
    let value = |row: usize| {
        let parts = columns.iter().map(|(data_type, texts)| {
            let text = || texts.as_string::<i32>().value(row).to_owned();
            texts.is_valid(row).then(|| (data_type.clone(), text()))
        });
        PivotValue(parts.collect())
    };
    Ok((0..batch.num_rows()).map(value).collect())
}
