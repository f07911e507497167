//! The second try of a query that lacked memory.
//!
//! DataFusion chooses operators by what it expects of the data, and some of them cannot spill. A query
//! that lacks memory before any of its rows has left is planned again, for operators that can: hash joins
//! that may be large become sort-merge joins, batches are smaller, much smaller if their rows are long, and
//! fewer partitions share the memory. The first plan is dropped before the second one begins; neither is
//! executed twice. What writes rows, or maps them by a closure, is not tried again.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::PhysicalPlanner;
use datafusion_datasource::sink::DataSinkExec;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::long_rows::batch_rows;
use super::on_large_stack;
use crate::mapping::{is_mapping, planner};
use crate::node_rule::NodeRule;
use crate::options::TidegateOptions;
use crate::sorts::is_host_sort;
use crate::spilling::{LongRows, compact_sorted, joins_that_spill, statement_limit};
use crate::task_context::copied_context;

/// Bytes of the memory limit for each partition of a second try.
const PARTITION_BYTES: u64 = 128 << 20;

/// Bytes of a partition's part of the memory limit for each row of its batches: queries hold some dozen
/// batches of rows of some hundred bytes in each partition.
const ROW_BYTES: u64 = 48 << 10;

/// The fewest rows of a batch.
const ROWS_MIN: usize = 512;

/// The part of a partition's memory that each of its sorts keeps free for merging.
const MERGE_SHARE: u64 = 64;

/// What it takes to plan a query again.
#[derive(Debug)]
pub(crate) struct SecondTry {
    logical: LogicalPlan,
    state: SessionState,
}

impl SecondTry {
    /// Keeps what a plan was made of, if it may be planned again.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Option<Self> {
        let nodes = Nodes::of(plan);
        if nodes.may_not_run_twice || !nodes.hold_rows {
            return None;
        }
        Some(Self {
            logical: logical.clone(),
            state: session.as_any().downcast_ref::<SessionState>()?.clone(),
        })
    }

    /// Plans the query for less memory than the first time, for want of which it failed; its rows come in one
    /// partition.
    pub(super) async fn plan(
        &self,
        ctx: &Arc<TaskContext>,
        why: &DataFusionError,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let of_process = match ctx.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64,
            MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
        };
        let state = self.state_for_less(of_process, LongRows::of(why))?;
        let planner = planner();
        let plan = planner.create_physical_plan(&self.logical, &state);
        let plan = on_large_stack(plan).await?;
        let plan: Arc<dyn ExecutionPlan> = match plan.output_ordering() {
            _ if plan.output_partitioning().partition_count() == 1 => plan,
            Some(ordering) => {
                let ordering = ordering.clone();
                Arc::new(SortPreservingMergeExec::new(ordering, plan))
            }
            None => Arc::new(CoalescePartitionsExec::new(plan)),
        };
        let ctx = copied_context(ctx).with_session_config(state.config().clone());
        Ok((plan, Arc::new(ctx)))
    }

    fn state_for_less(
        &self,
        of_process: u64,
        long_rows: Option<&LongRows>,
    ) -> Result<SessionState> {
        let options = TidegateOptions::of(self.state.config_options());
        let limit = statement_limit(&options, of_process);
        let mut rules = self.state.physical_optimizers().to_vec();
        let sorts_are_added = rules
            .iter()
            .position(|rule| rule.name() == "EnsureRequirements");
        let Some(sorts_are_added) = sorts_are_added else {
            return Err(DataFusionError::Internal(
                "no rule adds the sorts of joins".into(),
            ));
        };
        let is_last = |name: &str| ["top_k_that_spills", "place_pipelines"].contains(&name);
        let last = rules.iter().position(|rule| is_last(rule.name()));
        let compact = NodeRule("compact_sorted", compact_sorted);
        rules.insert(last.unwrap_or(rules.len()), Arc::new(compact));
        rules.insert(sorts_are_added, joins_that_spill(limit));
        let mut builder = SessionStateBuilder::new_from_existing(self.state.clone())
            .with_physical_optimizer_rules(rules);
        let config = builder.config().take().unwrap_or_default();
        let partitions = (config.target_partitions() as u64)
            .min(limit / PARTITION_BYTES)
            .max(1);
        let each = limit / partitions;
        let rows = match long_rows {
            Some(long) => batch_rows(each, long.row_bytes as u64),
            None => usize::try_from(each / ROW_BYTES)
                .unwrap_or(usize::MAX)
                .max(ROWS_MIN),
        };
        let rows = config.batch_size().min(rows);
        let mut config = config
            .with_target_partitions(partitions as usize)
            .with_batch_size(rows);
        let execution = &mut config.options_mut().execution;
        let to_merge = usize::try_from(each / MERGE_SHARE).unwrap_or(usize::MAX);
        execution.sort_spill_reservation_bytes =
            execution.sort_spill_reservation_bytes.min(to_merge);
        execution.sort_in_place_threshold_bytes =
            execution.sort_in_place_threshold_bytes.min(to_merge);
        Ok(builder.with_config(config).build())
    }
}

/// What the streams of a query know of its tries.
#[derive(Debug)]
pub(super) struct Tries {
    second: Option<SecondTry>,
    phase: Mutex<Phase>,
    replaced: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has left.
    First,
    /// Something has left: what runs is all that will.
    Left,
    /// One stream gives the rows of the second try.
    Second,
}

impl Tries {
    pub(super) fn new(second: Option<SecondTry>) -> Self {
        Self {
            second,
            phase: Mutex::new(Phase::First),
            replaced: CancellationToken::new(),
        }
    }

    /// Tells whether there may be a second try.
    pub(super) fn may_run_again(&self) -> bool {
        self.second.is_some()
    }

    /// Begins the second try, which gives all rows of the query, unless something has left.
    pub(super) fn begin_again(&self) -> Option<&SecondTry> {
        let mut phase = self.phase.lock();
        if *phase != Phase::First {
            return None;
        }
        let second = self.second.as_ref()?;
        *phase = Phase::Second;
        self.replaced.cancel();
        Some(second)
    }

    /// Notes that something of the first try leaves; false if it must not.
    pub(super) fn leave(&self) -> bool {
        let mut phase = self.phase.lock();
        if *phase == Phase::First {
            *phase = Phase::Left;
        }
        *phase == Phase::Left
    }

    /// Tells whether the second try gives all rows.
    pub(super) fn is_replaced(&self) -> bool {
        self.replaced.is_cancelled()
    }

    /// Waits for the second try to begin.
    pub(super) async fn replaced(&self) {
        self.replaced.cancelled().await;
    }
}

/// Returns whether a query failed for want of memory.
pub(super) fn lacks_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// What a plan has that decides whether it may and should be tried again.
#[derive(Default)]
struct Nodes {
    may_not_run_twice: bool,
    hold_rows: bool,
}

impl Nodes {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut nodes = Self::default();
        nodes.look(plan);
        nodes
    }

    fn look(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        self.may_not_run_twice |=
            plan.is::<DataSinkExec>() || is_mapping(plan) || plan.boundedness().is_unbounded();
        self.hold_rows |= plan.is::<HashJoinExec>()
            || plan.is::<CrossJoinExec>()
            || plan.is::<NestedLoopJoinExec>()
            || plan.is::<UnnestExec>()
            || plan.is::<AggregateExec>()
            || plan.is::<SortExec>()
            || is_host_sort(plan.as_ref());
        for input in plan.children() {
            self.look(input);
        }
    }
}
