//! The source of scans over delimited text whose columns were declared: DataFusion's, with a limit for rows.
//!
//! Arrow's reader keeps a row until it ends, and a quote that is never closed makes all that comes behind it one
//! row. DataFusion hands it a file to its end, so a small compressed file may take any memory. Here the bytes of a
//! row are counted on their way to the reader. Which line the row begins on nobody counts, until it is too long:
//! then the file is read once more, up to there.

use std::fmt;
use std::sync::Arc;

use bytes::Buf;
use datafusion::arrow::csv::ReaderBuilder;
use datafusion::arrow::csv::reader::Decoder;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::{CsvSource, FileScanConfig};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion_datasource::boundary_stream::AlignedBoundaryStream;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::{PartitionedFile, TableSchema};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};
use tidegate_readers::{ROW_BYTES_MAX, ReadError, RowMeasure};

use super::bytes::{Buffers, open};
use super::opener::{Batches, Reading};
use crate::error::{Error, ErrorKind};
use crate::files::name_in;

/// DataFusion's source of delimited text, whose rows have a limit.
#[derive(Clone)]
pub(crate) struct DeclaredSource {
    csv: CsvSource,
    batch_rows: usize,
}

impl DeclaredSource {
    /// Reads what a source says, in batches of so many rows where nobody says how many.
    pub(crate) fn new(csv: CsvSource) -> Self {
        Self {
            csv,
            batch_rows: super::source::BATCH_ROWS,
        }
    }
}

impl FileSource for DeclaredSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let table = self.csv.table_schema();
        let projection = match self.csv.projection() {
            Some(projection) => SplitProjection::new(table.file_schema(), projection),
            None => SplitProjection::unprojected(table),
        };
        let opener = DeclaredOpener(Arc::new(Scan {
            source: self.clone(),
            columns: projection.file_indices.clone(),
            store,
            url: config.object_store_url.clone(),
            compression: config.file_compression_type,
            partition,
        }));
        ProjectionOpener::try_new(projection, Arc::new(opener), table.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        self.csv.table_schema()
    }

    fn with_batch_size(&self, batch_rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            batch_rows,
            ..self.clone()
        })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.csv.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.csv.metrics()
    }

    fn file_type(&self) -> &str {
        self.csv.file_type()
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.csv.fmt_extra(format, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.csv.supports_repartitioning()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.csv.apply_expressions(f)
    }
}

/// A partition of a scan.
struct Scan {
    source: DeclaredSource,
    /// The columns that are read of a file.
    columns: Vec<usize>,
    store: Arc<dyn ObjectStore>,
    url: ObjectStoreUrl,
    compression: FileCompressionType,
    partition: usize,
}

struct DeclaredOpener(Arc<Scan>);

impl FileOpener for DeclaredOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let scan = Arc::clone(&self.0);
        Ok(async move {
            let bytes = scan.bytes(&file).await?;
            let is_at_start = file.range.is_none() || file.range().0 == 0;
            let rows = Rows {
                decoder: scan.decoder(is_at_start),
                unended: 0,
                last: None,
                is_open: false,
            };
            Ok(scan.batches(file.object_meta, bytes, rows))
        }
        .boxed())
    }
}

impl Scan {
    /// Opens a file, or the lines of it that begin within a part.
    async fn bytes(&self, file: &PartitionedFile) -> Result<Buffers> {
        let meta = &file.object_meta;
        if file.range.is_none() {
            return Ok(open(&self.store, meta, None, self.compression).await?.0);
        }
        let (start, end) = file.range();
        let lines = AlignedBoundaryStream::new(
            Arc::clone(&self.store),
            meta.location.clone(),
            start,
            end,
            meta.size,
            self.source.csv.terminator().unwrap_or(b'\n'),
        );
        Ok(lines.await?.map_err(DataFusionError::from).boxed())
    }

    fn decoder(&self, is_at_start: bool) -> Decoder {
        let csv = &self.source.csv;
        let table = Arc::clone(csv.table_schema().file_schema());
        let mut builder = ReaderBuilder::new(table)
            .with_delimiter(csv.delimiter())
            .with_batch_size(self.source.batch_rows)
            .with_header(csv.has_header() && is_at_start)
            .with_quote(csv.quote())
            .with_truncated_rows(csv.truncate_rows())
            .with_projection(self.columns.clone());
        if let Some(terminator) = csv.terminator() {
            builder = builder.with_terminator(terminator);
        }
        if let Some(escape) = csv.escape() {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = csv.comment() {
            builder = builder.with_comment(comment);
        }
        builder.build_decoder()
    }

    fn batches(self: Arc<Self>, file: ObjectMeta, bytes: Buffers, rows: Rows) -> Batches {
        let metrics = BaselineMetrics::new(self.source.csv.metrics(), self.partition);
        let reading = (Reading::new(bytes, rows), metrics);
        stream::try_unfold(reading, move |(mut reading, metrics)| {
            let (scan, file) = (Arc::clone(&self), file.clone());
            async move {
                loop {
                    reading.fill().await?;
                    let is_end = reading.buffer.is_empty();
                    let taken = {
                        let _timer = metrics.elapsed_compute().timer();
                        reading.decoder.decode(&reading.buffer)?
                    };
                    reading.buffer.advance(taken);
                    if reading.decoder.unended > ROW_BYTES_MAX {
                        return Err(scan.too_long(&file).await);
                    }
                    if reading.decoder.is_open {
                        return Err(scan.never_closed(&file));
                    }
                    if !is_end && !reading.decoder.is_full() {
                        continue;
                    }
                    let batch = {
                        let _timer = metrics.elapsed_compute().timer();
                        reading.decoder.flush()?
                    };
                    match batch {
                        Some(batch) => return Ok(Some((batch, (reading, metrics)))),
                        None if is_end => return Ok(None),
                        None => {}
                    }
                }
            }
        })
        .boxed()
    }

    /// Says that a file ends within quotes.
    fn never_closed(&self, file: &ObjectMeta) -> DataFusionError {
        let name = name_in(&self.url, &file.location);
        let message = format!(
            "cannot read {name}: a quote is opened and never closed; name another character that encloses values with \
             OPTIONS ('format.quote' '~'), or read the file with read_csv('{name}', quote => '')"
        );
        Error::new(ErrorKind::Io, message).into()
    }

    /// Says which row of a file is too long.
    async fn too_long(&self, file: &ObjectMeta) -> DataFusionError {
        let name = name_in(&self.url, &file.location);
        let line = match self.line_of_long_row(file).await {
            Some(line) => format!("line {line}: "),
            None => String::new(),
        };
        let message = format!(
            "cannot read {name}: {line}a row has more than {ROW_BYTES_MAX} bytes, the limit: most often a quote is opened \
             there and never closed; name another character that encloses values with OPTIONS ('format.quote' '~'), or \
             read the file with read_csv('{name}', quote => '')"
        );
        Error::new(ErrorKind::Io, message).into()
    }

    /// Reads a file once more for the line that its first row which is too long begins on.
    async fn line_of_long_row(&self, file: &ObjectMeta) -> Option<u64> {
        let csv = &self.source.csv;
        // Lines that end otherwise have no numbers.
        if csv.terminator().is_some() {
            return None;
        }
        let mut measure =
            RowMeasure::new(csv.delimiter(), csv.quote(), csv.escape(), csv.comment());
        let opened = open(&self.store, file, None, self.compression).await;
        let (mut buffers, _) = opened.ok()?;
        while let Some(buffer) = buffers.try_next().await.ok()? {
            match measure.push(&buffer) {
                Ok(()) => {}
                Err(ReadError::Row { line, .. }) => return Some(line),
                Err(_) => return None,
            }
        }
        None
    }
}

/// Rows on their way to batches.
struct Rows {
    decoder: Decoder,
    /// Bytes since the last buffer in which a row ended.
    unended: usize,
    /// The last byte that was taken.
    last: Option<u8>,
    /// Whether the file has ended behind the end of a line, and the row has not.
    is_open: bool,
}

impl Rows {
    /// Takes bytes until a batch is full or all are taken, and returns how many; no bytes are the end.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        let rows_before = self.decoder.capacity();
        let taken = self.decoder.decode(bytes)?;
        let has_ended = self.decoder.capacity() != rows_before;
        self.is_open = bytes.is_empty() && has_ended && self.last == Some(b'\n');
        self.last = bytes[..taken].last().copied().or(self.last);
        self.unended = match has_ended {
            true => 0,
            false => self.unended + taken,
        };
        Ok(taken)
    }

    fn is_full(&self) -> bool {
        self.decoder.capacity() == 0
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.decoder.flush()?)
    }
}
