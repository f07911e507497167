//! What one partition takes of a scan.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_datasource::PartitionedFile;
use parquet::arrow::arrow_reader::RowSelection;
use tidegate_pages::Buffers;
use tidegate_scheduler::cache::host::{ChunkReader, HostChunk};

use super::super::cached::PageFill;
use super::PageScan;
use super::claims::Claims;
use super::open::OpenFile;
use super::row_group::RowGroup;
use super::units::Turn;

/// What a partition takes at a time.
pub(super) enum Unit {
    /// A row group, or ranges of its rows, as pages; perhaps it is kept.
    Pages(
        Arc<OpenFile>,
        usize,
        Option<RowSelection>,
        Option<Box<PageFill>>,
    ),
    /// The columns of a row group in the host tier.
    Chunks(Arc<OpenFile>, usize, Vec<Arc<HostChunk>>),
    /// Row groups that the source reads, and why.
    Rows(Box<PartitionedFile>, &'static str),
}

impl Unit {
    /// Returns the file and the number of a row group that is read alone.
    pub(super) fn row_group(&self) -> Option<(&Arc<OpenFile>, usize)> {
        match self {
            Self::Pages(file, number, ..) | Self::Chunks(file, number, _) => Some((file, *number)),
            Self::Rows(..) => None,
        }
    }
}

/// Rows for the engine.
pub(crate) enum Rows {
    /// A row group as pages, which is kept if the host tier takes it.
    Pages(RowGroup, Option<Box<PageFill>>),
    /// The columns of a row group in the host tier, as the scan has them, and the rows of its file.
    Chunks(Vec<Arc<HostChunk>>, u64),
    /// Batches of the scan's source, and why there are no pages.
    Batches(SendableRecordBatchStream, &'static str),
}

/// What one partition takes of a scan.
pub(crate) struct Share {
    scan: Arc<PageScan>,
    partition: usize,
    ctx: Arc<TaskContext>,
    /// `None` if no run shares the scan out.
    claims: Option<Claims>,
    /// What was opened of what it has claimed.
    units: VecDeque<Unit>,
    rows: Count,
    bytes: Count,
    tier_row_groups: Count,
    tier_rows: Count,
    ruled_out: Count,
}

impl Share {
    pub(super) fn new(scan: &Arc<PageScan>, partition: usize, ctx: &Arc<TaskContext>) -> Self {
        let metrics = scan.config.file_source().metrics();
        Self {
            scan: Arc::clone(scan),
            partition,
            ctx: Arc::clone(ctx),
            claims: Claims::begin(scan, partition, ctx),
            units: VecDeque::new(),
            rows: MetricBuilder::new(metrics).output_rows(partition),
            bytes: MetricBuilder::new(metrics).counter("bytes_scanned", partition),
            tier_row_groups: MetricBuilder::new(metrics).counter("host_tier_row_groups", partition),
            tier_rows: MetricBuilder::new(metrics).counter("host_tier_rows", partition),
            ruled_out: MetricBuilder::new(metrics)
                .counter("row_groups_pruned_dynamic_filter", partition),
        }
    }

    /// Returns the next rows; `None` at the end. Files of this machine are read into `buffers`.
    ///
    /// # Errors
    /// What claiming or reading them raises.
    pub(crate) async fn next(&mut self, buffers: &Buffers) -> Result<Option<Rows>> {
        let unit = loop {
            match self.next_unit().await? {
                None => return Ok(None),
                Some(unit) if self.scan.rules_out(&unit) => self.ruled_out.add(1),
                Some(unit) => break unit,
            }
        };
        let (file, why) = match unit {
            Unit::Rows(file, why) => (*file, why),
            Unit::Chunks(file, _, chunks) => {
                self.tier_row_groups.add(1);
                return Ok(Some(Rows::Chunks(chunks, file.rows_of_file())));
            }
            Unit::Pages(file, number, selection, fill) => {
                match RowGroup::new(&file, number, selection, &self.scan.inputs, buffers) {
                    Ok(row_group) => return Ok(Some(Rows::Pages(row_group, fill))),
                    Err(why) => (file.with(number, None), why),
                }
            }
        };
        let rows = self.scan.source_rows(file, &self.ctx)?;
        Ok(Some(Rows::Batches(rows, why)))
    }

    async fn next_unit(&mut self) -> Result<Option<Unit>> {
        let Some(claims) = &mut self.claims else {
            return self.next_of_all().await;
        };
        loop {
            if let Some(unit) = self.units.pop_front() {
                return Ok(Some(unit));
            }
            let Some(file) = claims.next().await? else {
                return Ok(None);
            };
            let opened = self.scan.open(&[file], self.partition, &self.ctx).await?;
            self.units.extend(opened);
        }
    }

    /// Takes what the partitions share, with no run to ask.
    async fn next_of_all(&self) -> Result<Option<Unit>> {
        loop {
            self.scan.order_units();
            match self.scan.units.turn().await {
                Turn::End => return Ok(None),
                Turn::Take(unit) => return Ok(Some(unit)),
                Turn::Open(opening) => {
                    let parts = opening.parts();
                    let opened = self.scan.open(parts, self.partition, &self.ctx).await?;
                    opening.done(opened);
                }
            }
        }
    }

    /// Returns whether rows that pass raise the bound of a top-k, by which others are left out.
    pub(crate) fn raises_bound(&self) -> bool {
        self.scan.bound().is_some()
    }

    /// Counts rows that were read as pages, and bytes that were read for them, among those of the scan.
    pub(crate) fn count(&self, rows: usize, bytes: usize) {
        self.rows.add(rows);
        self.bytes.add(bytes);
    }

    /// Counts rows that came from the host tier among those of the scan.
    pub(crate) fn count_of_tier(&self, rows: usize) {
        self.rows.add(rows);
        self.tier_rows.add(rows);
    }

    /// Streams the rows of a row group in the host tier, from one on.
    ///
    /// # Errors
    /// The scan's schema is not known.
    pub(crate) fn rest_of_tier(
        &self,
        chunks: Vec<Arc<HostChunk>>,
        from: usize,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.scan.config.projected_schema()?;
        let (batch_schema, rows) = (Arc::clone(&schema), self.rows.clone());
        let mut passed = 0;
        let batches = ChunkReader::new(chunks, self.ctx.session_config().batch_size());
        let batches = batches.filter_map(move |columns| {
            let batch =
                columns.and_then(|arrays| RecordBatch::try_new(Arc::clone(&batch_schema), arrays));
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error.into())),
            };
            let first = from.saturating_sub(passed).min(batch.num_rows());
            passed += batch.num_rows();
            rows.add(batch.num_rows() - first);
            let left = batch.slice(first, batch.num_rows() - first);
            (left.num_rows() > 0).then_some(Ok(left))
        });
        let batches = futures::stream::iter(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    /// Streams rows of a row group from the scan's source.
    ///
    /// # Errors
    /// What opening the scan raises.
    pub(crate) fn rest(
        &self,
        row_group: &RowGroup,
        rows: &[Range<usize>],
    ) -> Result<SendableRecordBatchStream> {
        self.scan.source_rows(row_group.file_with(rows), &self.ctx)
    }
}
