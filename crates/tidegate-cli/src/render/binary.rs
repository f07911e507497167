//! Results for other programs: an Arrow IPC stream, or a Parquet file.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::Printer;

/// Bytes that a writer which owns its output has written, for another to take.
#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self, into: &mut Vec<u8>) {
        into.append(&mut self.0.lock());
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes an Arrow IPC stream.
pub(super) struct ArrowStream {
    written: Written,
    writer: StreamWriter<Written>,
}

impl ArrowStream {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let written = Written::default();
        let writer = StreamWriter::try_new(written.clone(), schema)?;
        Ok(Self { written, writer })
    }
}

impl Printer for ArrowStream {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.writer.write(&batch)?;
        self.written.take(text);
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        self.writer.finish()?;
        self.written.take(text);
        Ok(0)
    }
}

/// Writes a Parquet file, compressed with zstd.
pub(super) struct Parquet {
    written: Written,
    /// None once it is finished.
    writer: Option<ArrowWriter<Written>>,
}

impl Parquet {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let written = Written::default();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .build();
        let writer = ArrowWriter::try_new(written.clone(), Arc::clone(schema), Some(properties))?;
        let writer = Some(writer);
        Ok(Self { written, writer })
    }
}

impl Printer for Parquet {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(writer) = &mut self.writer {
            writer.write(&batch)?;
        }
        self.written.take(text);
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        if let Some(writer) = self.writer.take() {
            writer.close()?;
        }
        self.written.take(text);
        Ok(0)
    }
}
