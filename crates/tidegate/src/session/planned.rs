//! A statement that is planned and not yet run: its columns, its parameters, its start.
//!
//! [`Session::sql`] runs what gives no rows as soon as it is planned. A door that must tell a
//! statement's columns before it may run plans it here: nothing happens before [`Planned::start`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};

use super::dependencies::Dependencies;
use super::hinted::with_hint;
use super::prepared::with_open_types;
use super::statement::Source;
use super::{Session, kill, statement};
use crate::accounted::returned::returns_rows;
use crate::error::{Error, ErrorKind};
use crate::query::{CancelHandle, apart, cancelled};
use crate::statements::{Parsed, Unparsed};

/// A statement that is planned and not yet run.
#[derive(Clone, Debug)]
pub struct Planned {
    session: Session,
    source: Source,
    work: Work,
    /// `None` if they are known only when it runs.
    columns: Option<SchemaRef>,
    /// `None` if nobody wants to know, or it cannot be told.
    dependencies: Option<Arc<Dependencies>>,
}

/// What a statement does.
#[derive(Clone, Debug)]
enum Work {
    /// What DataFusion plans.
    Plan(LogicalPlan),
    /// A query that is ready to run, once.
    Ready(Arc<dyn ExecutionPlan>, Arc<TaskContext>),
    /// `KILL QUERY`.
    Kill(u64),
    /// Another extension statement.
    Extension,
}

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// It gives rows and changes nothing.
    Query,
    /// It changes rows, and gives their number, or those that it returns.
    Change,
    /// It changes tables or settings, and gives no rows.
    Definition,
    /// It controls the session or its queries, and takes effect at once.
    Control,
    /// It is an extension of SQL that may take long, such as CACHE TABLE.
    Extension,
}

/// Plans a statement and runs nothing; finds out what its plan depends on if that is kept. All of it is done
/// apart: to read a long text, and to say what is wrong with it, takes its time too.
pub(super) async fn plan(session: &Session, sql: &str, is_kept: bool) -> Result<Planned, Error> {
    let began = SystemTime::now();
    let (own, text) = (session.clone(), sql.to_string());
    let planned = apart(statement::timeout(session), async move {
        let planned = unexplained(&own, &text, is_kept).await;
        Ok(planned.map_err(|error| with_hint(error, &text, &own)))
    });
    let planned = planned.await;
    let planned = planned.unwrap_or_else(|error| Err(with_hint(error, sql, session)));
    planned.map_err(|error| statement::failed(session, sql, began, error))
}

async fn unexplained(session: &Session, sql: &str, is_kept: bool) -> Result<Planned, Error> {
    let (mut text, source) = statement::read(session, sql)?;
    text.number_placeholders()?;
    let mut planned = Planned {
        session: session.clone(),
        source,
        work: Work::Extension,
        columns: None,
        dependencies: None,
    };
    match text.parse()? {
        Parsed::Standard(query) => return planned.of(query, is_kept).await,
        Parsed::Kill(id) => planned.work = Work::Kill(id),
        Parsed::Cache(_) | Parsed::Variable(..) | Parsed::Regions(..) => {}
    }
    Ok(planned)
}

/// Finds out a plan's columns. Before types are coerced, a plan tells wrong ones.
fn columns_of(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Option<SchemaRef>, DataFusionError> {
    match plan {
        // EXECUTE gives the rows of what was prepared under that name.
        LogicalPlan::Statement(PlanStatement::Execute(_)) => return Ok(None),
        LogicalPlan::Statement(_) | LogicalPlan::Ddl(_) => {
            return Ok(Some(Arc::new(Schema::empty())));
        }
        _ => {}
    }
    let analyzer = state.analyzer();
    match analyzer.execute_and_check(plan.clone(), state.config_options(), |_, _| {}) {
        Ok(analyzed) => Ok(Some(Arc::clone(analyzed.schema().inner()))),
        // What a parameter's value will be decides.
        Err(_) if !plan.get_parameter_names()?.is_empty() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Planned {
    /// Plans what DataFusion plans.
    async fn of(mut self, query: Unparsed, is_kept: bool) -> Result<Self, Error> {
        let session = &self.session;
        let state = statement::state_of(session, Arc::clone(&self.source.context))?;
        let planned = async {
            let parsed = self.source.parse(&state, query)?;
            if is_kept {
                // Before the plan is made: what changes meanwhile is noticed when it is used.
                let dependencies = Dependencies::of(&session.ctx, &self.source, None).await;
                self.dependencies = dependencies.are_told().then(|| Arc::new(dependencies));
            }
            let plan = self.source.plan_parsed(session, &state, parsed).await?;
            let plan = with_open_types(plan)?;
            self.columns = columns_of(&state, &plan)?;
            Ok::<_, DataFusionError>(plan)
        };
        self.work = Work::Plan(planned.await?);
        Ok(self)
    }

    /// Returns the statement's text.
    pub fn sql(&self) -> &Arc<str> {
        &self.source.sql
    }

    /// Returns whether the text would be planned alike now, for statements of
    /// [`Session::plan_cacheable`]: its settings and tables are those with which it was planned.
    /// False if that is not known.
    pub async fn is_current(&self) -> bool {
        match &self.dependencies {
            Some(dependencies) => dependencies.hold(&self.session.ctx).await,
            None => false,
        }
    }

    /// Returns what the statement is for.
    pub fn kind(&self) -> StatementKind {
        match &self.work {
            Work::Kill(_) | Work::Plan(LogicalPlan::Statement(_)) => StatementKind::Control,
            Work::Extension => StatementKind::Extension,
            Work::Plan(LogicalPlan::Ddl(_)) => StatementKind::Definition,
            Work::Plan(LogicalPlan::Dml(_) | LogicalPlan::Copy(_)) => StatementKind::Change,
            Work::Plan(plan) if returns_rows(plan) => StatementKind::Change,
            Work::Plan(_) | Work::Ready(..) => StatementKind::Query,
        }
    }

    /// Returns the columns of the statement's rows; `None` if they are known only when it runs.
    pub fn schema(&self) -> Option<SchemaRef> {
        match &self.work {
            Work::Kill(_) => Some(kill::schema()),
            Work::Plan(_) | Work::Ready(..) | Work::Extension => self.columns.clone(),
        }
    }

    /// Returns the statement's parameters in their order, with the types that are known; the others
    /// are of the type Null.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if a parameter would have two types.
    pub fn parameters(&self) -> Result<Vec<Field>, Error> {
        // What PREPARE names has parameters; PREPARE has none.
        let plan = match &self.work {
            Work::Plan(plan) if self.kind() != StatementKind::Control => plan,
            _ => return Ok(Vec::new()),
        };
        let types = plan.get_parameter_types()?;
        let mut names: Vec<&String> = types.keys().collect();
        names.sort_by_key(|name| (name[1..].parse::<usize>().unwrap_or(usize::MAX), *name));
        let field = |name: &String| {
            let known = types.get(name).cloned().flatten();
            Field::new(name, known.unwrap_or(DataType::Null), true)
        };
        Ok(names.into_iter().map(field).collect())
    }

    /// Binds the parameters to the values of a row, by position; a value of another type is cast.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if there are more or fewer columns than parameters, or a value has no cast.
    pub async fn bind(&self, values: &RecordBatch, row: usize) -> Result<Self, Error> {
        let parameters = self.parameters()?;
        if parameters.len() != values.num_columns() {
            let message = format!(
                "the statement has {} parameters, and {} values were given",
                parameters.len(),
                values.num_columns()
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let Work::Plan(plan) = &self.work else {
            return Ok(self.clone());
        };
        let mut bound = HashMap::with_capacity(parameters.len());
        for (parameter, column) in parameters.iter().zip(values.columns()) {
            let value = ScalarValue::try_from_array(column, row)?;
            let value = match parameter.data_type() {
                DataType::Null => value,
                wanted if *wanted == value.data_type() => value,
                // One that the type does not have is an error, and not NULL.
                wanted => value.cast_to(wanted).map_err(|error| {
                    let name = parameter.name();
                    let message = format!("parameter {name} must be {wanted}: {error}");
                    Error::with_source(ErrorKind::Sql, message, error)
                })?,
            };
            bound.insert(parameter.name()[1..].to_string(), value);
        }
        let values = ParamValues::from(bound);
        let state = self.session.ctx.state();
        let plan = plan.clone();
        let planned = apart(statement::timeout(&self.session), async move {
            let plan = plan.with_param_values(values)?;
            let columns = columns_of(&state, &plan)?;
            Ok((plan, columns))
        });
        let (plan, columns) = planned.await?;
        Ok(Self {
            work: Work::Plan(plan),
            columns,
            ..self.clone()
        })
    }

    /// Makes a query's physical plan, which determines its columns: they may have other types than
    /// in the logical plan. Anything that is not a query, or lacks a parameter, stays as it is.
    ///
    /// The result can be started once, with the same `cancel`.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub async fn ready(&self, cancel: &CancelHandle) -> Result<Self, Error> {
        let plan = match &self.work {
            Work::Plan(plan) if self.kind() == StatementKind::Query => plan.clone(),
            _ => return Ok(self.clone()),
        };
        if !self.parameters()?.is_empty() {
            return Ok(self.clone());
        }
        let (session, state) = (self.session.clone(), self.state(cancel)?);
        let (source, began) = (self.source.clone(), SystemTime::now());
        let (task, plan) = apart(statement::timeout(&self.session), async move {
            let frame = statement::carry_out(&session, state, source, plan).await?;
            let task = Arc::new(frame.task_ctx());
            Ok((task, frame.create_physical_plan().await?))
        })
        .await
        .map_err(|error| self.failed(began, error))?;
        Ok(Self {
            columns: Some(plan.schema()),
            work: Work::Ready(plan, task),
            ..self.clone()
        })
    }

    /// Makes a lazy frame of a query whose parameters are bound.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for what is no query, which is started instead; see [`ErrorKind`] for the
    /// others.
    pub async fn frame(&self) -> Result<DataFrame, Error> {
        let plan = match &self.work {
            Work::Plan(plan) if self.kind() == StatementKind::Query => plan.clone(),
            _ => {
                let message = "only a query is a frame; other statements are started";
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
        };
        if let Some(missing) = self.parameters()?.first() {
            let message = format!("parameter {} has no value", missing.name());
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let (session, source) = (self.session.clone(), self.source.clone());
        let state = statement::state_of(&session, Arc::clone(&source.context))?;
        let framed = statement::carry_out(&session, state, source, plan).await;
        framed.map_err(|error| self.explained(error))
    }

    /// Remembers that it failed before its query ran; returns the error with where in the statement it is.
    fn failed(&self, began: SystemTime, error: Error) -> Error {
        statement::failed(
            &self.session,
            &self.source.sql,
            began,
            self.explained(error),
        )
    }

    /// Adds to an error where in the statement it is.
    fn explained(&self, error: Error) -> Error {
        with_hint(error, &self.source.sql, &self.session)
    }

    /// Returns the session's state, for a run of this statement.
    fn state(&self, cancel: &CancelHandle) -> Result<SessionState, Error> {
        let context = Arc::clone(&self.source.context);
        let mut state = statement::state_of(&self.session, context)?;
        state.config_mut().set_extension(Arc::new(cancel.clone()));
        Ok(state)
    }

    /// Runs the statement and streams its rows; `cancel` stops it, as does dropping the stream.
    ///
    /// # Errors
    /// See [`ErrorKind`]; the stream's errors turn into [`Error`] by `From`.
    pub async fn start(&self, cancel: &CancelHandle) -> Result<SendableRecordBatchStream, Error> {
        let (own, handle, began) = (self.clone(), cancel.clone(), SystemTime::now());
        let work = apart(statement::timeout(&self.session), async move {
            own.run(&handle).await
        });
        tokio::select! {
            stream = work => stream.map_err(|error| self.failed(began, error)),
            () = cancel.cancelled() => Err(cancelled()),
        }
    }

    async fn run(&self, cancel: &CancelHandle) -> Result<SendableRecordBatchStream, Error> {
        let session = &self.session;
        let plan = match &self.work {
            Work::Kill(id) => return Ok(kill::run(session, *id)?.execute_stream().await?),
            Work::Extension => return session.execute(&self.source.sql).await,
            Work::Ready(plan, task) => {
                return Ok(execute_stream(Arc::clone(plan), Arc::clone(task))?);
            }
            Work::Plan(plan) => plan.clone(),
        };
        if let Some(missing) = self.parameters()?.first() {
            let message = format!("parameter {} has no value", missing.name());
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let state = self.state(cancel)?;
        let columns = self.schema();
        let frame = statement::carry_out(session, state, self.source.clone(), plan).await?;
        let stream = frame.execute_stream().await?;
        // What gives no rows has no columns either, whatever DataFusion answers.
        match columns {
            Some(columns) if columns.fields().is_empty() => Ok(Box::pin(
                RecordBatchStreamAdapter::new(columns, futures::stream::empty()),
            )),
            _ => Ok(stream),
        }
    }
}
