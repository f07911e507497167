//! The seam for statements that run over several executors.
//!
//! A session that was built with a [`SpreadPlanner`] plans each statement up to, and without, the rules
//! that make regions, and asks it. What it spreads it plans further itself; what stays gets regions as
//! ever. An executor places the stage that it was sent by [`place_stage`]. Leaves of our own
//! are described by [`LeafDescription`], so that a codec can carry them.
//!
//! This module must not know: how executors are found, or what carries plans to them.

mod leaves;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::config::ConfigOptions;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{AggregateUDF, LogicalPlan, ScalarUDF};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion::physical_planner::PhysicalPlanner;
use datafusion::prelude::SessionConfig;
use datafusion_datasource::sink::DataSinkExec;

use crate::error::{Error, ErrorKind};
use crate::floats::{canonical, extremes};
use crate::functions::intervals::interval_span;
use crate::mapping::{is_mapping, planner};
use crate::options::{FloatSums, SpreadMode, TidegateOptions};
use crate::query::{YieldAtJoins, on_large_stack};
use crate::rule::PlacePipelines;
use crate::runtime::Runtime;
use crate::spilling::TopKThatSpills;

pub use leaves::{LeafDescription, leaf_bytes, leaf_shares};

/// The rules that come last; what they make is of this process alone.
const OWN_RULES: [&str; 4] = [
    "yield_at_joins",
    "write_whole",
    "top_k_that_spills",
    "place_pipelines",
];

/// Decides whether a statement runs over several executors.
///
/// # Contract
/// `spread` runs nothing. Its plan gives the rows of the plan that it was given, in the order that this
/// one promises, in one partition.
#[async_trait]
pub trait SpreadPlanner: fmt::Debug + Send + Sync {
    /// Plans a statement over executors, or says why it stays.
    ///
    /// # Errors
    /// Those of planning.
    async fn spread(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        session: &SessionState,
    ) -> Result<Spreading>;

    /// Reports the executors, in the order of their names.
    fn executors(&self) -> Vec<ExecutorReport>;

    /// Reports the tasks of statements that ran over executors lately, oldest first.
    fn tasks(&self) -> Vec<TaskReport>;
}

/// What becomes of a statement.
#[derive(Debug)]
pub enum Spreading {
    /// It runs over executors.
    Out {
        /// The plan, of one partition.
        plan: Arc<dyn ExecutionPlan>,
        /// Its stages, tasks and executors, as EXPLAIN shows them.
        text: String,
    },
    /// It stays in this process, with the reason.
    Here(String),
}

/// An executor, as `system.executors` shows it.
#[derive(Clone, Debug, Default)]
pub struct ExecutorReport {
    /// Its name.
    pub name: String,
    /// Where it answers.
    pub url: String,
    /// Its version.
    pub version: String,
    /// `ready`, `draining`, `suspect` (a statement lost it, and it has not reported since) or `refused`.
    pub state: String,
    /// Why it is not used.
    pub reason: Option<String>,
    /// Its cores.
    pub cores: u64,
    /// Bytes that its statements may hold.
    pub memory_limit: u64,
    /// Bytes that they hold.
    pub memory_used: u64,
    /// Its devices, by name.
    pub devices: Vec<String>,
    /// Tasks that it runs.
    pub tasks: u64,
    /// Seconds since it reported last.
    pub silent_seconds: f64,
}

/// A task of a statement, as `system.tasks` shows it.
#[derive(Clone, Debug, Default)]
pub struct TaskReport {
    /// The statement's number among those that ran over executors.
    pub statement: u64,
    /// The statement's run, from 1.
    pub attempt: u64,
    /// The stage's number.
    pub stage: u64,
    /// The task's number in its stage, from 0.
    pub task: u64,
    /// The executor's name.
    pub executor: String,
    /// `running`, `done`, `lost`, `failed` or `cancelled`.
    pub state: String,
}

/// A [`SpreadPlanner`] as an extension of a session's config.
#[derive(Debug)]
pub(crate) struct SpreadHook(pub(crate) Arc<dyn SpreadPlanner>);

/// Prepares a session's config for a planner of stages.
pub(crate) fn add_to(config: SessionConfig, planner: Arc<dyn SpreadPlanner>) -> SessionConfig {
    let mut config = config.with_extension(Arc::new(SpreadHook(planner)));
    // Stages are cut in one plan; a subquery that the plan runs beside itself could not be.
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    config
}

/// Reports the executors and the tasks that a session may use; none without a planner of stages.
pub(crate) fn reports(config: &SessionConfig) -> (Vec<ExecutorReport>, Vec<TaskReport>) {
    match config.get_extension::<SpreadHook>() {
        Some(hook) => (hook.0.executors(), hook.0.tasks()),
        None => (Vec::new(), Vec::new()),
    }
}

/// Plans a statement of a session that has a planner of stages; `None` if the session has none, or the
/// statement is of a kind that is never spread.
///
/// # Errors
/// Those of planning.
pub(crate) async fn plan(
    logical: &LogicalPlan,
    state: &SessionState,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(hook) = state.config().get_extension::<SpreadHook>() else {
        return Ok(None);
    };
    if let LogicalPlan::Explain(explain) = logical {
        let planner = planner();
        let explained = on_large_stack(planner.create_physical_plan(logical, state)).await?;
        return Ok(Some(match spread(&explain.plan, state, &hook).await? {
            Some(spreading) => with_stages(explained, &spreading),
            None => explained,
        }));
    }
    match spread(logical, state, &hook).await? {
        Some(Spreading::Out { plan, .. }) => Ok(Some(plan)),
        _ => Ok(None),
    }
}

/// Asks the planner of stages; `None` for a statement about which there is nothing to say.
async fn spread(
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
        if options.float_sums == FloatSums::Ordered {
            return stays("tidegate.float_sums = 'ordered' adds in the order of one process");
        }
        let before = before_own_rules(state)?;
        let planner = planner();
        let plan = on_large_stack(planner.create_physical_plan(logical, &before)).await?;
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

/// Returns a state that plans without the rules of [`OWN_RULES`].
fn before_own_rules(state: &SessionState) -> Result<SessionState> {
    let rules = state.physical_optimizers().iter();
    let rules = rules.filter(|rule| !OWN_RULES.contains(&rule.name()));
    let rules = rules.map(Arc::clone).collect();
    let mut builder =
        SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules);
    // The builder's own config, in which the catalogs stay those of the session.
    let config = builder.config().get_or_insert_with(SessionConfig::new);
    // Executors push their own; what is pushed here would be lost on the way.
    let pushes = "datafusion.optimizer.enable_dynamic_filter_pushdown";
    config.options_mut().set(pushes, "false")?;
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

/// Makes regions of a plan that was meant to be spread and runs in this process after all.
///
/// # Errors
/// Those of the rules.
pub fn place_here(
    plan: Arc<dyn ExecutionPlan>,
    runtime: &Arc<Runtime>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    place_stage(plan, runtime, config)
}

/// Makes regions of a stage that this process runs as an executor: dynamic filters first, which did not
/// travel, then the rules that a whole statement ends with.
///
/// # Errors
/// Those of the rules.
pub fn place_stage(
    plan: Arc<dyn ExecutionPlan>,
    runtime: &Arc<Runtime>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rules: [Arc<dyn PhysicalOptimizerRule>; 4] = [
        Arc::new(FilterPushdown::new_post_optimization()),
        Arc::new(YieldAtJoins),
        Arc::new(TopKThatSpills::new(Arc::clone(runtime))),
        Arc::new(PlacePipelines::new(Arc::clone(runtime))),
    ];
    rules
        .iter()
        .try_fold(plan, |plan, rule| rule.optimize(plan, config))
}

/// Puts what becomes of a statement into its EXPLAIN.
fn with_stages(explained: Arc<dyn ExecutionPlan>, spreading: &Spreading) -> Arc<dyn ExecutionPlan> {
    let Some(explain) = explained.downcast_ref::<ExplainExec>() else {
        return explained;
    };
    let plans = explain.stringified_plans().iter().map(|plan| {
        if plan.plan_type != PlanType::FinalPhysicalPlan {
            return plan.clone();
        }
        let text = match spreading {
            Spreading::Out { text, .. } => text.clone(),
            Spreading::Here(why) => format!("Not spread: {why}\n{}", plan.plan),
        };
        StringifiedPlan::new(PlanType::FinalPhysicalPlan, text)
    });
    let plans = plans.collect();
    Arc::new(ExplainExec::new(explain.schema(), plans, explain.verbose()))
}

/// Returns the functions of plans that no session registers: a process that reads plans of another one
/// needs them, in the place of those that have their names.
pub fn inner_functions() -> (Vec<Arc<ScalarUDF>>, Vec<Arc<AggregateUDF>>) {
    let scalar = vec![canonical::function(), interval_span()];
    (scalar, extremes::both().to_vec())
}

/// Describes an error as the process would that runs the statement: who must act, and the message.
pub fn described(error: &DataFusionError) -> (ErrorKind, String) {
    let error = Error::from_ref(error);
    (error.kind(), error.to_string())
}

/// Writes a plan as EXPLAIN does.
pub fn written(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}
