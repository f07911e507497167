//! One statement's way from text to rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::catalog::Session as CatalogSession;
use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{
    DdlStatement, LogicalPlan, SetVariable, Statement as PlanStatement,
};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_planner::PhysicalPlanner;
use datafusion::prelude::SQLOptions;
use tidegate_scheduler::AdmissionLimits;

use super::prepared::{self, Prepared};
use super::{
    Client, KernelReport, Session, cache, formats, functions, held, hints, kernels, kill, known,
    summary,
};
use crate::access::AllowedPaths;
use crate::error::{Error, ErrorKind};
use crate::frames::planner;
use crate::memory::{StatementPool, default_cache_limit, default_pinned_limit};
use crate::options::{DeviceLimits, DeviceList, ReplayedPlacement, TidegateOptions};
use crate::query::{KnownStatement, StatementText, on_large_stack, watched};
use crate::statements::StatementError;
use crate::{statements, suggest};

/// What a statement has become.
enum Outcome {
    /// A frame; the second says whether the statement is a query that has not run yet.
    Frame(DataFrame, bool),
    /// EXECUTE of a prepared statement.
    Execute(Prepared, Vec<ScalarValue>),
}

/// Plans a statement; runs it if it is none that gives rows.
pub(super) async fn plan(
    session: &Session,
    sql: &str,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    if let Some(known) = known::find(session, sql).await {
        let state = state_of(session, sql)?;
        return Ok(DataFrame::new(state, KnownStatement::plan(known)));
    }
    match outcome(session, sql, allowed).await? {
        Outcome::Frame(frame, true) => {
            on_large_stack(known::plan_again(session, sql, &frame)).await;
            Ok(frame)
        }
        Outcome::Frame(frame, false) => Ok(frame),
        Outcome::Execute(prepared, values) => prepared.frame(sql, &values).await,
    }
}

async fn outcome(session: &Session, sql: &str, allowed: SQLOptions) -> Result<Outcome, Error> {
    check_text(sql)?;
    if let Some(id) = statements::killed_query(sql).map_err(refused)? {
        return Ok(Outcome::Frame(kill::run(session, id)?, false));
    }
    if let Some(own) = statements::cache_statement(sql).map_err(refused)? {
        session.known.clear();
        let told = on_large_stack(cache::run(session, own, sql, allowed)).await?;
        return Ok(Outcome::Frame(told, false));
    }
    if let Some(query) = statements::explained_kernels(sql).map_err(refused)? {
        // Behind the words before it, the scan may have taken the query for another thing.
        statements::check_depth(&query).map_err(refused)?;
        let told = on_large_stack(kernels::explain(session, &query, sql, allowed)).await?;
        return Ok(Outcome::Frame(told, false));
    }
    on_large_stack(plan_checked(session, sql, allowed)).await
}

/// Returns the session's state with the text of a statement, and with the settings of its hints.
pub(super) fn state_of(session: &Session, sql: &str) -> Result<SessionState, Error> {
    let mut state = session.ctx.state();
    let config = state.config_mut();
    config.set_extension(Arc::new(StatementText::new(sql)));
    hints::apply(session, &mut state, sql)?;
    Ok(state)
}

/// Refuses text that must not be parsed.
pub(super) fn check_text(sql: &str) -> Result<(), Error> {
    // A chain of a few thousand operators overflows the stack somewhere in DataFusion, and that
    // ends the process: bound what is typed, and plan what passes on a large stack.
    statements::check_depth(sql).map_err(refused)
}

/// Tells whether a statement is one of those that [`plan`] runs by itself, before DataFusion sees it.
pub(super) fn is_own(sql: &str) -> Result<bool, Error> {
    let caches = statements::cache_statement(sql).map_err(refused)?.is_some();
    Ok(caches
        || statements::explained_kernels(sql)
            .map_err(refused)?
            .is_some())
}

pub(super) fn refused(error: StatementError) -> Error {
    Error::with_source(ErrorKind::Sql, error.to_string(), error)
}

/// Prepares a statement.
pub(super) async fn prepare(session: &Session, sql: &str) -> Result<Prepared, Error> {
    statements::check_depth(sql).map_err(refused)?;
    on_large_stack(prepared::prepare(session, sql)).await
}

/// Plans a query and reports the kernels of its regions.
pub(super) async fn kernels(session: &Session, sql: &str) -> Result<Vec<KernelReport>, Error> {
    statements::check_depth(sql).map_err(refused)?;
    let state = state_of(session, sql)?;
    let reports = kernels::reports(session, &state, sql, SQLOptions::new());
    on_large_stack(reports).await
}

/// Plans a text, as DataFusion does but for options of object stores: those are taken out first.
pub(super) async fn logical_plan(
    session: &Session,
    state: &SessionState,
    sql: &str,
) -> Result<LogicalPlan, DataFusionError> {
    let summarized = statements::summarized(sql).map_err(refused)?;
    if let Some(query) = &summarized {
        // Behind the words before it, the scan may have taken the query for another thing.
        check_text(query)?;
    }
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(summarized.as_deref().unwrap_or(sql), &dialect)?;
    session.stores.take_options(&mut statement)?;
    formats::compress_by_name(&mut statement);
    let plan = functions::plan(state, statement).await?;
    match summarized {
        Some(_) => summary::plan(state, plan),
        None => Ok(plan),
    }
}

async fn plan_checked(session: &Session, sql: &str, allowed: SQLOptions) -> Result<Outcome, Error> {
    let state = state_of(session, sql)?;
    let plan = match logical_plan(session, &state, sql).await {
        Ok(plan) => plan,
        Err(error) => return Err(suggest::explain(error, sql, session).await),
    };
    allowed.verify_plan(&plan)?;
    on_large_stack(done(session, state, sql, plan)).await
}

/// Runs a plan that gives no rows; makes a lazy frame of any other.
pub(super) async fn carry_out(
    session: &Session,
    state: SessionState,
    plan: LogicalPlan,
) -> Result<DataFrame, Error> {
    let text = state.config().get_extension::<StatementText>();
    let text = text.map(|text| Arc::clone(&text.0)).unwrap_or_default();
    match done(session, state, &text, plan).await? {
        Outcome::Frame(frame, _) => Ok(frame),
        Outcome::Execute(prepared, values) => prepared.frame(&text, &values).await,
    }
}

/// Refuses what the session's client may not do, or may not read.
pub(super) fn check_rights(state: &SessionState, plan: &LogicalPlan) -> Result<(), Error> {
    if let Some(client) = Client::of(state.config()) {
        client.check(plan)?;
    }
    if let Some(allowed) = AllowedPaths::of(state.config()) {
        allowed.check_plan(plan)?;
    }
    Ok(())
}

async fn done(
    session: &Session,
    state: SessionState,
    sql: &str,
    plan: LogicalPlan,
) -> Result<Outcome, Error> {
    check_rights(&state, &plan)?;
    let done = match plan {
        LogicalPlan::Statement(PlanStatement::SetVariable(set)) => {
            set_variable(session, set).await?
        }
        LogicalPlan::Statement(PlanStatement::ResetVariable(reset))
            if TidegateOptions::has(&reset.variable) =>
        {
            // DataFusion resets its own settings alone.
            let value = TidegateOptions::default_text(&reset.variable);
            let variable = reset.variable;
            set_variable(session, SetVariable { variable, value }).await?
        }
        LogicalPlan::Statement(PlanStatement::Prepare(statement)) => {
            prepared::prepare_named(session, sql, statement).await?
        }
        LogicalPlan::Statement(PlanStatement::Execute(execute)) => {
            return match prepared::named(session, &execute)? {
                Some((prepared, values)) => Ok(Outcome::Execute(prepared, values)),
                // It was prepared behind the session's back.
                None => {
                    let plan = LogicalPlan::Statement(PlanStatement::Execute(execute));
                    let frame = session.ctx.execute_logical_plan(plan).await?;
                    Ok(Outcome::Frame(frame, false))
                }
            };
        }
        LogicalPlan::Statement(PlanStatement::Deallocate(statement)) => {
            prepared::deallocate(session, statement).await?
        }
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            session.known.clear();
            held::create(session, state, create).await?
        }
        LogicalPlan::Ddl(DdlStatement::CreateFunction(create)) => {
            session.known.clear();
            functions::create(session, sql, *create)?
        }
        LogicalPlan::Ddl(DdlStatement::DropFunction(drop)) => {
            session.known.clear();
            functions::drop(session, &drop)?
        }
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            session.known.clear();
            let done = session.ctx.execute_logical_plan(plan).await?;
            // A memory table may have gone.
            session.runtime.cache().note_read();
            done
        }
        query => return Ok(Outcome::Frame(DataFrame::new(state, query), true)),
    };
    Ok(Outcome::Frame(done, false))
}

/// Plans and starts a statement.
pub(super) async fn execute(
    session: &Session,
    sql: &str,
) -> Result<SendableRecordBatchStream, Error> {
    if let Some(known) = known::find(session, sql).await {
        let state = known::state_for(session, known.snapshot());
        let state = state.as_ref().map(|state| state as &dyn CatalogSession);
        if let Some(plan) = known.again(state).await? {
            let state = state_of(session, sql)?;
            let plan = watched(&session.runtime, plan, &state, Duration::ZERO);
            return Ok(execute_stream(plan, state.task_ctx())?);
        }
    }
    match outcome(session, sql, SQLOptions::new()).await? {
        Outcome::Frame(frame, true) => on_large_stack(start(session, sql, frame)).await,
        Outcome::Frame(frame, false) => Ok(on_large_stack(frame.execute_stream()).await?),
        Outcome::Execute(prepared, values) => prepared.start(sql.into(), &values).await,
    }
}

/// Starts a query, and remembers its plan if it can be run again.
async fn start(
    session: &Session,
    sql: &str,
    frame: DataFrame,
) -> Result<SendableRecordBatchStream, Error> {
    let (state, logical) = frame.into_parts();
    let logical = KnownStatement::unfolded(&logical)?.into_owned();
    let began = Instant::now();
    let optimized = state.optimize(&logical)?;
    let planner = planner();
    let plan = planner.create_physical_plan(&optimized, &state).await?;
    let planned_in = began.elapsed();
    known::remember(session, &state, sql, &logical, optimized, &plan).await;
    let plan = watched(&session.runtime, plan, &state, planned_in);
    Ok(execute_stream(plan, state.task_ctx())?)
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
    check_setting(session, &set)?;
    let limits_memory = set.variable == "tidegate.memory_limit";
    let limits_disk = set.variable == "tidegate.disk_cache_limit";
    let limits_devices = set.variable == "tidegate.device_memory_limit";
    let cache_limits = ["tidegate.host_cache_limit", "tidegate.pinned_cache_limit"];
    let limits_cache = cache_limits.contains(&set.variable.as_str());
    let limits_queries = [
        "tidegate.max_running_queries",
        "tidegate.max_waiting_queries",
        "tidegate.queue_timeout",
    ]
    .contains(&set.variable.as_str());
    let plan = LogicalPlan::Statement(PlanStatement::SetVariable(set));
    let done = session.ctx.execute_logical_plan(plan).await?;
    if limits_memory {
        limit_memory(session)?;
    }
    if limits_memory || limits_cache {
        limit_cache(session);
    }
    if limits_queries || limits_memory {
        limit_queries(session);
    }
    if limits_disk {
        limit_disk(session)?;
    }
    if limits_devices {
        let options = TidegateOptions::of(session.ctx.state().config_options());
        let limits = options.device_memory_limit.as_ref();
        session.runtime.limit_devices(limits);
    }
    Ok(done)
}

/// Refuses what names something that there is not; a value of another kind is refused later.
pub(super) fn check_setting(session: &Session, set: &SetVariable) -> Result<(), Error> {
    let (name, runtime) = (set.variable.as_str(), &session.runtime);
    let value = set.value.trim();
    match name {
        "tidegate.devices" => match value.parse::<DeviceList>() {
            Ok(list) => runtime.check_named(name, list.devices()),
            Err(()) => Ok(()),
        },
        "tidegate.device_memory_limit" => match value.parse::<DeviceLimits>() {
            Ok(limits) => runtime.check_named(name, limits.named()),
            Err(()) => Ok(()),
        },
        "tidegate.replay_placement" => match value.parse() {
            Ok(ReplayedPlacement::Query(id)) => {
                let client = Client::of(session.ctx.state().config());
                runtime.history().recorded(id, client.as_deref()).map(drop)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Bounds what cached columns take; what is over the bound goes at once.
fn limit_cache(session: &Session) {
    let options = TidegateOptions::of(session.ctx.state().config_options());
    let memory = options.memory_limit.unwrap_or(session.memory.bytes);
    let (host, pinned) = (options.host_cache_limit, options.pinned_cache_limit);
    let runtime = &session.runtime;
    runtime.limit_host_cache(host.unwrap_or_else(|| default_cache_limit(memory)));
    runtime.limit_pinned_cache(pinned.unwrap_or_else(|| default_pinned_limit(memory)));
}

/// Bounds what cached columns take on disk, in the folder where statements spill.
fn limit_disk(session: &Session) -> Result<(), Error> {
    let options = TidegateOptions::of(session.ctx.state().config_options());
    let folders = session.ctx.runtime_env().disk_manager.temp_dir_paths();
    let folder = folders
        .into_iter()
        .next()
        .unwrap_or_else(std::env::temp_dir);
    let tier = session.runtime.cache().host();
    tier.set_disk(&folder, options.disk_cache_limit)
        .map_err(|error| {
            let message = format!(
                "tidegate.disk_cache_limit: nothing can be kept in {}: {error}; choose another spill \
                 folder",
                folder.display()
            );
            Error::with_source(ErrorKind::Io, message, error)
        })
}

/// Bounds what runs and waits in all sessions, also for those that wait now.
fn limit_queries(session: &Session) {
    let options = TidegateOptions::of(session.ctx.state().config_options());
    let gate = session.runtime.admission();
    let now = gate.limits();
    gate.set_limits(AdmissionLimits {
        running_max: options.max_running_queries.unwrap_or(now.running_max),
        waiting_max: options.max_waiting_queries.unwrap_or(now.waiting_max),
        wait_max: options.queue_timeout.unwrap_or(now.wait_max),
        expected_bytes_max: options.memory_limit.unwrap_or(session.memory.bytes),
    });
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
