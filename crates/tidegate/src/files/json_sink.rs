//! What COPY writes as JSON: objects with all of their fields, one a line or as one array.
//!
//! DataFusion's sink leaves out fields that are NULL, also those of structs within, so that whoever reads the file
//! misses columns; and it writes lines alone. Each batch is written by itself, wherever it is in a file: the array's end
//! is a batch without rows, which comes after all others.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::common::file_options::json_writer::JsonWriterOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::file_format::json::{JsonFormat, JsonSink};
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use datafusion_datasource::display::FileGroupDisplay;
use datafusion_datasource::write::BatchSerializer;
use datafusion_datasource::write::demux::DemuxedStreamReceiver;
use datafusion_datasource::write::orchestration::spawn_writer_tasks_and_join;
use futures::{StreamExt, stream};
use object_store::ObjectStore;

use super::text_keys::with_text_keys;
use crate::error::{Error, ErrorKind};

/// A sink of JSON files.
pub(crate) struct ObjectsSink {
    config: FileSinkConfig,
    options: JsonWriterOptions,
    is_array: bool,
}

impl ObjectsSink {
    /// Makes a sink of what DataFusion's writes: an object a line.
    pub(crate) fn lines(sink: &JsonSink) -> Self {
        Self {
            config: sink.config().clone(),
            options: sink.writer_options().clone(),
            is_array: false,
        }
    }

    /// Makes a sink of one file with an array.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where the rows go into several files.
    pub(crate) fn array(format: &JsonFormat, config: FileSinkConfig) -> Result<Self> {
        let mut paths = config.table_paths.iter();
        let is_file = config.table_partition_cols.is_empty()
            && paths.all(|path| config.file_output_mode.single_file_output(path));
        if !is_file {
            let message = format!(
                "'{}': an array is written into one file, whose name has an ending, and not into a folder",
                config.original_url
            );
            return Err(Error::new(ErrorKind::NotSupported, message).into());
        }
        Ok(Self {
            options: JsonWriterOptions::try_from(format.options())?,
            config,
            is_array: true,
        })
    }
}

impl fmt::Debug for ObjectsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectsSink")
            .field("is_array", &self.is_array)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for ObjectsSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "JsonSink(file_groups=")?;
                FileGroupDisplay(&self.config.file_group).fmt_as(format, f)?;
                write!(f, ")")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "format: json")?;
                write!(f, "file={}", self.config.original_url)
            }
        }
    }
}

#[async_trait]
impl FileSink for ObjectsSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let serializer = Objects {
            is_array: self.is_array,
        };
        spawn_writer_tasks_and_join(
            context,
            Arc::new(serializer),
            self.options.compression.into(),
            self.options.compression_level,
            store,
            demux_task,
            files,
        )
        .await
    }
}

#[async_trait]
impl DataSink for ObjectsSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let data = match self.is_array {
            true => with_end(data),
            false => data,
        };
        FileSink::write_all(self, data, context).await
    }
}

/// Puts a batch without rows behind all others, and nowhere else.
fn with_end(data: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = data.schema();
    let end = RecordBatch::new_empty(Arc::clone(&schema));
    let has_rows = |batch: &Result<RecordBatch>| {
        let is_empty = batch.as_ref().is_ok_and(|batch| batch.num_rows() == 0);
        ready(!is_empty)
    };
    let rows = data.filter(has_rows).chain(stream::iter([Ok(end)]));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Writes batches as objects.
struct Objects {
    is_array: bool,
}

impl BatchSerializer for Objects {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let builder = WriterBuilder::new().with_explicit_nulls(true);
        let mut writer = builder.build::<_, LineDelimited>(Vec::with_capacity(4096));
        writer.write(&with_text_keys(&batch)?)?;
        writer.finish()?;
        let lines = writer.into_inner();
        Ok(Bytes::from(match self.is_array {
            true => elements(&lines, initial),
            false => lines,
        }))
    }
}

/// Writes lines as elements of an array: the first of a file open it, and none end it.
fn elements(lines: &[u8], initial: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.len() + 16);
    // A line break within a string is written as `\n`, so each line is an object.
    let lines = lines.split(|byte| *byte == b'\n');
    for object in lines.filter(|line| !line.is_empty()) {
        let is_first = initial && text.is_empty();
        text.extend_from_slice(if is_first { b"[" } else { b",\n" });
        text.extend_from_slice(object);
    }
    if text.is_empty() {
        text.extend_from_slice(if initial { b"[]\n" } else { b"]\n" });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion_datasource::write::BatchSerializer;

    use super::Objects;

    fn batch(values: Vec<Option<i64>>) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter_with_nullable([("a", values, true)]).unwrap()
    }

    fn written(batches: &[RecordBatch], is_array: bool) -> String {
        let objects = Objects { is_array };
        let texts = batches
            .iter()
            .enumerate()
            .map(|(place, batch)| objects.serialize(batch.clone(), place == 0).unwrap());
        String::from_utf8(texts.collect::<Vec<_>>().concat()).unwrap()
    }

    #[test]
    fn nulls_are_written() {
        let text = written(&[batch(vec![Some(1), None])], false);
        assert_eq!(text, "{\"a\":1}\n{\"a\":null}\n");
    }

    #[test]
    fn arrays_of_any_batches() {
        let end = || batch(Vec::new());
        let rows = [batch(vec![Some(1), None]), batch(vec![Some(2)]), end()];
        let expected = "[{\"a\":1},\n{\"a\":null},\n{\"a\":2}]\n";
        assert_eq!(written(&rows, true), expected);
        assert_eq!(written(&[end()], true), "[]\n");
    }
}
