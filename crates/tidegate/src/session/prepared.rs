//! Prepared statements: planned once, run with one list of values after the other.
//!
//! A statement that one device answers from its column cache runs no plan at all: its program is
//! kept, and takes the values as its parameters ([`fast_path`]). Any other is planned with the values
//! in place of the parameters, as if they had been written there.

mod by_name;
mod fast_path;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    Deallocate, Execute, Expr, LogicalPlan, Prepare, Statement as PlanStatement,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use parking_lot::Mutex;

use super::dependencies::Dependencies;
use super::hinted::with_hint;
use super::statement::Source;
use super::{Session, hints, statement};
use crate::error::{Error, ErrorKind};
use crate::lower::parameter::number_of;
use crate::query::apart;
use crate::statements::StatementContext;
pub(super) use by_name::{num_declared, order_values};
use fast_path::FastPath;

/// A statement of a session that was prepared; cheap to clone.
#[derive(Clone)]
pub struct Prepared {
    session: Session,
    statement: Arc<Statement>,
}

/// A prepared statement without the session that runs it.
#[derive(Debug)]
pub(super) struct Statement {
    source: Source,
    planned: Mutex<Arc<Planned>>,
}

/// What a statement means over the tables that there are.
#[derive(Debug)]
struct Planned {
    plan: LogicalPlan,
    dependencies: Dependencies,
    /// By parameter; `None` where the plan leaves it open.
    types: Vec<Option<DataType>>,
    fast_path: FastPath,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("text", &self.statement.source.sql)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// Returns the types of the parameters `$1`, `$2` …, as inferred or declared; `None` where any
    /// type is accepted.
    pub fn parameter_types(&self) -> Vec<Option<DataType>> {
        self.statement.planned.lock().types.clone()
    }

    /// Returns the columns of the statement's rows.
    pub fn schema(&self) -> SchemaRef {
        self.statement.planned.lock().schema()
    }

    /// Returns the text that was prepared.
    pub fn text(&self) -> &str {
        &self.statement.source.sql
    }

    /// Runs the statement with these values and streams its rows. Each value is cast to its
    /// parameter's type; NULL is a value of any type. Names of tables are resolved at each
    /// execution.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] for another number of values, or one that its type does not have; see
    /// [`ErrorKind`] for the others.
    pub async fn execute(
        &self,
        values: &[ScalarValue],
    ) -> Result<SendableRecordBatchStream, Error> {
        self.start(Arc::clone(&self.statement.source.context), values)
            .await
    }

    /// Runs the statement with these values and collects its rows, as [`Prepared::execute`] does.
    ///
    /// # Errors
    /// Those of [`Prepared::execute`].
    pub async fn collect(&self, values: &[ScalarValue]) -> Result<Vec<RecordBatch>, Error> {
        Ok(collect(self.execute(values).await?).await?)
    }

    /// As [`Prepared::execute`], remembered under the text of another statement.
    pub(super) async fn start(
        &self,
        context: Arc<StatementContext>,
        values: &[ScalarValue],
    ) -> Result<SendableRecordBatchStream, Error> {
        let planned = self.planned().await?;
        let values = planned.cast(values)?;
        // Settings of its own say where it runs.
        if self.statement.source.context.hints.is_empty()
            && let Some(rows) =
                fast_path::answer(&self.session, &planned, &context.shown, &values).await?
        {
            let schema = rows
                .first()
                .map_or_else(|| planned.schema(), RecordBatch::schema);
            let rows = stream::iter(rows.into_iter().map(Ok));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        let frame = self.bound(&planned, context, values)?;
        let timeout = statement::timeout(&self.session);
        apart(timeout, async move { Ok(frame.execute_stream().await?) }).await
    }

    /// Returns the statement with these values as a frame.
    pub(super) async fn frame(
        &self,
        context: Arc<StatementContext>,
        values: &[ScalarValue],
    ) -> Result<DataFrame, Error> {
        let planned = self.planned().await?;
        let values = planned.cast(values)?;
        self.bound(&planned, context, values)
    }

    /// Returns what the statement means over the tables that there are now.
    async fn planned(&self) -> Result<Arc<Planned>, Error> {
        let planned = Arc::clone(&self.statement.planned.lock());
        if planned.dependencies.hold(&self.session.ctx).await {
            return Ok(planned);
        }
        let (session, text) = (self.session.clone(), Arc::clone(&self.statement.source.sql));
        let timeout = statement::timeout(&session);
        let anew = apart(timeout, async move { Planned::of(&session, &text).await })
            .await?
            .1;
        let anew = Arc::new(anew);
        *self.statement.planned.lock() = Arc::clone(&anew);
        Ok(anew)
    }

    fn bound(
        &self,
        planned: &Planned,
        context: Arc<StatementContext>,
        values: Vec<ScalarValue>,
    ) -> Result<DataFrame, Error> {
        let values = values.into_iter().map(ScalarAndMetadata::from).collect();
        let plan = planned.plan.clone();
        let plan = plan.replace_params_with_values(&ParamValues::List(values))?;
        let mut state = statement::state_of(&self.session, context)?;
        hints::apply(
            &self.session,
            &mut state,
            &self.statement.source.context.hints,
        )?;
        Ok(DataFrame::new(state, plan))
    }
}

impl Planned {
    /// Plans a query, a statement that changes rows, or `PREPARE` of one.
    async fn of(session: &Session, sql: &str) -> Result<(Source, Self), Error> {
        let refused = || {
            Error::new(
                ErrorKind::NotSupported,
                "only a query, or INSERT, UPDATE or DELETE, can be prepared",
            )
        };
        let (text, mut source) = statement::read(session, sql)?;
        let query = text.parse()?.standard().ok_or_else(refused)?;
        let state = statement::state_of(session, Arc::clone(&source.context))?;
        let plan = match source.plan(session, &state, query).await {
            Ok(plan) => plan,
            Err(error) => return Err(with_hint(error, sql, session)),
        };
        super::rights::check_rights(&state, &plan)?;
        let planned = match plan {
            LogicalPlan::Statement(PlanStatement::Prepare(statement)) => {
                Self::of_named(session, &source, &statement).await?
            }
            LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => return Err(refused()),
            plan => Self::new(session, &source, plan, &[]).await?,
        };
        Ok((source, planned))
    }

    async fn of_named(
        session: &Session,
        source: &Source,
        statement: &Prepare,
    ) -> Result<Self, Error> {
        // Of a statement that declares none, the planner lists the types that it knows, without gaps.
        let fields = statement.fields.iter().take(source.num_declared);
        let declared: Vec<DataType> = fields.map(|field| field.data_type().clone()).collect();
        let plan = statement.input.as_ref().clone();
        Self::new(session, source, plan, &declared).await
    }

    async fn new(
        session: &Session,
        source: &Source,
        plan: LogicalPlan,
        declared: &[DataType],
    ) -> Result<Self, Error> {
        let plan = with_open_types(plan)?;
        let inferred = plan.get_parameter_types()?;
        let mut types: Vec<Option<DataType>> = vec![None; inferred.len()];
        for (id, data_type) in inferred {
            let slot = number_of(&id).and_then(|number| types.get_mut(number));
            let Some(slot) = slot else {
                let message = format!(
                    "parameter {id}: the parameters of a prepared statement are $1, $2 and so on, \
                     without a gap"
                );
                return Err(Error::new(ErrorKind::Sql, message));
            };
            *slot = data_type;
        }
        for (slot, declared) in types.iter_mut().zip(declared) {
            *slot = Some(declared.clone());
        }
        Ok(Self {
            dependencies: Dependencies::of(&session.ctx, source, Some(&plan)).await,
            plan,
            types,
            fast_path: FastPath::default(),
        })
    }

    fn schema(&self) -> SchemaRef {
        let schema: &Schema = self.plan.schema().as_arrow();
        Arc::new(schema.clone())
    }

    /// Casts values to the types of the parameters.
    fn cast(&self, values: &[ScalarValue]) -> Result<Vec<ScalarValue>, Error> {
        if values.len() != self.types.len() {
            let message = format!(
                "the prepared statement has {} parameters, but {} values were given",
                self.types.len(),
                values.len()
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let cast = |(number, (value, wanted)): (usize, (&ScalarValue, &Option<DataType>))| {
            let Some(wanted) = wanted else {
                return Ok(value.clone());
            };
            if value.data_type() == *wanted {
                return Ok(value.clone());
            }
            value.cast_to(wanted).map_err(|error| {
                let given = value.data_type();
                let message = format!(
                    "parameter ${} is {wanted}: the value {value} of type {given} is none",
                    number + 1
                );
                Error::with_source(ErrorKind::Sql, message, error)
            })
        };
        let values = values.iter().zip(&self.types).enumerate();
        values.map(cast).collect()
    }
}

/// Leaves the type of a parameter open where DataFusion says that it is Null: it is the type of another parameter beside
/// it, as in `$1 + $2`, which is open too.
///
/// # Errors
/// None for plans that DataFusion made.
pub(super) fn with_open_types(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    if plan.get_parameter_names()?.is_empty() {
        return Ok(plan);
    }
    let opened = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|mut part| match &mut part {
                Expr::Placeholder(Placeholder { field, .. })
                    if field
                        .as_ref()
                        .is_some_and(|field| field.data_type().is_null()) =>
                {
                    *field = None;
                    Ok(Transformed::yes(part))
                }
                _ => Ok(Transformed::no(part)),
            })
        })
    });
    opened.data()
}

/// Prepares a query, or a statement that changes rows.
pub(super) async fn prepare(session: &Session, sql: &str) -> Result<Prepared, Error> {
    let (source, planned) = Planned::of(session, sql).await?;
    Ok(Prepared {
        session: session.clone(),
        statement: Arc::new(Statement::new(source, planned)),
    })
}

impl Statement {
    fn new(source: Source, planned: Planned) -> Self {
        Self {
            source,
            planned: Mutex::new(Arc::new(planned)),
        }
    }
}

/// Runs `PREPARE name AS …`.
pub(super) async fn prepare_named(
    session: &Session,
    source: Source,
    mut statement: Prepare,
) -> Result<DataFrame, Error> {
    let name = statement.name.clone();
    let own = Planned::of_named(session, &source, &statement).await?;
    let num_types = own.types.len();
    if source.num_declared > num_types {
        let message = format!(
            "PREPARE {name}: {} types are declared, and the statement has {num_types} parameters: leave the others out",
            source.num_declared
        );
        return Err(Error::new(ErrorKind::Sql, message));
    }
    if statement.fields.len() != num_types {
        // DataFusion takes all types or none.
        statement.fields.clear();
    }
    // DataFusion checks it, and knows it too, for whoever asks the context.
    let plan = LogicalPlan::Statement(PlanStatement::Prepare(statement));
    let done = session.ctx.execute_logical_plan(plan).await?;
    let own = Arc::new(Statement::new(source, own));
    session.plans.prepared.lock().insert(name, own);
    Ok(done)
}

/// Runs `DEALLOCATE name`.
pub(super) async fn deallocate(
    session: &Session,
    statement: Deallocate,
) -> Result<DataFrame, Error> {
    session.plans.prepared.lock().remove(&statement.name);
    let plan = LogicalPlan::Statement(PlanStatement::Deallocate(statement));
    Ok(session.ctx.execute_logical_plan(plan).await?)
}

/// Returns the plan of an `EXPLAIN EXECUTE name(values)` with the statement that it is about.
pub(super) async fn explained(
    session: &Session,
    source: &Source,
    mut plan: LogicalPlan,
) -> Result<LogicalPlan, Error> {
    let about = match &mut plan {
        LogicalPlan::Explain(explain) => &mut explain.plan,
        LogicalPlan::Analyze(analyze) => &mut analyze.input,
        _ => return Ok(plan),
    };
    if let LogicalPlan::Statement(PlanStatement::Execute(execute)) = about.as_ref() {
        let Some((prepared, values)) = named(session, execute)? else {
            let message = format!("Prepared statement '{}' does not exist", execute.name);
            return Err(Error::new(ErrorKind::Sql, message));
        };
        let frame = prepared.frame(Arc::clone(&source.context), &values).await?;
        *about = Arc::new(frame.into_unoptimized_plan());
    }
    Ok(plan)
}

/// Finds the statement of `EXECUTE name(values)`, and its values.
pub(super) fn named(
    session: &Session,
    execute: &Execute,
) -> Result<Option<(Prepared, Vec<ScalarValue>)>, Error> {
    let known = session.plans.prepared.lock().get(&execute.name).cloned();
    let Some(statement) = known else {
        return Ok(None);
    };
    let state = session.ctx.state();
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(statement.planned.lock().plan.schema()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let value = |expr: &Expr| match simplifier.simplify(expr.clone())? {
        Expr::Literal(value, _) => Ok(value),
        other => Err(Error::new(
            ErrorKind::NotSupported,
            format!("EXECUTE {}: {other} is no constant", execute.name),
        )),
    };
    let values = execute.parameters.iter().map(value);
    let prepared = Prepared {
        session: session.clone(),
        statement,
    };
    Ok(Some((prepared, values.collect::<Result<_, _>>()?)))
}
