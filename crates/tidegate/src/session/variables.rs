//! `SET VARIABLE x = …` and `RESET VARIABLE x`: a value of a session, which `getvariable('x')` gives.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use datafusion::execution::FunctionRegistry;
use datafusion::prelude::SQLOptions;

use super::cache::check_allowed;
use super::summary::is_query;
use super::{Session, statement};
use crate::error::{Error, ErrorKind};
use crate::functions::variables::{NAME, Variables};
use crate::query::begins;
use crate::statements::{StatementContext, Unparsed};

/// Sets a variable to the one value of a query; forgets it if there is no query.
pub(super) async fn set(
    session: &Session,
    name: String,
    query: Option<Unparsed>,
    context: Arc<StatementContext>,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    check_allowed(allowed)?;
    let value = match query {
        Some(query) => Some(value_of(session, &name, query, context).await?),
        None => None,
    };
    session.plans.clear();
    let state = session.ctx.state_ref();
    let known = state.read().scalar_functions().get(NAME).cloned();
    let changed = Variables::with(known.as_deref(), name, value);
    state.write().register_udf(Arc::new(changed))?;
    Ok(session.ctx.read_empty()?.limit(0, Some(0))?)
}

/// Runs a query that gives one value; NULL of no row.
async fn value_of(
    session: &Session,
    name: &str,
    query: Unparsed,
    context: Arc<StatementContext>,
) -> Result<ScalarValue, Error> {
    let state = statement::state_of(session, context)?;
    let plan = statement::logical_plan(session, &state, query).await?;
    super::rights::check_rights(&state, &plan)?;
    let columns = plan.schema().fields();
    let data_type = match &columns[..] {
        [column] if is_query(&plan) => column.data_type().clone(),
        _ => {
            let message = format!("SET VARIABLE {name}: a variable has one value");
            return Err(Error::new(ErrorKind::Sql, message));
        }
    };
    begins();
    let rows = DataFrame::new(state, plan)
        .limit(0, Some(2))?
        .collect()
        .await?;
    let num_rows: usize = rows.iter().map(RecordBatch::num_rows).sum();
    if num_rows > 1 {
        let message = format!(
            "SET VARIABLE {name}: a variable has one value, and the query gives several rows"
        );
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let value = match rows.iter().find(|rows| rows.num_rows() > 0) {
        Some(row) => ScalarValue::try_from_array(row.column(0), 0)?,
        None => ScalarValue::try_from(&data_type)?,
    };
    Ok(value)
}
