//! Any other leaf: its batches are pulled on the host, and decided on as they come.
//!
//! A [`PullGate`] stands above the leaf. It gathers batches into morsels; a morsel that stays is
//! passed on, one that goes to a device is retained until the region's run ends, for the leaf cannot
//! be read again. What is retained is charged to the host's memory pool; when the pool refuses, the
//! morsel stays on the host.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, ExecutionPlanProperties};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tidegate_scheduler::{
    LoadError, MixedRun, Morsel, MorselId, MorselLoader, MorselSize, Place, Reason,
};

use super::{Leaf, LeafOptions, Slot};
use crate::unary::{UnaryExec, UnaryOperator};

/// Morsels that may wait for devices before the host takes every further one itself.
const MORSELS_WAITING: usize = 4;

/// Rows of a morsel at the most: it is held in memory until it is run.
const MORSEL_ROWS_MAX: usize = 131_072;

/// A leaf of which nothing is known but that it yields batches.
#[derive(Debug)]
pub(crate) struct PulledLeaf {
    leaf: Arc<dyn ExecutionPlan>,
    morsel_rows: usize,
    retained: Arc<Retained>,
}

impl PulledLeaf {
    /// Returns the leaf, or why it cannot be shared.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        options: LeafOptions,
    ) -> std::result::Result<Self, String> {
        if plan.boundedness().is_unbounded() {
            return Err("the scan has no end".into());
        }
        let morsel_rows = options.morsel_rows.min(MORSEL_ROWS_MAX);
        Ok(Self {
            leaf: Arc::clone(plan),
            morsel_rows,
            retained: Arc::default(),
        })
    }
}

impl Leaf for PulledLeaf {
    fn pieces(&self) -> Vec<Option<usize>> {
        (0..self.leaf.output_partitioning().partition_count())
            .map(Some)
            .collect()
    }

    fn rereads(&self) -> bool {
        false
    }

    fn gated(&self, slot: &Arc<Slot>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(UnaryExec(PullGate {
            leaf: Arc::clone(&self.leaf),
            morsel_rows: self.morsel_rows,
            retained: Arc::clone(&self.retained),
            slot: Arc::clone(slot),
        })))
    }

    fn behind(&self, gate: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn Leaf>> {
        let gate = gate.downcast_ref::<PullGateExec>()?;
        Some(Arc::new(Self {
            leaf: Arc::clone(&gate.0.leaf),
            morsel_rows: self.morsel_rows,
            retained: Arc::default(),
        }))
    }

    fn loader(&self, _: &Arc<TaskContext>) -> Result<Arc<dyn MorselLoader>> {
        Ok(Arc::clone(&self.retained) as Arc<dyn MorselLoader>)
    }

    fn replay(
        &self,
        _: &Arc<dyn MorselLoader>,
        morsels: &[Morsel],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let retained = self.retained.batches.lock();
        let mut batches = Vec::new();
        for morsel in morsels {
            match retained.get(&morsel.id) {
                Some(kept) => batches.extend(kept.iter().cloned()),
                None => return internal_err!("a pulled morsel was not retained"),
            }
        }
        Ok(MemorySourceConfig::try_new_exec(
            &[batches],
            self.leaf.schema(),
            None,
        )?)
    }
}

/// The morsels that went to a device.
#[derive(Debug, Default)]
struct Retained {
    batches: Mutex<BTreeMap<MorselId, Vec<RecordBatch>>>,
}

impl MorselLoader for Retained {
    fn list(&self, _: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>> {
        // Pieces grow as batches are pulled.
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>> {
        let kept = self.batches.lock().get(&morsel).cloned();
        let kept = kept.ok_or_else(|| LoadError::from("a pulled morsel was not retained"));
        futures::future::ready(kept).boxed()
    }
}

type PullGateExec = UnaryExec<PullGate>;

/// Passes its leaf's batches on, but for those that go to a device.
#[derive(Clone, Debug)]
struct PullGate {
    leaf: Arc<dyn ExecutionPlan>,
    morsel_rows: usize,
    retained: Arc<Retained>,
    slot: Arc<Slot>,
}

impl PullGate {
    fn gate(&self, partition: usize, run: &Arc<MixedRun>, ctx: &TaskContext) -> Gate {
        let consumer = MemoryConsumer::new(format!("PullGateExec[{partition}]"));
        Gate {
            piece: partition,
            morsel_rows: self.morsel_rows,
            retained: Arc::clone(&self.retained),
            memory: consumer.register(ctx.memory_pool()),
            run: Arc::clone(run),
            gathered: Vec::new(),
            opened: false,
        }
    }
}

impl UnaryOperator for PullGate {
    const NAME: &'static str = "PullGateExec";
    const KEEPS_ORDER: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.leaf
    }

    fn over(&self, leaf: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            leaf,
            ..self.clone()
        }
    }

    fn detail(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": morsel_rows={}", self.morsel_rows)
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.leaf.execute(partition, Arc::clone(&ctx))?;
        let Some(run) = self.slot.run() else {
            return Ok(batches);
        };
        let gate = self.gate(partition, run, &ctx);
        let passed = stream::try_unfold((batches, Some(gate)), |(mut batches, gate)| async move {
            let Some(mut gate) = gate else {
                return Ok::<_, datafusion::error::DataFusionError>(None);
            };
            gate.open();
            let (passed, gate) = match batches.try_next().await? {
                Some(batch) => (gate.offer(batch).await, Some(gate)),
                None => (gate.settle().await, None),
            };
            Ok(Some((
                stream::iter(passed.into_iter().map(Ok)),
                (batches, gate),
            )))
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.leaf.schema(),
            passed.boxed(),
        )))
    }
}

/// One partition's gate.
struct Gate {
    piece: usize,
    morsel_rows: usize,
    retained: Arc<Retained>,
    memory: MemoryReservation,
    run: Arc<MixedRun>,
    gathered: Vec<RecordBatch>,
    opened: bool,
}

impl Gate {
    fn open(&mut self) {
        if !self.opened {
            self.opened = true;
            self.run.queue().grow(self.piece);
            self.run.queue().open_partition(self.piece);
        }
    }

    /// Takes a batch; returns what passes on to the host's chain now.
    async fn offer(&mut self, batch: RecordBatch) -> Vec<RecordBatch> {
        let mut passed = Vec::new();
        for start in (0..batch.num_rows()).step_by(self.morsel_rows) {
            let slice = batch.slice(start, self.morsel_rows.min(batch.num_rows() - start));
            let gathered: usize = self.gathered.iter().map(RecordBatch::num_rows).sum();
            if gathered + slice.num_rows() > self.morsel_rows {
                passed.extend(self.settle().await);
            }
            self.gathered.push(slice);
        }
        passed
    }

    /// Decides on the gathered morsel; returns it if it stays on the host.
    async fn settle(&mut self) -> Vec<RecordBatch> {
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() {
            return gathered;
        }
        let size = MorselSize {
            num_rows: gathered.iter().map(|batch| batch.num_rows() as u64).sum(),
            num_bytes: gathered
                .iter()
                .map(|batch| batch.get_array_memory_size() as u64)
                .sum(),
        };
        let queue = self.run.queue();
        let to_device = match queue.replayed(self.piece) {
            Some(on_device) => on_device,
            None if self.run.devices_only() => true,
            None => queue.waiting(self.piece) < MORSELS_WAITING,
        };
        let kept = to_device && self.memory.try_grow(size.num_bytes as usize).is_ok();
        if kept {
            // Retained before it can be claimed.
            let id = queue.next(self.piece);
            self.retained.batches.lock().insert(id, gathered);
            queue.append(self.piece, size, false);
            return Vec::new();
        }
        let id = queue.append(self.piece, size, true);
        if to_device {
            self.run.counters().reason(Place::Host, Reason::HostMemory);
        }
        self.run.count_host(&Morsel { id, size });
        gathered
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.opened {
            self.run.queue().close(self.piece);
        }
    }
}
