//! Memory tables and generated tables: sources whose morsels are read by plain calls.

mod folded;
mod generated;
mod memory;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_kernels::program::Generated as Array;
use tidegate_scheduler::{MixedRun, Morsel, MorselId, MorselLoader, MorselSize, ScanKey};

use super::{Leaf, LeafOptions, Slot};
use crate::sources::{Batches, MorselScan};
pub(crate) use folded::{array_scan_of, whole_morsels};
use generated::Generated;
use memory::Memory;

/// Rows of a source, read morsel by morsel.
trait Pieces: MorselLoader {
    /// Returns the morsels of the one piece that there is.
    fn sizes(&self) -> &[MorselSize];

    /// Reads one morsel, in the leaf's columns, batch by batch.
    fn batches(&self, morsel: MorselId, batch_size: usize) -> Result<Batches>;

    /// See [`Leaf::what`].
    fn what(&self) -> Option<(u64, String)>;
}

/// A scan of such a source that can be shared.
#[derive(Debug)]
pub(crate) struct MorselLeaf {
    planned: Arc<dyn DataSource>,
    schema: SchemaRef,
    pieces: Arc<dyn Pieces>,
}

impl MorselLeaf {
    /// Returns the leaf if `plan` scans a memory table or a [`MorselSource`], or why it cannot be
    /// shared.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        options: LeafOptions,
    ) -> Option<std::result::Result<Self, String>> {
        let planned = Arc::clone(plan.downcast_ref::<DataSourceExec>()?.data_source());
        let schema = plan.schema();
        if let Some(scan) = planned.downcast_ref::<MorselScan>() {
            if scan.limit.is_some() {
                return Some(Err("LIMIT inside the scan".into()));
            }
            let pieces = Arc::new(Generated::new(&scan.source, &scan.columns, options));
            return Some(Ok(Self {
                planned,
                schema,
                pieces,
            }));
        }
        let memory = planned.downcast_ref::<MemorySourceConfig>()?;
        if memory.fetch().is_some() {
            return Some(Err("LIMIT inside the scan".into()));
        }
        if plan.output_ordering().is_some() {
            return Some(Err("the scan claims an order".into()));
        }
        let pieces = Arc::new(Memory::new(&planned, options));
        Some(Ok(Self {
            planned,
            schema,
            pieces,
        }))
    }

    fn scan(&self, which: Which) -> Arc<dyn ExecutionPlan> {
        DataSourceExec::from_data_source(SomeMorsels {
            planned: Arc::clone(&self.planned),
            schema: Arc::clone(&self.schema),
            pieces: Arc::clone(&self.pieces),
            which,
        })
    }
}

/// Returns the array that the leaf of a chain reads parts of, if it does.
pub(crate) fn array_below(chain: &Arc<dyn ExecutionPlan>) -> Option<Arc<Array>> {
    let mut leaf = chain;
    while let [input] = leaf.children().as_slice() {
        leaf = input;
    }
    Some(Arc::clone(&array_scan_of(leaf)?.source))
}

impl Leaf for MorselLeaf {
    fn pieces(&self) -> Vec<Option<usize>> {
        // Any partition may read any morsel.
        vec![None]
    }

    fn rereads(&self) -> bool {
        true
    }

    fn gated(&self, slot: &Arc<Slot>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.scan(Which::Claimed(Arc::clone(slot))))
    }

    fn loader(&self, _: &Arc<TaskContext>) -> Result<Arc<dyn MorselLoader>> {
        Ok(Arc::clone(&self.pieces) as Arc<dyn MorselLoader>)
    }

    fn scan_key(&self) -> Option<ScanKey> {
        self.pieces.scan_key()
    }

    fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        self.pieces.reads_all_of(scan)
    }

    fn what(&self) -> Option<(u64, String)> {
        self.pieces.what()
    }

    fn is_generated(&self) -> bool {
        self.pieces.array().is_some()
    }

    fn replay(
        &self,
        _: &Arc<dyn MorselLoader>,
        morsels: &[Morsel],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.scan(Which::Replayed(morsels.into())))
    }
}

/// A scan that yields some morsels.
#[derive(Clone, Debug)]
struct SomeMorsels {
    planned: Arc<dyn DataSource>,
    schema: SchemaRef,
    pieces: Arc<dyn Pieces>,
    which: Which,
}

#[derive(Clone, Debug)]
enum Which {
    /// What a region's run leaves to the host; without a run all of them.
    Claimed(Arc<Slot>),
    /// Those that a device gave back, in one partition.
    Replayed(Arc<[Morsel]>),
}

/// A morsel, and the run that it was claimed of.
type Taken = (Morsel, Option<Arc<MixedRun>>);

impl SomeMorsels {
    /// Claims morsels for the host, one at a time: opening costs nothing here, and what is not claimed
    /// is left to whoever is idle. `None` while there is no run.
    fn taken(&self, partition: usize) -> Option<BoxStream<'static, Taken>> {
        let slot = match &self.which {
            Which::Claimed(slot) => slot,
            Which::Replayed(morsels) => {
                let morsels: Vec<Taken> = morsels.iter().map(|morsel| (*morsel, None)).collect();
                return Some(stream::iter(morsels).boxed());
            }
        };
        let run = Arc::clone(slot.run()?);
        let sizes = self.pieces.sizes().to_vec();
        let begun = stream::once(async move {
            run.queue().open_partition(partition);
            run.queue().list(0, sizes);
            stream::unfold(run.host_claimer(), move |claimer| async move {
                let morsel = claimer.claim_in_time(0, 1).await.first().copied()?;
                Some(((morsel, Some(Arc::clone(claimer.run()))), claimer))
            })
        });
        Some(begun.flatten().boxed())
    }

    /// Streams the rows of what is taken.
    fn rows(&self, partition: usize, batch_size: usize) -> Option<SendableRecordBatchStream> {
        let pieces = Arc::clone(&self.pieces);
        let batches = self
            .taken(partition)?
            .map(move |(morsel, run)| {
                let batches = pieces.batches(morsel.id, batch_size)?;
                Ok::<_, DataFusionError>(stream::iter(counted(batches, morsel, run)))
            })
            .try_flatten();
        let schema = Arc::clone(&self.schema);
        let batches = RecordBatchStreamAdapter::new(schema, batches.boxed());
        Some(Box::pin(cooperative(batches)))
    }
}

/// Passes a morsel's batches on and books it behind the last: its size was an estimate, the books tell
/// what was read.
fn counted(
    mut batches: Batches,
    mut morsel: Morsel,
    run: Option<Arc<MixedRun>>,
) -> impl Iterator<Item = Result<RecordBatch>> {
    let mut num_rows = 0;
    let mut is_counted = false;
    std::iter::from_fn(move || {
        let next = batches.next();
        match &next {
            Some(Ok(batch)) => num_rows += batch.num_rows() as u64,
            Some(Err(_)) => {}
            None if !is_counted => {
                is_counted = true;
                morsel.size.num_rows = num_rows;
                if let Some(run) = &run {
                    run.count_host(&morsel);
                }
            }
            None => {}
        }
        next
    })
}

impl DataSource for SomeMorsels {
    fn open(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.rows(partition, ctx.session_config().batch_size()) {
            Some(rows) => Ok(rows),
            None => self.planned.open(partition, ctx),
        }
    }

    fn create_sibling_state(
        &self,
        config: &datafusion::common::config::ConfigOptions,
    ) -> Option<Arc<dyn Any + Send + Sync>> {
        self.planned.create_sibling_state(config)
    }

    fn open_with_args(
        &self,
        args: datafusion_datasource::source::OpenArgs,
    ) -> Result<SendableRecordBatchStream> {
        match &self.which {
            Which::Claimed(slot) if slot.run().is_none() => self.planned.open_with_args(args),
            _ => self.open(args.partition, args.context),
        }
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            Which::Claimed(_) => self.planned.fmt_as(format, f),
            Which::Replayed(morsels) => write!(f, "replayed, morsels={}", morsels.len()),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        match &self.which {
            Which::Claimed(_) => self.planned.output_partitioning(),
            Which::Replayed(_) => Partitioning::UnknownPartitioning(1),
        }
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.planned.eq_properties()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        match &self.which {
            Which::Claimed(_) => self.planned.partition_statistics(partition),
            Which::Replayed(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
        }
    }

    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn try_swapping_with_projection(
        &self,
        _: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.planned.apply_expressions(f)
    }
}
