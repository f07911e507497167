//! One query from its physical plan to its end: its clock, its books, and its place in the history.
//!
//! [`QueryPlanner`] plans as DataFusion does, on a stack large enough for anything that parses, and
//! puts a [`QueryExec`] at the root. That node waits at the gate, counts memory, enforces `tidegate.statement_timeout`, turns a panic
//! into an error of its query alone, and when its last stream ends writes down what ran where.

mod admission;
mod again;
mod broadcast;
mod cached_plan;
mod cancel;
mod exec;
mod few_groups;
mod history;
mod log;
mod long_rows;
mod plan_size;
mod planning;
mod profile;
mod progress;
mod rules;
mod semi_join_reduction;
mod subqueries;
mod yielding;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::error::Result;
use datafusion::execution::context::{QueryPlanner as DataFusionQueryPlanner, SessionState};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::PhysicalPlanner;
use datafusion::prelude::SessionConfig;
use datafusion_datasource::sink::DataSinkExec;

use crate::accounted::changes::refuse_lost_conditions;
use crate::clients::Client;
use crate::error::{Error, ErrorKind};
use crate::mapping::{is_mapping, planner};
use crate::options::{FloatSums, SpreadMode, TidegateOptions};
use crate::rewrite::exact_sums::{rounding_call, with_exact_sums};
use crate::runtime::Runtime;
use crate::spread::{Extent, SpreadHook, Spreading, planner_of};
use admission::Admission;
use broadcast::BroadcastSides;
use few_groups::FewGroups;
use long_rows::state_for_small_batches;
use subqueries::{BESIDE, Subqueries, joined};

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
pub(crate) use profile::profiled;
pub use profile::{LaneWork, OperatorReport, QueryProfile, WorkPiece};
pub use progress::QueryProgress;
pub(crate) use rules::with_stops;
pub(crate) use yielding::yield_at_joins;

/// The rules that come last; what they make is of this process alone.
const OWN_RULES: [&str; 5] = [
    "yield_at_joins",
    "write_whole",
    "write_folders_in_turn",
    "top_k_that_spills",
    "place_pipelines",
];

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
    refuse_lost_conditions(logical)?;
    if let Some(state) = session.as_any().downcast_ref::<SessionState>()
        && let Some(plan) = over_executors(logical, state).await?
    {
        return Ok((plan, None));
    }
    let planner = planner();
    let plan = planner.create_physical_plan(logical, session);
    let plan = on_large_stack(plan).await?;
    // The scans of the plan tell how long rows are.
    if let Some(state) = state_for_small_batches(&plan, session)? {
        let plan = planner.create_physical_plan(logical, &state);
        let plan = on_large_stack(plan).await?;
        let again = SecondTry::of(&plan, logical, &state);
        return Ok((profiled(plan, logical, session.config_options())?, again));
    }
    let again = SecondTry::of(&plan, logical, session);
    Ok((profiled(plan, logical, session.config_options())?, again))
}

/// Plans a statement of a session that has a planner of stages; `None` if the session has none, or the
/// statement is of a kind that is never spread.
///
/// # Errors
/// Those of planning.
async fn over_executors(
    logical: &LogicalPlan,
    state: &SessionState,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(hook) = state.config().get_extension::<SpreadHook>() else {
        return Ok(None);
    };
    if let LogicalPlan::Explain(explain) = logical {
        let planner = planner();
        let explained = on_large_stack(planner.create_physical_plan(logical, state)).await?;
        return Ok(Some(match asked(&explain.plan, state, &hook).await? {
            Some(spreading) => with_stages(explained, &spreading, &hook),
            None => explained,
        }));
    }
    match asked(logical, state, &hook).await? {
        Some(Spreading::Out { plan }) => Ok(Some(plan)),
        _ => Ok(None),
    }
}

/// Asks the planner of stages; `None` for a statement about which there is nothing to say.
async fn asked(
    logical: &LogicalPlan,
    state: &SessionState,
    hook: &SpreadHook,
) -> Result<Option<Spreading>> {
    let options = TidegateOptions::of(state.config_options());
    if matches!(logical, LogicalPlan::Analyze(_)) {
        return stays("EXPLAIN ANALYZE measures one process");
    }
    if !matches!(logical, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) {
        if options.spread.mode == SpreadMode::Never {
            return stays("tidegate.spread = 'never'");
        }
        let extent = hook.0.extent(&options.spread.executors);
        let before = before_own_rules(state, hook, extent)?;
        let logical = match joined(logical, &before)? {
            Subqueries::Joined(logical) => logical,
            Subqueries::Stay(why) => return stays(why),
        };
        let planner = planner();
        let mut plan = on_large_stack(planner.create_physical_plan(&logical, &before)).await?;
        if options.float_sums == FloatSums::Ordered {
            plan = with_exact_sums(&plan, &|_| false)?;
            if let Some((_, name)) = rounding_call(&plan, &|_| false, &|_| true) {
                return stays(&format!(
                    "tidegate.float_sums = 'ordered' and {name}, which has no exact form"
                ));
            }
        }
        if let Some(why) = why_here(&plan) {
            return stays(why);
        }
        return hook.0.spread(&plan, state).await.map(Some);
    }
    Ok(None)
}

fn stays(why: &str) -> Result<Option<Spreading>> {
    Ok(Some(Spreading::Here(why.into())))
}

/// Returns a state that plans without the rules of [`OWN_RULES`], for executors if there are any.
fn before_own_rules(
    state: &SessionState,
    hook: &SpreadHook,
    extent: Option<Extent>,
) -> Result<SessionState> {
    let rules = state.physical_optimizers().iter();
    let rules = rules.filter(|rule| !OWN_RULES.contains(&rule.name()));
    let mut rules: Vec<_> = rules.map(Arc::clone).collect();
    if let Some(extent) = extent {
        let exchanges = rules
            .iter()
            .position(|rule| rule.name() == "EnsureRequirements");
        let exchanges = exchanges.unwrap_or(rules.len());
        let broadcast = BroadcastSides {
            planner: Arc::clone(&hook.0),
            extent,
        };
        let few_groups = FewGroups {
            planner: Arc::clone(&hook.0),
        };
        // Groups are known by their plan, in which no join has been changed yet.
        rules.insert(exchanges, Arc::new(broadcast));
        rules.insert(exchanges, Arc::new(few_groups));
    }
    let mut builder =
        SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules);
    // The builder's own config, in which the catalogs stay those of the session.
    let config = builder.config().get_or_insert_with(SessionConfig::new);
    // Executors push their own; what is pushed here would be lost on the way.
    let pushes = "datafusion.optimizer.enable_dynamic_filter_pushdown";
    config.options_mut().set(pushes, "false")?;
    config.options_mut().set(BESIDE, "false")?;
    // What a scan is told of an order above it does not travel; it only says which rows to read first.
    let hints = "datafusion.optimizer.enable_sort_pushdown";
    config.options_mut().set(hints, "false")?;
    if let Some(extent) = extent {
        config.options_mut().execution.target_partitions = extent.partitions;
    }
    Ok(builder.build())
}

/// Returns why a plan can run in this process alone.
fn why_here(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    if plan.is::<DataSinkExec>() {
        return Some("it writes rows");
    }
    if is_mapping(plan) {
        return Some("it maps rows by a closure of this process");
    }
    if plan.is::<AnalyzeExec>() {
        return Some("EXPLAIN ANALYZE measures one process");
    }
    if plan.boundedness().is_unbounded() {
        return Some("its rows have no end");
    }
    plan.children().into_iter().find_map(why_here)
}

/// Puts what becomes of a statement into its EXPLAIN.
fn with_stages(
    explained: Arc<dyn ExecutionPlan>,
    spreading: &Spreading,
    hook: &SpreadHook,
) -> Arc<dyn ExecutionPlan> {
    let Some(explain) = explained.downcast_ref::<ExplainExec>() else {
        return explained;
    };
    let plans = explain.stringified_plans().iter().map(|plan| {
        if plan.plan_type != PlanType::FinalPhysicalPlan {
            return plan.clone();
        }
        let text = match spreading {
            Spreading::Out { plan } => hook.0.explained(plan).unwrap_or_default(),
            Spreading::Here(why) => format!("Not spread: {why}\n{}", plan.plan),
        };
        StringifiedPlan::new(PlanType::FinalPhysicalPlan, text)
    });
    let plans = plans.collect();
    Arc::new(ExplainExec::new(explain.schema(), plans, explain.verbose()))
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
    let statement = planner_of(session.config()).and_then(|planner| planner.statement_of(&plan));
    let record = History::of(runtime).planned(Asked::of(session), planned_in, statement);
    let timeout = options.statement_timeout;
    Arc::new(QueryExec::new(
        plan,
        again,
        (timeout, planned_in),
        admission,
        record,
    ))
}
