//! One query from its physical plan to its end: its clock, its books, and its place in the history.
//!
//! [`QueryPlanner`] plans as DataFusion does, on a stack large enough for anything that parses, and
//! puts a [`QueryExec`] at the root. That node waits at the gate, counts memory, enforces `tidegate.statement_timeout`, turns a panic
//! into an error of its query alone, and when its last stream ends writes down what ran where.

mod cancel;
mod entrance;
mod exec;
mod history;
mod known;
mod log;
mod progress;
mod stack;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner as DataFusionQueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::PhysicalPlanner;

use crate::error::{Error, ErrorKind};
use crate::frames::planner;
use crate::options::TidegateOptions;
use crate::runtime::Runtime;
use crate::session::Client;
use entrance::Entrance;

pub use cancel::CancelHandle;
pub(crate) use entrance::refused;
pub(crate) use exec::{Deadline, QueryExec, flatten_panic, regions};
pub(crate) use history::{Asked, History, Owner, Record, Regions};
pub use history::{QueryReport, QueryState};
pub(crate) use known::{KnownPlan, KnownStatement, Snapshot};
pub use log::{LoggedQuery, QueryPlacement, QueryWatcher, Work};
pub use progress::QueryProgress;
pub(crate) use stack::on_large_stack;

/// Says that a statement was told to stop.
pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the statement was cancelled")
}

/// The text of the statement that a session state plans, carried as an extension of its config,
/// without the secrets in it.
#[derive(Clone, Debug)]
pub(crate) struct StatementText(pub(crate) Arc<str>);

impl StatementText {
    pub(crate) fn new(sql: &str) -> Self {
        Self(crate::statements::redacted(sql).into())
    }
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
        let plan = match KnownStatement::root_of(logical_plan) {
            Some(known) => known.again(Some(session)).await?,
            None => None,
        };
        let plan = match plan {
            Some(plan) => plan,
            None => {
                let logical_plan = KnownStatement::unfolded(logical_plan)?;
                let planner = planner();
                on_large_stack(planner.create_physical_plan(&logical_plan, session)).await?
            }
        };
        Ok(watched(&self.runtime, plan, session, began.elapsed()))
    }
}

/// Puts a [`QueryExec`] above a plan that took so long to make.
pub(crate) fn watched(
    runtime: &Runtime,
    plan: Arc<dyn ExecutionPlan>,
    session: &dyn Session,
    planned_in: Duration,
) -> Arc<dyn ExecutionPlan> {
    let options = TidegateOptions::of(session.config_options());
    let is_client = Client::of(session.config()).is_some();
    let entrance = Entrance::new(runtime, &plan, &options, is_client);
    let record = runtime.history().planned(Asked::of(session), planned_in);
    let timeout = options.statement_timeout;
    Arc::new(QueryExec::new(plan, timeout, entrance, record))
}
