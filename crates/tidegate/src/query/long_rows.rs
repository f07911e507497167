//! Batches of fewer rows for statements that read long rows.
//!
//! A batch has 8,192 rows, whatever they are: of 240 KB they are 2 GB, which a reader makes in one step and nobody asks
//! for. Footers of Parquet files tell how long rows are, so that a statement can have smaller batches from the
//! beginning, in whatever reads, gathers or joins them.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use crate::files::file_scan;
use crate::files::footers::row_bytes;
use crate::options::TidegateOptions;
use crate::spilling::statement_limit;
use crate::task_context::copied_context;

/// The part of a partition's memory that a batch of long rows may take.
pub(super) const BATCH_SHARE: u64 = 16;

/// A batch may always take so many bytes: one of few rows costs more than they do.
const BATCH_BYTES_MIN: u64 = 1 << 20;

/// Returns a state that plans with smaller batches what reads long rows; `None` where rows are short. Some nodes have
/// the number of rows from the planner, others from the context in which they run.
pub(super) fn state_for_small_batches(
    plan: &Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Result<Option<SessionState>> {
    let environment = session.runtime_env();
    let Some(rows) = rows_of_batches(plan, environment, session.config())? else {
        return Ok(None);
    };
    let state = session.as_any().downcast_ref::<SessionState>();
    Ok(state.map(|state| {
        let mut builder = SessionStateBuilder::new_from_existing(state.clone());
        // The builder's own config, in which the catalogs stay those of the session.
        let config = builder.config().take().unwrap_or_default();
        builder.with_config(config.with_batch_size(rows)).build()
    }))
}

/// Returns a context with batches of as many rows as there is memory for: the same where rows are short.
pub(super) fn with_small_batches(
    ctx: Arc<TaskContext>,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<TaskContext>> {
    let config = ctx.session_config();
    let Some(rows) = rows_of_batches(plan, &ctx.runtime_env(), config)? else {
        return Ok(ctx);
    };
    let config = config.clone().with_batch_size(rows);
    Ok(Arc::new(copied_context(&ctx).with_session_config(config)))
}

/// Returns how many rows batches should have, if that is less than what a session has set.
fn rows_of_batches(
    plan: &Arc<dyn ExecutionPlan>,
    environment: &RuntimeEnv,
    config: &SessionConfig,
) -> Result<Option<usize>> {
    let MemoryLimit::Finite(of_process) = environment.memory_pool.memory_limit() else {
        return Ok(None);
    };
    let mut longest = 0;
    plan.apply(|node| {
        if let Some(scan) = file_scan(node) {
            longest = row_bytes(scan, environment).max(longest);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if longest == 0 {
        return Ok(None);
    }
    let limit = statement_limit(&TidegateOptions::of(config.options()), of_process as u64);
    let each = limit / config.target_partitions().max(1) as u64;
    let rows = batch_rows(each, longest);
    Ok((rows < config.batch_size()).then_some(rows))
}

/// Returns how many long rows a batch has, where a partition may take so many bytes.
pub(super) fn batch_rows(partition_bytes: u64, row_bytes: u64) -> usize {
    let bytes = (partition_bytes / BATCH_SHARE).max(BATCH_BYTES_MIN);
    let rows = bytes / row_bytes.max(1);
    usize::try_from(rows.max(1)).unwrap_or(usize::MAX)
}
