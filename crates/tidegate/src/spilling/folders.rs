//! Rows that are written to a folder for each value of some columns.
//!
//! DataFusion opens a file for each value at its first row, and all of them stay open until the last row has come:
//! each holds the columns of a row group, which for some hundred values is more than a statement may take.
//! A [`FolderSink`] holds the rows of each value, as long as all of them take no more than a part of the memory limit,
//! and writes those of the value that takes most whenever they do: one file at a time is open.
//! Where the statement fails, the files that it has written are removed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::{StreamExt, stream};

use super::{compacted, statement_limit};
use crate::files::whole::{SinkNode, file_config};
use crate::files::written::Written;
use crate::node_rule::Replaced;
use crate::options::TidegateOptions;

/// The part of the memory limit that rows which wait for their file may take.
const WAITING_SHARE: u64 = 4;

/// The most bytes of rows that wait for one file.
const FILE_BYTES: usize = 256 << 20;

/// Rows are divided among the values when there are so many, or so many bytes of them.
const DIVIDED_ROWS: usize = 1 << 16;
const DIVIDED_BYTES: usize = 8 << 20;

/// Puts a [`FolderSink`] before a sink that writes folders. Comes after the rule that writes files whole.
pub(crate) fn write_folders_in_turn(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(exec) = node.downcast_ref::<DataSinkExec>() else {
        return Ok(None);
    };
    let Some(config) = file_config(exec) else {
        return Ok(None);
    };
    let columns = config.table_partition_cols.iter();
    let columns: Option<Vec<usize>> = columns
        .map(|(name, _)| exec.input().schema().index_of(name).ok())
        .collect();
    let Some(columns) = columns.filter(|columns| !columns.is_empty()) else {
        return Ok(None);
    };
    let fields = sort_fields(&exec.input().schema(), &columns);
    if !RowConverter::supports_fields(&fields) {
        return Ok(None);
    }
    let sink = FolderSink {
        inner: SinkNode::new(exec)?,
        columns,
    };
    let input = Arc::clone(exec.input());
    let exec = DataSinkExec::new(input, Arc::new(sink), exec.sort_order().clone());
    Ok(Some(Arc::new(exec)))
}

fn sort_fields(schema: &Schema, columns: &[usize]) -> Vec<SortField> {
    let kinds = columns
        .iter()
        .map(|column| schema.field(*column).data_type());
    kinds.cloned().map(SortField::new).collect()
}

/// A sink that gets the rows of one folder at a time.
#[derive(Debug)]
struct FolderSink {
    inner: SinkNode,
    /// The columns whose values name the folders.
    columns: Vec<usize>,
}

impl DisplayAs for FolderSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.sink().fmt_as(format, f)
    }
}

#[async_trait]
impl DataSink for FolderSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.inner.schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        ctx: &Arc<TaskContext>,
    ) -> Result<u64> {
        let (written, recorded) = Written::begin(ctx);
        let folders = Folders::new(self, ctx, recorded, data.schema())?;
        match folders.write_all(data).await {
            Ok(count) => {
                written.keep().await?;
                Ok(count)
            }
            Err(error) => {
                written.remove().await;
                Err(error)
            }
        }
    }
}

/// The rows that wait for their files.
struct Folders<'a> {
    sink: &'a dyn DataSink,
    ctx: Arc<TaskContext>,
    schema: SchemaRef,
    columns: &'a [usize],
    converter: RowConverter,
    waiting: HashMap<OwnedRow, Waiting>,
    held: MemoryReservation,
    bytes_max: usize,
    /// Rows that were written.
    count: u64,
}

/// The rows of one folder.
#[derive(Default)]
struct Waiting {
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl<'a> Folders<'a> {
    fn new(
        sink: &'a FolderSink,
        ctx: &TaskContext,
        recorded: Arc<TaskContext>,
        schema: SchemaRef,
    ) -> Result<Self> {
        let options = TidegateOptions::of(ctx.session_config().options());
        let of_process = match ctx.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64,
            MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
        };
        let bytes_max = statement_limit(&options, of_process) / WAITING_SHARE;
        Ok(Self {
            sink: sink.inner.sink(),
            converter: RowConverter::new(sort_fields(&schema, &sink.columns))?,
            ctx: recorded,
            schema,
            columns: &sink.columns,
            waiting: HashMap::new(),
            held: MemoryConsumer::new("rows of folders").register(ctx.memory_pool()),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            count: 0,
        })
    }

    /// Writes all rows and returns how many.
    async fn write_all(mut self, mut data: SendableRecordBatchStream) -> Result<u64> {
        let mut rows = Vec::new();
        let (mut num_rows, mut bytes) = (0, 0);
        while let Some(batch) = data.next().await.transpose()? {
            num_rows += batch.num_rows();
            bytes += get_record_batch_memory_size(&batch);
            rows.push(batch);
            if num_rows >= DIVIDED_ROWS || bytes >= DIVIDED_BYTES {
                self.add(&std::mem::take(&mut rows)).await?;
                (num_rows, bytes) = (0, 0);
            }
        }
        self.add(&rows).await?;
        self.finish().await
    }

    /// Adds rows, and writes others where there are too many.
    async fn add(&mut self, rows: &[RecordBatch]) -> Result<()> {
        let rows = concat_batches(&self.schema, rows)?;
        let keys = self.columns.iter().map(|column| rows.column(*column));
        let keys: Vec<_> = keys.cloned().collect();
        let keys = self.converter.convert_columns(&keys)?;
        let mut divided: HashMap<_, Vec<u32>> = HashMap::new();
        for (row, key) in keys.iter().enumerate() {
            divided.entry(key).or_default().push(row as u32);
        }
        for (key, indices) in divided {
            let part = take_record_batch(&rows, &UInt32Array::from(indices))?;
            let part = compacted(part)?;
            let bytes = get_record_batch_memory_size(&part);
            self.make_room(bytes).await?;
            let waiting = self.waiting.entry(key.owned()).or_default();
            waiting.batches.push(part);
            waiting.bytes += bytes;
            if waiting.bytes >= FILE_BYTES
                && let Some(full) = self.waiting.remove(&key.owned())
            {
                self.write(full).await?;
            }
        }
        Ok(())
    }

    /// Writes the largest folders' rows until so many bytes more may wait, or none wait.
    async fn make_room(&mut self, bytes: usize) -> Result<()> {
        loop {
            let fits = self.held.size() + bytes <= self.bytes_max;
            if fits && self.held.try_grow(bytes).is_ok() {
                return Ok(());
            }
            let largest = self.waiting.iter().max_by_key(|(_, waiting)| waiting.bytes);
            let Some(key) = largest.map(|(key, _)| key.clone()) else {
                return self.held.try_grow(bytes);
            };
            if let Some(waiting) = self.waiting.remove(&key) {
                self.write(waiting).await?;
            }
        }
    }

    /// Writes a file.
    async fn write(&mut self, waiting: Waiting) -> Result<()> {
        let rows = stream::iter(waiting.batches.into_iter().map(Ok));
        let schema = Arc::clone(&self.schema);
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        self.count += self.sink.write_all(rows, &self.ctx).await?;
        self.held.shrink(waiting.bytes);
        Ok(())
    }

    /// Writes what waits, the largest first, and returns how many rows were written in all.
    async fn finish(mut self) -> Result<u64> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut waiting: Vec<Waiting> = waiting.into_values().collect();
        waiting.sort_by_key(|waiting| Reverse(waiting.bytes));
        for waiting in waiting {
            self.write(waiting).await?;
        }
        Ok(self.count)
    }
}
