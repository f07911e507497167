//! Plans a file: gives row groups from the host tier, and lets the inner source read the others.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use datafusion_datasource_parquet::{ParquetAccessPlan, ParquetFileMetrics};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::ObjectStore;
use tidegate_scheduler::cache::host::{ChunkReader, HostChunk};

use super::super::files::KnownFile;
use super::fill::{Fill, KeptMorsel};
use super::scan::{CachedScan, Kept, Origin, Step, partition_values, selects_rows};
use crate::files::guard::ExpectedRows;

/// Hands each file to a [`FilePlanner`].
#[derive(Clone, Debug)]
pub(super) struct CachedMorselizer {
    inner: Arc<dyn Morselizer>,
    scan: Arc<CachedScan>,
    store: Arc<dyn ObjectStore>,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
    batch_size: usize,
}

impl CachedMorselizer {
    pub(super) fn new(
        inner: Arc<dyn Morselizer>,
        scan: Arc<CachedScan>,
        store: Arc<dyn ObjectStore>,
        metrics: ExecutionPlanMetricsSet,
        partition: usize,
        batch_size: usize,
    ) -> Self {
        Self {
            inner,
            scan,
            store,
            metrics,
            partition,
            batch_size,
        }
    }

    /// Counts what came from the host tier, for EXPLAIN ANALYZE.
    fn counter(&self, name: &'static str) -> Count {
        MetricBuilder::new(&self.metrics).counter(name, self.partition)
    }
}

impl Morselizer for CachedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        if selects_rows(&file) {
            return self.inner.plan_file(file);
        }
        Ok(Box::new(FilePlanner {
            of: self.clone(),
            file,
            stage: Stage::Begin,
            planning: VecDeque::new(),
            fill: None,
        }))
    }
}

/// One file's planner. `planning` holds the inner planners of the run at hand, `fill` what keeps it.
struct FilePlanner {
    of: CachedMorselizer,
    file: PartitionedFile,
    stage: Stage,
    planning: VecDeque<Box<dyn MorselPlanner>>,
    fill: Option<Fill>,
}

enum Stage {
    /// Nothing is known of the file.
    Begin,
    /// It is the inner source's alone.
    Leave,
    /// It was opened.
    Opened(Arc<KnownFile>),
    /// What is left to do.
    Working(Arc<KnownFile>, usize, VecDeque<Step>),
}

impl fmt::Debug for FilePlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePlanner")
            .field("file", &self.file.object_meta.location)
            .finish_non_exhaustive()
    }
}

impl MorselPlanner for FilePlanner {
    fn plan(mut self: Box<Self>) -> Result<Option<MorselPlan>> {
        if let Some(inner) = self.planning.pop_front() {
            return self.go_on(inner);
        }
        match std::mem::replace(&mut self.stage, Stage::Leave) {
            Stage::Begin => Ok(Some(self.open())),
            Stage::Leave => self.of.inner.plan_file(self.file)?.plan(),
            Stage::Opened(known) => self.decide(known),
            Stage::Working(known, num_row_groups, mut steps) => {
                let next = steps.pop_front();
                self.stage = Stage::Working(known, num_row_groups, steps);
                match next {
                    None => Ok(None),
                    Some(Step::Serve(_, chunks)) => self.serve(chunks).map(Some),
                    Some(Step::Read(row_groups, kept)) => self.read(&row_groups, kept),
                }
            }
        }
    }
}

impl FilePlanner {
    fn open(mut self: Box<Self>) -> MorselPlan {
        MorselPlan::new().with_pending_planner(async move {
            let opened = self.of.scan.open(&self.file, &self.of.store).await;
            self.stage = opened.map_or(Stage::Leave, Stage::Opened);
            Ok(self as Box<dyn MorselPlanner>)
        })
    }

    fn decide(mut self: Box<Self>, known: Arc<KnownFile>) -> Result<Option<MorselPlan>> {
        let Some(decided) = self.of.scan.steps(&self.file, &known) else {
            return self.of.inner.plan_file(self.file)?.plan();
        };
        let served = decided.steps.iter().map(|step| match step {
            Step::Serve(row_groups, _) => row_groups.len(),
            Step::Read(..) => 0,
        });
        let served: usize = served.sum();
        if served + decided.pruned > 0 {
            let name = known.meta.location.as_ref();
            let metrics = ParquetFileMetrics::new(self.of.partition, name, &self.of.metrics);
            let ruled_out = &metrics.row_groups_pruned_statistics;
            ruled_out.add_pruned(decided.pruned);
            ruled_out.add_matched(served);
        }
        self.stage = Stage::Working(known, decided.num_row_groups, decided.steps.into());
        let next = MorselPlan::new().with_planners(vec![self]);
        Ok(Some(next))
    }

    fn serve(self: Box<Self>, row_groups: Vec<Vec<Arc<HostChunk>>>) -> Result<MorselPlan> {
        self.of
            .counter("host_tier_row_groups")
            .add(row_groups.len());
        let morsel = ServedMorsel {
            constants: partition_values(&self.of.scan, &self.file)?,
            scan: Arc::clone(&self.of.scan),
            row_groups,
            rows: self.of.counter("host_tier_rows"),
            batch_size: self.of.batch_size,
        };
        Ok(MorselPlan::new()
            .with_morsels(vec![Box::new(morsel)])
            .with_planners(vec![self]))
    }

    fn read(
        mut self: Box<Self>,
        row_groups: &[usize],
        kept: Option<Kept>,
    ) -> Result<Option<MorselPlan>> {
        let Stage::Working(known, num_row_groups, _) = &self.stage else {
            return datafusion::common::internal_err!("a file was read before it was opened");
        };
        let mut access = ParquetAccessPlan::new_none(*num_row_groups);
        let mut num_rows = 0;
        for &row_group in row_groups {
            access.scan(row_group);
            num_rows += known.footer.row_group(row_group).num_rows().max(0) as u64;
        }
        self.fill = kept.map(|kept| Fill {
            scan: Arc::clone(&self.of.scan),
            file: Arc::clone(known),
            store: Arc::clone(&self.of.store),
            kept,
        });
        let file = self.file.clone().with_extension(access);
        let file = file.with_extension(ExpectedRows(num_rows));
        let inner = self.of.inner.plan_file(file)?;
        self.go_on(inner)
    }

    /// Lets the inner planner take its next step; this planner follows whatever that gives.
    fn go_on(mut self: Box<Self>, inner: Box<dyn MorselPlanner>) -> Result<Option<MorselPlan>> {
        let Some(mut plan) = inner.plan()? else {
            return Ok(Some(MorselPlan::new().with_planners(vec![self])));
        };
        self.planning.extend(plan.take_ready_planners());
        let mut morsels = plan.take_morsels();
        if !morsels.is_empty()
            && let Some(fill) = self.fill.take()
        {
            // A run is one morsel of the inner source; of more, the first has too few rows to be kept.
            let first = morsels.remove(0);
            morsels.insert(0, Box::new(KeptMorsel::new(first, fill)));
        }
        let next = MorselPlan::new().with_morsels(morsels);
        Ok(Some(match plan.take_pending_planner() {
            None => next.with_planners(vec![self]),
            Some(pending) => next.with_pending_planner(async move {
                self.planning.push_front(pending.await?);
                Ok(self as Box<dyn MorselPlanner>)
            }),
        }))
    }
}

/// Row groups from the host tier.
#[derive(Debug)]
struct ServedMorsel {
    scan: Arc<CachedScan>,
    row_groups: Vec<Vec<Arc<HostChunk>>>,
    /// For each column, its value in the whole file if it has one.
    constants: Vec<Option<ScalarValue>>,
    rows: Count,
    batch_size: usize,
}

impl Morsel for ServedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self {
            scan,
            row_groups,
            constants,
            rows,
            batch_size,
        } = *self;
        let batches = row_groups
            .into_iter()
            .flat_map(move |chunks| ChunkReader::new(chunks, batch_size));
        let batches = batches.map(move |columns| {
            let batch = assemble(&scan, columns?, &constants)?;
            rows.add(batch.num_rows());
            Ok(batch)
        });
        stream::iter(batches).boxed()
    }
}

fn assemble(
    scan: &CachedScan,
    columns: Vec<ArrayRef>,
    constants: &[Option<ScalarValue>],
) -> Result<RecordBatch> {
    let num_rows = columns.first().map_or(0, |column| column.len());
    let column = |(origin, constant): (&Origin, &Option<ScalarValue>)| match (origin, constant) {
        (Origin::File(key), _) => Ok(Arc::clone(&columns[*key])),
        (Origin::Partition(_), Some(value)) => value.to_array_of_size(num_rows),
        (Origin::Partition(_), None) => {
            datafusion::common::internal_err!("a partition column without a value")
        }
    };
    let columns = scan.columns().iter().zip(constants).map(column);
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(scan.schema()), columns)?)
}
