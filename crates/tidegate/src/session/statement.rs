//! One statement's way from text to rows.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, TableReference, internal_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::logical_expr::{
    DdlStatement, LogicalPlan, SetVariable, Statement as PlanStatement,
};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement;
use sqlparser::ast::{Expr, Function, Select, Visitor, WindowType};

use super::created::NotNull;
use super::defaults::Defaults;
use super::hinted::with_hint;
use super::prepared::{self, Prepared};
use super::rights::check_rights;
use super::settings::{set_or_translate, set_variable, use_own_name};
use super::{
    KernelReport, Session, altered, builder, by_name, cache, changed_rows, created, described,
    files, formats, functions, hints, inserted, kernels, kill, numbered, pivoted, plan_cache,
    readers, returning, rows_by_position, schemas, scoped, spilling, summary, told, variables,
    views,
};
use crate::clients::Client;
use crate::error::{Error, ErrorKind};
use crate::options::TidegateOptions;
use crate::query::{
    Asked, CachedStatement, CancelHandle, History, PlanSize, apart, begins, check_columns,
    check_windows, physical, watched,
};
use crate::statements::letter_case::{CasedNames, tables, write_as_named};
use crate::statements::{
    Parsed, ParsedStatement, Rewrites, SqlText, StatementContext, Unparsed, name_outputs,
    order_by_places, place_all, redacted, unplaced_all, visits,
};

/// The share of a statement's memory that the literals of a batch's rows may take, 1 in so many.
const LITERALS_SHARE: usize = 32;

/// The most tables of a statement whose columns are looked up by their letters.
const NAMED_TABLES_MAX: usize = 32;

/// What a statement has become.
enum Outcome {
    /// A query that has not run yet.
    Query(DataFrame, Source),
    /// What a statement answers that has run.
    Done(DataFrame),
    /// EXECUTE of a prepared statement.
    Execute(Prepared, Source, Vec<ScalarValue>),
}

/// What was read of a statement's text.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) sql: Arc<str>,
    pub(super) context: Arc<StatementContext>,
    /// The tables that it names; `None` if they cannot be told.
    pub(super) names: Option<Arc<[TableReference]>>,
    /// The body of the function that it creates, as it is written.
    pub(super) function_body: Option<String>,
    /// The table to which it gives another name.
    pub(super) renamed: Option<TableReference>,
    /// The columns that it declares NOT NULL, of CREATE TABLE AS and ALTER TABLE.
    pub(super) not_null: NotNull,
    /// How many types `PREPARE` declares.
    pub(super) num_declared: usize,
    /// The session's settings, without those of its hints.
    pub(super) options: Arc<ConfigOptions>,
}

/// Plans a statement; runs it if it is none that gives rows.
pub(super) async fn plan(
    session: &Session,
    sql: &str,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    if let Some(text) = plan_cache::find(session, sql).await {
        let plan = CachedStatement::plan(Arc::clone(&text.plan));
        return Ok(DataFrame::new(text.state(session)?, plan));
    }
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        match outcome(&session, &sql, allowed).await? {
            Outcome::Query(frame, source) => Ok(plan_cache::frame(&session, &source, frame).await),
            Outcome::Done(frame) => Ok(frame),
            Outcome::Execute(prepared, source, values) => {
                prepared.frame(source.context, &values).await
            }
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
    let began = SystemTime::now();
    let outcome = unexplained(session, sql, allowed).await;
    outcome.map_err(|error| failed(session, sql, began, with_hint(error, sql, session)))
}

/// Remembers a statement that failed before its query ran; returns the error.
pub(super) fn failed(session: &Session, sql: &str, began: SystemTime, error: Error) -> Error {
    let client = Client::of(session.ctx.state_ref().read().config());
    let asked = Asked {
        sql: Some(redacted(sql).into()),
        owner: client.map(|client| client.owner()),
        cancel: CancelHandle::default(),
    };
    History::of(&session.runtime).failed(asked, began, &error);
    error
}

async fn unexplained(session: &Session, sql: &str, allowed: SQLOptions) -> Result<Outcome, Error> {
    let (text, mut source) = read(session, sql)?;
    let context = Arc::clone(&source.context);
    let query = match text.parse()? {
        Parsed::Standard(query) => query,
        Parsed::Kill(id) => return Ok(Outcome::Done(kill::run(session, id)?)),
        Parsed::Cache(statement) => {
            session.plans.clear();
            begins();
            let told = cache::run(session, statement, context, allowed).await?;
            return Ok(Outcome::Done(told));
        }
        Parsed::Variable(name, value) => {
            let done = variables::set(session, name, value, context, allowed).await?;
            return Ok(Outcome::Done(done));
        }
        Parsed::Regions(format, query) => {
            let told = kernels::explain(session, format, query, sql, context, allowed).await?;
            return Ok(Outcome::Done(told));
        }
    };
    let state = state_of(session, context)?;
    let plan = source.plan(session, &state, query).await?;
    allowed.verify_plan(&plan)?;
    done(session, state, source, plan).await
}

/// Cuts a statement's text into tokens.
///
/// A chain of a few thousand operators overflows the stack somewhere in DataFusion, and that ends the
/// process: what is typed is bounded here, and what passes is planned on a large stack.
pub(super) fn read<'a>(session: &Session, sql: &'a str) -> Result<(SqlText<'a>, Source), Error> {
    let options = Arc::clone(session.ctx.state_ref().read().config_options());
    let text = SqlText::new(sql, &options.sql_parser)?;
    let source = Source {
        sql: sql.into(),
        context: text.context()?,
        names: None,
        function_body: None,
        renamed: None,
        not_null: NotNull::Added(HashSet::new()),
        num_declared: 0,
        options,
    };
    Ok((text, source))
}

impl Source {
    /// Parses the statement, and notes what it names.
    pub(super) fn parse(
        &mut self,
        state: &SessionState,
        statement: Unparsed,
    ) -> Result<ParsedStatement, DataFusionError> {
        let parsed = statement.parse(&state.config_options().sql_parser)?;
        let names = state.resolve_table_references(&parsed.statement);
        self.names = names.ok().map(Into::into);
        self.function_body = functions::body_text(&parsed.statement);
        self.renamed = altered::renamed(state, &parsed.statement);
        self.not_null = created::not_null_of(&parsed.statement);
        self.num_declared = prepared::num_declared(&parsed.statement);
        Ok(parsed)
    }

    /// Parses and plans the statement.
    pub(super) async fn plan(
        &mut self,
        session: &Session,
        state: &SessionState,
        statement: Unparsed,
    ) -> Result<LogicalPlan, DataFusionError> {
        let parsed = self.parse(state, statement)?;
        self.plan_parsed(session, state, parsed).await
    }

    /// Plans the statement once it is parsed; again with names in the letters of its tables, if that fails.
    pub(super) async fn plan_parsed(
        &mut self,
        session: &Session,
        state: &SessionState,
        parsed: ParsedStatement,
    ) -> Result<LogicalPlan, DataFusionError> {
        let error = match plan_parsed(session, state, parsed).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let planned = self.plan_as_named(session, state, &error).await;
        planned.unwrap_or(Err(error))
    }

    /// Plans a statement again that could not be planned, with the names of its columns as its tables have them; `None`
    /// if it names none in other letters.
    async fn plan_as_named(
        &mut self,
        session: &Session,
        state: &SessionState,
        error: &DataFusionError,
    ) -> Option<Result<LogicalPlan, DataFusionError>> {
        if Error::from_ref(error).kind() != ErrorKind::Sql {
            return None;
        }
        let sql = Arc::clone(&self.sql);
        let text = SqlText::new(&sql, &state.config_options().sql_parser).ok()?;
        let mut parsed = self.parse(state, text.parse().ok()?.standard()?).ok()?;
        let mut names = CasedNames::default();
        for table in tables(&parsed.statement).into_iter().take(NAMED_TABLES_MAX) {
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
}

/// Returns the session's state for a statement, with the settings of its hints.
pub(super) fn state_of(
    session: &Session,
    context: Arc<StatementContext>,
) -> Result<SessionState, Error> {
    let mut state = session.ctx.state();
    hints::apply(session, &mut state, &context.hints)?;
    fit_batches(&mut state, context.long_literal_bytes);
    state.config_mut().set_extension(context);
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

/// Prepares a statement.
pub(super) async fn prepare(session: &Session, sql: &str) -> Result<Prepared, Error> {
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        let prepared = prepared::prepare(&session, &sql).await;
        prepared.map_err(|error| with_hint(error, &sql, &session))
    })
    .await
}

/// Plans a query and reports the kernels of its regions.
pub(super) async fn kernels(session: &Session, sql: &str) -> Result<Vec<KernelReport>, Error> {
    let explained = |error: Error| with_hint(error, sql, session);
    let (text, source) = read(session, sql).map_err(explained)?;
    let state = state_of(session, source.context)?;
    let parsed = text.parse().map_err(|error| explained(error.into()))?;
    let query = parsed.standard().ok_or_else(kernels::only_queries)?;
    let (session, sql) = (session.clone(), sql.to_owned());
    apart(timeout(&session), async move {
        kernels::reports(&session, &state, query, &sql, SQLOptions::new()).await
    })
    .await
}

impl Session {
    /// Plans a query that the session itself asks for.
    pub(super) async fn plan_text(
        &self,
        state: &SessionState,
        sql: &str,
    ) -> Result<LogicalPlan, DataFusionError> {
        plan_text(self, state, sql).await
    }

    /// Plans a statement that is parsed.
    pub(super) async fn plan_parsed(
        &self,
        state: &SessionState,
        parsed: ParsedStatement,
    ) -> Result<LogicalPlan, DataFusionError> {
        plan_parsed(self, state, parsed).await
    }
}

async fn plan_text(
    session: &Session,
    state: &SessionState,
    sql: &str,
) -> Result<LogicalPlan, DataFusionError> {
    let text = SqlText::new(sql, &state.config_options().sql_parser).map_err(Error::from)?;
    match text.parse().map_err(Error::from)?.standard() {
        Some(query) => logical_plan(session, state, query).await,
        None => internal_err!("{sql} is no query"),
    }
}

/// Plans a statement.
pub(super) async fn logical_plan(
    session: &Session,
    state: &SessionState,
    statement: Unparsed,
) -> Result<LogicalPlan, DataFusionError> {
    let parsed = statement.parse(&state.config_options().sql_parser)?;
    plan_parsed(session, state, parsed).await
}

/// Plans a statement that is parsed, as DataFusion does but for options of object stores: those are
/// taken out first.
pub(super) async fn plan_parsed(
    session: &Session,
    state: &SessionState,
    parsed: ParsedStatement,
) -> Result<LogicalPlan, DataFusionError> {
    let ParsedStatement {
        mut statement,
        is_summary,
    } = parsed;
    check_selects(&statement)?;
    let returning = returning::take(&mut statement);
    if let Some(made) = functions::table_macro(&mut statement) {
        return Ok(made);
    }
    if let Some(used) = schemas::used(session, &statement)? {
        return Ok(used);
    }
    prepared::order_values(session, &mut statement)?;
    name_outputs(&mut statement);
    pivoted::list_values(session, state, &mut statement).await?;
    by_name::name_columns(session, state, &mut statement).await?;
    let defaults = Defaults::take(state, &mut statement).await?;
    rows_by_position::name_fields(state, &mut statement).await?;
    rewrites(state).apply(&mut statement)?;
    let has_unplaced = place_all(&mut statement);
    described::show_tables(&mut statement)?;
    session.stores.take_options(&mut statement)?;
    formats::compress_by_name(&mut statement);
    if let Some(inputs) = &session.inputs {
        let disk = &state.runtime_env().disk_manager;
        inputs.put_in_place(&mut statement, disk).await?;
    }
    let profile = described::take_profile(&mut statement);
    let with_files = readers::open_calls(session, state, &mut statement).await?;
    let planner = with_files.as_ref().unwrap_or(state);
    views::refresh(session, state, &statement).await?;
    let with_told = told::plan_calls(session, planner, &statement).await?;
    let planner = with_told.as_ref().unwrap_or(planner);
    if has_unplaced {
        place_by_plans(planner, &mut statement).await;
    }
    let told_defaults = described::defaults(planner, &statement).await?;
    let own = match altered::plan(planner, &statement).await? {
        Some(plan) => Some(plan),
        None => changed_rows::plan(planner, &statement).await?,
    };
    let mut plan = match own {
        Some(plan) => plan,
        None => scoped::plan(planner, statement).await?,
    };
    if let (LogicalPlan::Analyze(analyze), Some(format)) = (&mut plan, profile) {
        analyze.format = format;
    }
    use_own_name(&mut plan);
    defaults.put(&mut plan)?;
    numbered::number(&mut plan)?;
    inserted::let_table_refuse(&mut plan)?;
    files::write_nested_as_text(&mut plan)?;
    PlanSize::of(&plan).check()?;
    if let Some(returning) = returning {
        plan = returning.of(session, state, plan).await?;
    }
    match is_summary {
        true => summary::plan(state, plan),
        false => described::plan(plan, &told_defaults),
    }
}

/// Has queries of `*` order by each of their columns, as their plans tell.
async fn place_by_plans(planner: &SessionState, statement: &mut Statement) {
    while let Some(unordered) = unplaced_all(statement) {
        // The statement's own plan says what is wrong with it.
        let Ok(plan) = scoped::plan(planner, unordered).await else {
            return;
        };
        order_by_places(statement, plan.schema().fields().len());
    }
}

/// Refuses a statement that selects too many columns, or over too many windows, before they are planned.
fn check_selects(statement: &Statement) -> Result<(), Error> {
    #[derive(Default)]
    struct Selects {
        windows: HashSet<WindowType>,
    }
    impl Visitor for Selects {
        type Break = Error;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
            let Expr::Function(Function {
                over: Some(over), ..
            }) = expr
            else {
                return ControlFlow::Continue(());
            };
            if !self.windows.contains(over) {
                self.windows.insert(over.clone());
            }
            match check_windows(self.windows.len()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }

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
    match visits::read(statement.as_ref(), &mut Selects::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Returns what is to be rewritten in a statement of a session.
fn rewrites(state: &SessionState) -> Rewrites<'_> {
    Rewrites {
        constraints: TidegateOptions::of(state.config_options()).unchecked_constraints,
        functions: state,
        is_client: Client::of(state.config()).is_some(),
    }
}

/// Runs a plan that gives no rows; makes a lazy frame of any other.
pub(super) async fn carry_out(
    session: &Session,
    state: SessionState,
    source: Source,
    plan: LogicalPlan,
) -> Result<DataFrame, Error> {
    match done(session, state, source, plan).await? {
        Outcome::Query(frame, _) | Outcome::Done(frame) => Ok(frame),
        Outcome::Execute(prepared, source, values) => prepared.frame(source.context, &values).await,
    }
}

async fn done(
    session: &Session,
    state: SessionState,
    source: Source,
    plan: LogicalPlan,
) -> Result<Outcome, Error> {
    let plan = prepared::explained(session, &source, plan).await?;
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
            prepared::prepare_named(session, source, statement).await?
        }
        LogicalPlan::Statement(PlanStatement::Execute(execute)) => {
            return match prepared::named(session, &execute)? {
                Some((prepared, values)) => Ok(Outcome::Execute(prepared, source, values)),
                // It was prepared behind the session's back.
                None => {
                    let plan = LogicalPlan::Statement(PlanStatement::Execute(execute));
                    let frame = session.ctx.execute_logical_plan(plan).await?;
                    Ok(Outcome::Done(frame))
                }
            };
        }
        LogicalPlan::Statement(PlanStatement::Deallocate(statement)) => {
            prepared::deallocate(session, statement).await?
        }
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create))
            if let Some(table) = source.renamed.clone() =>
        {
            session.plans.clear();
            altered::rename(&state, table, &create.name)?;
            session.ctx.read_empty()?.limit(0, Some(0))?
        }
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            session.plans.clear();
            created::create(session, state, create, source.not_null).await?
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(create)) if !create.temporary => {
            session.plans.clear();
            views::create(&session.ctx, &state, &source, create).await?;
            session.ctx.read_empty()?.limit(0, Some(0))?
        }
        LogicalPlan::Ddl(DdlStatement::CreateFunction(create)) => {
            session.plans.clear();
            functions::create(session, source.function_body, *create)?
        }
        LogicalPlan::Ddl(DdlStatement::DropFunction(drop)) => {
            session.plans.clear();
            functions::drop(session, &drop)?
        }
        LogicalPlan::Ddl(DdlStatement::DropCatalogSchema(drop)) => {
            session.plans.clear();
            schemas::drop(session, &drop)?
        }
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            session.plans.clear();
            let done = session.ctx.execute_logical_plan(plan).await?;
            // A memory table may have gone.
            session.runtime.cache().note_read();
            done
        }
        query => return Ok(Outcome::Query(DataFrame::new(state, query), source)),
    };
    Ok(Outcome::Done(done))
}

/// Plans and starts a statement.
pub(super) async fn execute(
    session: &Session,
    sql: &str,
) -> Result<SendableRecordBatchStream, Error> {
    if let Some(text) = plan_cache::find(session, sql).await {
        let state = text.state(session)?;
        let plan = watched(
            &session.runtime,
            text.plan.again()?,
            None,
            &state,
            Duration::ZERO,
        );
        return Ok(execute_stream(plan, state.task_ctx())?);
    }
    let (session, sql) = (session.clone(), sql.to_owned());
    let began = SystemTime::now();
    apart(timeout(&session), async move {
        let started = match outcome(&session, &sql, SQLOptions::new()).await? {
            Outcome::Query(frame, source) => {
                let started = start(&session, &source, frame).await;
                started.map_err(|error| failed(&session, &sql, began, error))
            }
            Outcome::Done(frame) => frame.execute_stream().await.map_err(Error::from),
            Outcome::Execute(prepared, source, values) => {
                prepared.start(source.context, &values).await
            }
        };
        started.map_err(|error| with_hint(error, &sql, &session))
    })
    .await
}

/// Starts a query, and remembers its plan if it can be run again.
async fn start(
    session: &Session,
    source: &Source,
    frame: DataFrame,
) -> Result<SendableRecordBatchStream, Error> {
    let (state, logical) = frame.into_parts();
    let logical = CachedStatement::unfolded(&logical)?.into_owned();
    let began = Instant::now();
    let _held = PlanSize::of(&logical).reserve(&state.runtime_env().memory_pool)?;
    let optimized = state.optimize(&logical)?;
    let (plan, again) = physical(&optimized, &state).await?;
    let planned_in = began.elapsed();
    plan_cache::keep(session, source, &logical, optimized, &plan).await;
    let plan = watched(&session.runtime, plan, again, &state, planned_in);
    Ok(execute_stream(plan, state.task_ctx())?)
}
