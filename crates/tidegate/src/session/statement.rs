//! One statement's way from text to rows.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::catalog::Session as CatalogSession;
use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{
    DdlStatement, LogicalPlan, SetVariable, Statement as PlanStatement,
};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_planner::PhysicalPlanner;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement;
use sqlparser::ast::{Select, Visit, Visitor};
use tidegate_scheduler::AdmissionLimits;

use super::hinted::with_hint;
use super::prepared::{self, Prepared};
use super::{
    KernelReport, Session, builder, cache, files, formats, functions, held, hints, kernels, kill,
    known, spilling, summary,
};
use crate::clients::Client;
use crate::error::{Error, ErrorKind};
use crate::functions::zones::{ZONE_SETTING, exact_zone};
use crate::mapping::planner;
use crate::memory::{StatementPool, default_cache_limit, default_pinned_limit};
use crate::options::{DeviceLimits, DeviceList, ReplayedPlacement, TidegateOptions};
use crate::query::History;
use crate::query::{
    KnownStatement, PlanSize, SecondTry, StatementText, apart, begins, check_columns, watched,
};
use crate::statements;
use crate::statements::{Rewrites, StatementError};
use crate::stores::access::AllowedPaths;

/// The share of a statement's memory that the literals of a batch's rows may take, 1 in so many.
const LITERALS_SHARE: usize = 32;

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
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        match outcome(&session, &sql, allowed).await? {
            Outcome::Frame(frame, true) => {
                known::plan_again(&session, &sql, &frame).await;
                Ok(frame)
            }
            Outcome::Frame(frame, false) => Ok(frame),
            Outcome::Execute(prepared, values) => prepared.frame(&sql, &values).await,
        }
    })
    .await
}

/// Returns how long planning may take: no longer than the statement.
pub(super) fn timeout(session: &Session) -> Option<Duration> {
    let state = session.ctx.state_ref();
    TidegateOptions::of(state.read().config_options()).statement_timeout
}

async fn outcome(session: &Session, sql: &str, allowed: SQLOptions) -> Result<Outcome, Error> {
    check_text(sql)?;
    if let Some(id) = statements::killed_query(sql).map_err(refused)? {
        return Ok(Outcome::Frame(kill::run(session, id)?, false));
    }
    if let Some(own) = statements::cache_statement(sql).map_err(refused)? {
        session.known.clear();
        begins();
        let told = cache::run(session, own, sql, allowed).await?;
        return Ok(Outcome::Frame(told, false));
    }
    if let Some(query) = statements::explained_kernels(sql).map_err(refused)? {
        // Behind the words before it, the scan may have taken the query for another thing.
        statements::check_depth(&query).map_err(refused)?;
        let told = kernels::explain(session, &query, sql, allowed).await?;
        return Ok(Outcome::Frame(told, false));
    }
    plan_checked(session, sql, allowed).await
}

/// Returns the session's state with the text of a statement, and with the settings of its hints.
pub(super) fn state_of(session: &Session, sql: &str) -> Result<SessionState, Error> {
    let mut state = session.ctx.state();
    let config = state.config_mut();
    config.set_extension(Arc::new(StatementText::new(sql)));
    hints::apply(session, &mut state, sql)?;
    fit_batches(&mut state, statements::long_literal_bytes(sql));
    Ok(state)
}

/// Makes batches of fewer rows where each row may hold so many bytes of literals.
fn fit_batches(state: &mut SessionState, literal_bytes: usize) {
    let MemoryLimit::Finite(limit) = state.runtime_env().memory_pool.memory_limit() else {
        return;
    };
    if literal_bytes == 0 {
        return;
    }
    let rows = (limit / LITERALS_SHARE / literal_bytes).max(1);
    let batch_size = state.config().batch_size();
    if rows < batch_size {
        *state.config_mut() = state.config().clone().with_batch_size(rows);
    }
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
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        prepared::prepare(&session, &sql).await
    })
    .await
}

/// Plans a query and reports the kernels of its regions.
pub(super) async fn kernels(session: &Session, sql: &str) -> Result<Vec<KernelReport>, Error> {
    statements::check_depth(sql).map_err(refused)?;
    let state = state_of(session, sql)?;
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        kernels::reports(&session, &state, &sql, SQLOptions::new()).await
    })
    .await
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
    let text = statements::plain_numbers(summarized.as_deref().unwrap_or(sql)).map_err(refused)?;
    let mut statement = state.sql_to_statement(&text, &dialect)?;
    check_selects(&statement)?;
    rewrites(state).apply(&mut statement)?;
    session.stores.take_options(&mut statement)?;
    formats::compress_by_name(&mut statement);
    if let Some(inputs) = &session.inputs {
        let disk = &state.runtime_env().disk_manager;
        inputs.put_in_place(&mut statement, disk).await?;
    }
    let plan = functions::plan(state, statement).await?;
    PlanSize::of(&plan).check()?;
    match summarized {
        Some(_) => summary::plan(state, plan),
        None => Ok(plan),
    }
}

/// Refuses a statement that selects too many columns, before they are planned.
fn check_selects(statement: &Statement) -> Result<(), Error> {
    struct Selects;
    impl Visitor for Selects {
        type Break = Error;

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
            match check_columns(select.projection.len()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    let Statement::Statement(statement) = statement else {
        return Ok(());
    };
    match statement.visit(&mut Selects) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Returns what is to be rewritten in a statement of a session.
fn rewrites(state: &SessionState) -> Rewrites<'_> {
    Rewrites {
        constraints: TidegateOptions::of(state.config_options()).unchecked_constraints,
        functions: state,
    }
}

async fn plan_checked(session: &Session, sql: &str, allowed: SQLOptions) -> Result<Outcome, Error> {
    let state = state_of(session, sql)?;
    let plan = match logical_plan(session, &state, sql).await {
        Ok(plan) => plan,
        Err(error) => return Err(with_hint(error, sql, session).await),
    };
    allowed.verify_plan(&plan)?;
    done(session, state, sql, plan).await
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
    files::check_target(plan)?;
    Ok(())
}

async fn done(
    session: &Session,
    state: SessionState,
    sql: &str,
    plan: LogicalPlan,
) -> Result<Outcome, Error> {
    check_rights(&state, &plan)?;
    if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) {
        begins();
    }
    let done = match plan {
        LogicalPlan::Statement(PlanStatement::SetVariable(set)) => {
            set_or_translate(session, set).await?
        }
        LogicalPlan::Statement(PlanStatement::ResetVariable(reset))
            if spilling::default_of(&reset.variable).is_some() =>
        {
            let value = spilling::default_of(&reset.variable).unwrap_or_default();
            let variable = reset.variable;
            set_or_translate(session, SetVariable { variable, value }).await?
        }
        LogicalPlan::Statement(PlanStatement::ResetVariable(reset))
            if TidegateOptions::has(&reset.variable) =>
        {
            // DataFusion resets its own settings alone.
            let value = TidegateOptions::default_text(&reset.variable);
            let variable = reset.variable;
            set_variable(session, SetVariable { variable, value }).await?
        }
        LogicalPlan::Statement(PlanStatement::ResetVariable(reset))
            if let Some(value) = builder::own_default(&reset.variable) =>
        {
            let set = SetVariable {
                variable: reset.variable,
                value: value.into(),
            };
            set_variable(session, set).await?
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
            let plan = watched(&session.runtime, plan, None, &state, Duration::ZERO);
            return Ok(execute_stream(plan, state.task_ctx())?);
        }
    }
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        match outcome(&session, &sql, SQLOptions::new()).await? {
            Outcome::Frame(frame, true) => start(&session, &sql, frame).await,
            Outcome::Frame(frame, false) => Ok(frame.execute_stream().await?),
            Outcome::Execute(prepared, values) => {
                prepared.start(sql.as_str().into(), &values).await
            }
        }
    })
    .await
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
    let _held = PlanSize::of(&logical).reserve(&state.runtime_env().memory_pool)?;
    let optimized = state.optimize(&logical)?;
    let planner = planner();
    let plan = planner.create_physical_plan(&optimized, &state).await?;
    let planned_in = began.elapsed();
    let again = SecondTry::of(&plan, &optimized, &state);
    known::remember(session, &state, sql, &logical, optimized, &plan).await;
    let plan = watched(&session.runtime, plan, again, &state, planned_in);
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

/// Sets a setting, by Tidegate's name where DataFusion's own would replace what Tidegate has.
async fn set_or_translate(session: &Session, set: SetVariable) -> Result<DataFrame, Error> {
    let set = spilling::of_tidegate(set)?;
    match spilling::set(session, &set)? {
        Some(done) => Ok(done),
        None => set_variable(session, set).await,
    }
}

async fn set_variable(session: &Session, set: SetVariable) -> Result<DataFrame, Error> {
    check_setting(session, &set)?;
    let limits_memory = set.variable == "tidegate.memory_limit";
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
        ZONE_SETTING => exact_zone(value).map(drop),
        "tidegate.replay_placement" => match value.parse() {
            Ok(ReplayedPlacement::Query(id)) => {
                let client = Client::of(session.ctx.state().config());
                History::of(runtime)
                    .recorded(id, client.as_deref())
                    .map(drop)
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
    let pool: Arc<dyn MemoryPool> = StatementPool::new(bytes, session.runtime.cache());
    session.function_memory.set(Arc::clone(&pool));
    let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(pool)
        .build_arc()?;
    *state = SessionStateBuilder::from(state.clone())
        .with_runtime_env(environment)
        .build();
    Ok(())
}
