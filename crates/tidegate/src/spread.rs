//! The seam for statements that run over several executors.
//!
//! A session that was built with a [`SpreadPlanner`] plans each statement up to, and without, the rules
//! that make regions, and asks it. What it spreads it plans further itself; what stays gets regions as
//! ever. An executor places the stage that it was sent by `crate::stages`. Leaves of our own
//! are described by [`LeafDescription`], so that a codec can carry them.
//!
//! This module must not know: how executors are found, or what carries plans to them.

mod cells;
mod files;
mod leaves;
mod local;
mod readers;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionConfig;

use crate::error::{Error, ErrorKind};
use crate::floats::{canonical, extremes};
use crate::functions::intervals::interval_span;
use crate::functions::{kept, time_means};
use crate::memory::SpillFailure;
use crate::region::report::RegionReport;

pub use leaves::{LeafDescription, LeafShare, leaf_bytes, leaf_lost, leaf_shares, leaf_table};
pub use local::{LocalExec, joined_tables, shared_leaf};
pub(crate) use local::{is_local, local};
pub use readers::Reader;

/// What the stages of a statement are planned for, whatever this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many executors there are.
    pub executors: usize,
    /// How many partitions a stage has on each.
    pub partitions: usize,
    /// Bytes that the statements of each may hold.
    pub memory: u64,
}

/// Decides whether a statement runs over several executors.
///
/// # Contract
/// `spread` runs nothing. Its plan gives the rows of the plan that it was given, in the order that this
/// one promises, in one partition.
#[async_trait]
pub trait SpreadPlanner: fmt::Debug + Send + Sync {
    /// Returns what stages are planned for where executors of these names may be used, or any if there is none; `None`
    /// if no executor is there.
    fn extent(&self, executors: &[String]) -> Option<Extent>;

    /// Has executors count the rows of a side of a join: returns a plan of the same rows, in the same partitions and
    /// order.
    fn counted(&self, side: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>;

    /// Returns how many rows a side had when it was counted last; `None` if it was not.
    fn rows_counted(&self, side: &Arc<dyn ExecutionPlan>) -> Option<u64>;

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

    /// Tells an executor to finish its tasks, take no others, and end; returns whether there is one of this
    /// name.
    fn drain(&self, executor: &str) -> bool;

    /// Reports the tasks of statements that ran over executors lately, oldest first.
    fn tasks(&self) -> Vec<TaskReport>;

    /// Writes the stages, tasks and executors of a plan of [`Spreading::Out`] that has not run, as EXPLAIN shows them.
    fn explained(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<String>;

    /// Returns the number of the statement that a plan runs, if it is one of [`Spreading::Out`].
    fn statement_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<u64>;

    /// Reports the regions of a statement's stages, each with the name of the executor that ran it, as far
    /// as executors have told.
    fn regions(&self, statement: u64) -> Vec<(String, RegionReport)>;

    /// Reports what the cluster has done so far.
    fn activity(&self) -> ClusterActivity;
}

/// What becomes of a statement.
#[derive(Debug)]
pub enum Spreading {
    /// It runs over executors.
    Out {
        /// The plan, of one partition.
        plan: Arc<dyn ExecutionPlan>,
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
    /// `ready`, `draining`, `suspect` (a statement lost it, and it has not reported since, or several lost it) or `refused`.
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
    /// Bytes of rows that it received from other processes of the cluster, as they are in memory.
    pub received_bytes: u64,
    /// How fast it was at what the executors did lately, next to its cores: 1 is as fast as all of them.
    /// `None` until that is known of two.
    pub speed: Option<f64>,
}

/// What a cluster has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterActivity {
    /// Executors that joined, each time that they did.
    pub joined: u64,
    /// Those of them that went without having been told to.
    pub lost: u64,
    /// Tasks that ended, by their state.
    pub tasks: Vec<(String, u64)>,
    /// Bytes of rows that processes of the cluster received from each other, as they are in memory.
    pub received_bytes: u64,
}

/// A task of a statement, as `system.tasks` shows it.
#[derive(Clone, Debug)]
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
    /// When it was sent.
    pub started: SystemTime,
    /// When its end was known; `None` while it runs.
    pub ended: Option<SystemTime>,
}

/// A [`SpreadPlanner`] as an extension of a session's config.
#[derive(Debug)]
pub(crate) struct SpreadHook(pub(crate) Arc<dyn SpreadPlanner>);

/// Prepares a session's config for a planner of stages.
pub(crate) fn add_to(config: SessionConfig, planner: Arc<dyn SpreadPlanner>) -> SessionConfig {
    config.with_extension(Arc::new(SpreadHook(planner)))
}

/// Returns a session's planner of stages.
pub(crate) fn planner_of(config: &SessionConfig) -> Option<Arc<dyn SpreadPlanner>> {
    let hook = config.get_extension::<SpreadHook>()?;
    Some(Arc::clone(&hook.0))
}

/// Returns the functions of plans that no session registers: a process that reads plans of another one
/// needs them, in the place of those that have their names.
pub fn inner_functions() -> (Vec<Arc<ScalarUDF>>, Vec<Arc<AggregateUDF>>) {
    let scalar = vec![
        canonical::function(),
        interval_span(),
        kept::kept_value(),
        kept::or_null(),
    ];
    let aggregate = extremes::both().into_iter();
    let aggregate = aggregate.chain(time_means::behind_planner());
    (scalar, aggregate.collect())
}

/// Describes an error as the process would that runs the statement: who must act, and the message.
pub fn described(error: &DataFusionError) -> (ErrorKind, String) {
    let error = Error::from_ref(error);
    (error.kind(), error.to_string())
}

/// Tells whether an error is about this process's place for what statements spill, so that another process may well
/// run them.
pub fn cannot_spill(error: &DataFusionError) -> bool {
    let source = Error::own(error).and_then(StdError::source);
    source.is_some_and(|source| source.is::<SpillFailure>())
}

/// Writes a plan as EXPLAIN does.
pub fn written(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}
