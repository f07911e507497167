//! One query from its physical plan to its end: its clock, its books, and its place in the history.
//!
//! [`QueryPlanner`] plans as DataFusion does, on a stack large enough for anything that parses, and
//! puts a [`QueryExec`] at the root. That node enforces `tidegate.statement_timeout`, turns a panic
//! into an error of its query alone, and when its last stream ends writes down what ran where.

mod exec;
mod history;
mod stack;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner as DataFusionQueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::options::TidegateOptions;
use crate::runtime::Runtime;

pub(crate) use exec::{QueryExec, regions};
pub(crate) use history::History;
pub use history::{QueryReport, QueryState};
pub(crate) use stack::on_large_stack;

/// The text of the statement that a session state plans, carried as an extension of its config.
#[derive(Clone, Debug)]
pub(crate) struct StatementText(pub(crate) Arc<str>);

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
        let planner = DefaultPhysicalPlanner::default();
        let plan = on_large_stack(planner.create_physical_plan(logical_plan, session)).await?;
        let text = session.config().get_extension::<StatementText>();
        let timeout = TidegateOptions::of(session.config_options()).statement_timeout;
        let record = self
            .runtime
            .history()
            .planned(text.map(|text| Arc::clone(&text.0)));
        Ok(Arc::new(QueryExec::new(plan, timeout, record)))
    }
}
