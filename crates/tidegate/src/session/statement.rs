//! One statement's way from text to rows.

use std::sync::Arc;

use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as PlanStatement};
use datafusion::prelude::SQLOptions;

use super::{KernelReport, Session, cache, kernels};
use crate::error::{Error, ErrorKind};
use crate::memory::{StatementPool, default_cache_limit};
use crate::options::TidegateOptions;
use crate::query::{StatementText, on_large_stack};
use crate::statements::StatementError;
use crate::{statements, suggest};

/// Plans a statement; runs it if it is none that gives rows.
pub(super) async fn plan(
    session: &Session,
    sql: &str,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    // A chain of a few thousand operators overflows the stack somewhere in DataFusion, and that
    // ends the process: bound what is typed, and plan what passes on a large stack.
    statements::check_depth(sql).map_err(refused)?;
    if let Some(own) = statements::cache_statement(sql).map_err(refused)? {
        return on_large_stack(cache::run(session, own, sql, allowed)).await;
    }
    if let Some(query) = statements::explained_kernels(sql).map_err(refused)? {
        // Behind the words before it, the scan may have taken the query for another thing.
        statements::check_depth(&query).map_err(refused)?;
        return on_large_stack(kernels::explain(session, &query, sql, allowed)).await;
    }
    on_large_stack(plan_checked(session, sql, allowed)).await
}

fn refused(error: StatementError) -> Error {
    Error::with_source(ErrorKind::Sql, error.to_string(), error)
}

/// Plans a query and reports the kernels of its regions.
pub(super) async fn kernels(session: &Session, sql: &str) -> Result<Vec<KernelReport>, Error> {
    statements::check_depth(sql).map_err(refused)?;
    let state = session.ctx.state();
    let reports = kernels::reports(session, &state, sql, SQLOptions::new());
    on_large_stack(reports).await
}

async fn plan_checked(
    session: &Session,
    sql: &str,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    let mut state = session.ctx.state();
    state
        .config_mut()
        .set_extension(Arc::new(StatementText(sql.into())));
    let plan = match state.create_logical_plan(sql).await {
        Ok(plan) => plan,
        Err(error) => return Err(suggest::explain(error, sql, session).await),
    };
    allowed.verify_plan(&plan)?;
    match plan {
        LogicalPlan::Statement(PlanStatement::SetVariable(set)) => set_variable(session, set).await,
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            Ok(session.ctx.execute_logical_plan(plan).await?)
        }
        query => Ok(DataFrame::new(state, query)),
    }
}

/// Plans and starts a statement.
pub(super) async fn execute(
    session: &Session,
    sql: &str,
) -> Result<SendableRecordBatchStream, Error> {
    let frame = plan(session, sql, SQLOptions::new()).await?;
    Ok(on_large_stack(frame.execute_stream()).await?)
}

/// Sets a setting.
pub(super) async fn set(session: &Session, name: &str, value: &str) -> Result<(), Error> {
    let set = SetVariable {
        variable: name.into(),
        value: value.into(),
    };
    set_variable(session, set).await?;
    Ok(())
}

async fn set_variable(session: &Session, set: SetVariable) -> Result<DataFrame, Error> {
    let limits_memory = set.variable == "tidegate.memory_limit";
    let limits_cache = set.variable == "tidegate.host_cache_limit";
    let plan = LogicalPlan::Statement(PlanStatement::SetVariable(set));
    let done = session.ctx.execute_logical_plan(plan).await?;
    if limits_memory {
        limit_memory(session)?;
    }
    if limits_memory || limits_cache {
        limit_cache(session);
    }
    Ok(done)
}

/// Bounds what cached columns take; what is over the bound goes at once.
fn limit_cache(session: &Session) {
    let options = TidegateOptions::of(session.ctx.state().config_options());
    let memory = options.memory_limit.unwrap_or(session.memory.bytes);
    let limit = options.host_cache_limit;
    session
        .runtime
        .limit_host_cache(limit.unwrap_or_else(|| default_cache_limit(memory)));
}

/// Gives the statements from now on a pool of the size set; those that run keep theirs.
fn limit_memory(session: &Session) -> Result<(), Error> {
    let state_ref = session.ctx.state_ref();
    let mut state = state_ref.write();
    let limit = TidegateOptions::of(state.config_options()).memory_limit;
    let bytes = limit.unwrap_or(session.memory.bytes);
    let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(StatementPool::new(bytes, session.runtime.cache()))
        .build_arc()?;
    *state = SessionStateBuilder::from(state.clone())
        .with_runtime_env(environment)
        .build();
    Ok(())
}
