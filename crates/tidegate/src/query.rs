//! One query from its physical plan to its end: its clock, its books, and its place in the history.
//!
//! [`QueryPlanner`] plans as DataFusion does, on a stack large enough for anything that parses, and
//! puts a [`QueryExec`] at the root. That node waits at the gate, counts memory, enforces `tidegate.statement_timeout`, turns a panic
//! into an error of its query alone, and when its last stream ends writes down what ran where.

mod admission;
mod again;
mod cached_plan;
mod cancel;
mod exec;
mod history;
mod log;
mod plan_size;
mod planning;
mod progress;
mod rules;
mod yielding;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::{QueryPlanner as DataFusionQueryPlanner, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::PhysicalPlanner;

use crate::clients::Client;
use crate::error::{Error, ErrorKind};
use crate::mapping::planner;
use crate::options::TidegateOptions;
use crate::runtime::Runtime;
use crate::spread;
use admission::Admission;

pub(crate) use admission::refused;
pub(crate) use again::SecondTry;
pub(crate) use cached_plan::{CachedPlan, CachedStatement, Snapshot};
pub use cancel::CancelHandle;
pub(crate) use exec::{Deadline, QueryExec, flatten_panic, panicked, regions};
pub(crate) use history::{Asked, History, Record, Regions};
pub use history::{QueryReport, QueryState};
pub use log::{LoggedQuery, QueryPlacement, QueryWatcher, Work};
pub(crate) use plan_size::{BoundedRelations, PlanSize, check_columns, check_windows};
pub(crate) use planning::{apart, begins, on_large_stack};
pub use progress::QueryProgress;
pub(crate) use rules::with_stops;
pub(crate) use yielding::YieldAtJoins;

/// Says that a statement was told to stop.
pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the statement was cancelled")
}

/// Plans as DataFusion does and puts a [`QueryExec`] above.
#[derive(Debug)]
pub(crate) struct QueryPlanner {
    pub(crate) runtime: Arc<Runtime>,
}

#[async_trait]
impl DataFusionQueryPlanner for QueryPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let began = Instant::now();
        let plan = match CachedStatement::root_of(logical_plan) {
            Some(cached) if cached.is_current(Some(session)).await => Some(cached.again()?),
            _ => None,
        };
        let (plan, again) = match plan {
            Some(plan) => (plan, None),
            None => {
                let logical_plan = CachedStatement::unfolded(logical_plan)?;
                let pool = &session.runtime_env().memory_pool;
                let _held = PlanSize::of(&logical_plan).reserve(pool)?;
                physical(&logical_plan, session).await?
            }
        };
        Ok(watched(
            &self.runtime,
            plan,
            again,
            session,
            began.elapsed(),
        ))
    }
}

/// Makes the plan of an optimized statement, over executors if the session has any and the statement is
/// not to stay; and what it takes to plan it again for less memory.
pub(crate) async fn physical(
    logical: &LogicalPlan,
    session: &dyn Session,
) -> Result<(Arc<dyn ExecutionPlan>, Option<SecondTry>)> {
    if let Some(state) = session.as_any().downcast_ref::<SessionState>()
        && let Some(plan) = spread::plan(logical, state).await?
    {
        return Ok((plan, None));
    }
    let planner = planner();
    let plan = planner.create_physical_plan(logical, session);
    let plan = on_large_stack(plan).await?;
    let again = SecondTry::of(&plan, logical, session);
    Ok((plan, again))
}

/// Puts a [`QueryExec`] above a plan that took so long to make, and may be made again for less memory.
pub(crate) fn watched(
    runtime: &Runtime,
    plan: Arc<dyn ExecutionPlan>,
    again: Option<SecondTry>,
    session: &dyn Session,
    planned_in: Duration,
) -> Arc<dyn ExecutionPlan> {
    let options = TidegateOptions::of(session.config_options());
    let is_client = Client::of(session.config()).is_some();
    let admission = Admission::new(runtime, &plan, &options, is_client);
    let record = History::of(runtime).planned(Asked::of(session), planned_in);
    let timeout = options.statement_timeout;
    Arc::new(QueryExec::new(
        plan,
        again,
        (timeout, planned_in),
        admission,
        record,
    ))
}
