//! Sides of joins whose rows executors count, so that the next statement with the same side is planned for as many.
//!
//! A scheduler knows a side by its plan in text, before exchanges are in it. Each task of its stage tells how many rows
//! it had, if it came to their end; the side is known when all of them have.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::DistributedTaskContext;
use futures::TryStreamExt;
use parking_lot::Mutex;
use tidegate::spread::written;
use tidegate::{UnaryExec, UnaryOperator};

use crate::speeds::hash;

/// Sides that are remembered.
const SIDES_MAX: usize = 10_000;
/// Sides of which not all tasks have told yet, at the most.
const PARTS_MAX: usize = 10_000;

/// See the module.
pub(crate) type CountedExec = UnaryExec<Counted>;

/// What a [`CountedExec`] is.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: Arc<dyn ExecutionPlan>,
    /// The side, in its scheduler's words.
    pub(crate) side: u64,
    count: Arc<Count>,
}

#[derive(Debug)]
struct Count {
    rows: AtomicU64,
    /// Partitions that have not come to their end.
    open: AtomicUsize,
    /// Tasks of the stage.
    tasks: AtomicU64,
}

/// How many rows a task had of a side.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct SideRows {
    #[prost(uint64, tag = "1")]
    pub(crate) side: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) rows: u64,
    /// Tasks that have rows of it, this one included.
    #[prost(uint64, tag = "3")]
    pub(crate) tasks: u64,
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn ExecutionPlan>, side: u64) -> Self {
        let count = Count {
            rows: AtomicU64::new(0),
            open: inner.output_partitioning().partition_count().into(),
            tasks: AtomicU64::new(1),
        };
        Self {
            inner,
            side,
            count: Arc::new(count),
        }
    }
}

impl UnaryOperator for Counted {
    const NAME: &'static str = "CountedExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(inner, self.side)
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let tasks = DistributedTaskContext::from_ctx(&ctx).task_count;
        self.count.tasks.store(tasks as u64, Ordering::Relaxed);
        let rows = self.inner.execute(partition, ctx)?;
        let count = Arc::clone(&self.count);
        let counted = futures::stream::try_unfold(rows, move |mut rows| {
            let count = Arc::clone(&count);
            async move {
                let Some(batch) = rows.try_next().await? else {
                    count.open.fetch_sub(1, Ordering::Relaxed);
                    return Ok(None);
                };
                let number = batch.num_rows() as u64;
                count.rows.fetch_add(number, Ordering::Relaxed);
                Ok(Some((batch, rows)))
            }
        });
        let schema = self.inner.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }

    fn detail(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": side={:016x}", self.side)
    }
}

/// Has executors count the rows of a side.
pub(crate) fn counted(side: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(UnaryExec(Counted::new(Arc::clone(side), number_of(side))))
}

/// Returns the number that a side is known by.
fn number_of(side: &Arc<dyn ExecutionPlan>) -> u64 {
    hash(written(side))
}

/// Returns how many rows a task had of each side that came to its end.
///
/// # Errors
/// None.
pub(crate) fn rows_counted(task: &Arc<dyn ExecutionPlan>) -> Result<Vec<SideRows>> {
    let mut counted = Vec::new();
    task.apply(|node| {
        if let Some(side) = node.downcast_ref::<CountedExec>() {
            let Count { rows, open, tasks } = side.0.count.as_ref();
            if open.load(Ordering::Relaxed) == 0 {
                counted.push(SideRows {
                    side: side.0.side,
                    rows: rows.load(Ordering::Relaxed),
                    tasks: tasks.load(Ordering::Relaxed),
                });
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(counted)
}

/// How many rows sides of joins had.
#[derive(Debug, Default)]
pub(crate) struct Sides(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    rows: HashMap<u64, Side>,
    /// What some tasks of a stage have told, by statement and side.
    parts: BTreeMap<(u64, u64), Part>,
    uses: u64,
}

#[derive(Debug)]
struct Side {
    rows: u64,
    used: u64,
}

#[derive(Debug, Default)]
struct Part {
    rows: u64,
    tasks: u64,
}

impl Sides {
    /// Returns how many rows a side had.
    pub(crate) fn rows_of(&self, side: &Arc<dyn ExecutionPlan>) -> Option<u64> {
        self.rows(number_of(side))
    }

    fn rows(&self, side: u64) -> Option<u64> {
        let mut known = self.0.lock();
        known.uses += 1;
        let used = known.uses;
        let side = known.rows.get_mut(&side)?;
        side.used = used;
        Some(side.rows)
    }

    /// Notes what a task of a statement had of a side.
    pub(crate) fn learn(&self, statement: u64, told: SideRows) {
        let mut known = self.0.lock();
        let key = (statement, told.side);
        let part = known.parts.entry(key).or_default();
        part.rows = part.rows.saturating_add(told.rows);
        part.tasks += 1;
        if part.tasks < told.tasks {
            if known.parts.len() > PARTS_MAX {
                known.parts.pop_first();
            }
            return;
        }
        let rows = part.rows;
        known.parts.remove(&key);
        if known.rows.len() >= SIDES_MAX && !known.rows.contains_key(&told.side) {
            let oldest = known.rows.iter().min_by_key(|(_, side)| side.used);
            if let Some(oldest) = oldest.map(|(side, _)| *side) {
                known.rows.remove(&oldest);
            }
        }
        let used = known.uses;
        known.rows.insert(told.side, Side { rows, used });
    }
}

#[cfg(test)]
mod tests {
    use super::{SideRows, Sides};

    fn told(rows: u64, tasks: u64) -> SideRows {
        SideRows {
            side: 7,
            rows,
            tasks,
        }
    }

    #[test]
    fn a_side_is_known_when_all_tasks_have_told() {
        let sides = Sides::default();
        sides.learn(1, told(10, 2));
        sides.learn(2, told(1, 2));
        assert_eq!(sides.rows(7), None);
        sides.learn(1, told(20, 2));
        assert_eq!(sides.rows(7), Some(30));
        sides.learn(3, told(4, 1));
        assert_eq!(sides.rows(7), Some(4), "it is what it was last");
        sides.learn(2, told(1, 2));
        assert_eq!(sides.rows(7), Some(2));
    }
}
