//! What files are beside their rows: `read_text('*.md')`, `glob('logs/*')`, `sniff_csv('x.csv')`, `parquet_schema('x.parquet')`.
//!
//! Files are listed and looked at when a table is scanned, one after the other.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde_json::value::RawValue;

use super::{parquet_looks, sniffed};
use crate::error::{Error, ErrorKind};
use crate::files::footers::footer_of;
use crate::files::listed::FilePath;
use crate::files::table::list;
use crate::files::{damaged, text};

/// The most bytes of files that one table holds.
const CONTENT_BYTES_MAX: u64 = 256 << 20;

/// A file, its store and its name.
type File = (Arc<dyn ObjectStore>, ObjectMeta, String);

/// What is told of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Names,
    Text,
    Bytes,
    Objects,
    Csv,
    ParquetSchema,
    ParquetFile,
    ParquetChunks,
    ParquetKeys,
}

/// A table of what is told of files.
#[derive(Debug)]
pub(super) struct LookTable {
    function: &'static str,
    look: Look,
    paths: Vec<FilePath>,
    schema: SchemaRef,
}

impl LookTable {
    pub(super) fn new(function: &'static str, look: Look, paths: Vec<FilePath>) -> Self {
        let schema = match look {
            Look::Names => Schema::new(vec![Field::new("file", DataType::Utf8, false)]),
            Look::Text => of_content(DataType::Utf8),
            Look::Bytes => of_content(DataType::Binary),
            Look::Objects => Schema::new(vec![Field::new("json", DataType::Utf8, false)]),
            Look::Csv => sniffed::schema(),
            Look::ParquetSchema => parquet_looks::schema_of(&parquet_looks::COLUMNS),
            Look::ParquetFile => parquet_looks::schema_of(&parquet_looks::FILE),
            Look::ParquetChunks => parquet_looks::schema_of(&parquet_looks::CHUNKS),
            Look::ParquetKeys => parquet_looks::keys_schema(),
        };
        Self {
            function,
            look,
            paths,
            schema: Arc::new(schema),
        }
    }

    /// Returns the files and their names; none where a pattern of `glob` matches none.
    async fn files(&self, session: &dyn Session) -> Result<Vec<File>> {
        let listed = list(session, &self.paths).await;
        let (url, files) = match listed {
            Ok(listed) => listed,
            Err(error) if self.look == Look::Names && is_not_found(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let store = session.runtime_env().object_store(&url)?;
        let files = files.into_iter();
        Ok(files
            .map(|(file, name)| (Arc::clone(&store), file, name))
            .collect())
    }

    async fn rows(&self, session: &dyn Session, has_content: bool) -> Result<RecordBatch> {
        let files = self.files(session).await?;
        let columns = match self.look {
            Look::Names => {
                let names = files.iter().map(|(.., name)| name.as_str());
                vec![Arc::new(StringArray::from_iter_values(names)) as ArrayRef]
            }
            Look::Text | Look::Bytes => self.content(session, &files, has_content).await?,
            Look::Objects => {
                let texts = self.contents(session, &files).await?;
                let mut objects = Vec::new();
                for (text, (.., name)) in texts.iter().zip(&files) {
                    add_objects(text, &mut objects).map_err(|why| damaged(name, why))?;
                }
                vec![Arc::new(StringArray::from_iter_values(objects)) as ArrayRef]
            }
            Look::Csv => {
                let mut found = Vec::with_capacity(files.len());
                for (store, file, name) in files {
                    if let Some(of_file) = text::sniffed(&store, &file).await? {
                        found.push((name, of_file));
                    }
                }
                sniffed::columns(&found)
            }
            _ => {
                let mut footers = Vec::with_capacity(files.len());
                for (store, file, name) in files {
                    let footer = footer_of(session, &store, &file).await?;
                    footers.push((name, file.size, footer));
                }
                match self.look {
                    Look::ParquetSchema => parquet_looks::columns(&footers),
                    Look::ParquetFile => parquet_looks::files(&footers),
                    Look::ParquetChunks => parquet_looks::chunks(&footers),
                    _ => parquet_looks::keys(&footers),
                }
            }
        };
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Reads files whole.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for more than [`CONTENT_BYTES_MAX`], [`ErrorKind::Io`] for a text that is none.
    async fn contents(&self, session: &dyn Session, files: &[File]) -> Result<Vec<Bytes>> {
        let mut contents: Vec<Bytes> = Vec::with_capacity(files.len());
        let pool = &session.runtime_env().memory_pool;
        let held = MemoryConsumer::new(self.function).register(pool);
        let mut total = 0_u64;
        for (store, file, name) in files {
            total = total.saturating_add(file.size);
            if total > CONTENT_BYTES_MAX {
                return Err(self.too_large(file, name));
            }
            held.try_grow(usize::try_from(file.size).unwrap_or(usize::MAX))?;
            let read = store.get(&file.location).await?.bytes().await?;
            if self.look != Look::Bytes && std::str::from_utf8(&read).is_err() {
                let message = format!(
                    "{}: '{name}' is no text in UTF-8: read its bytes with read_blob",
                    self.function
                );
                return Err(Error::new(ErrorKind::Io, message).into());
            }
            contents.push(read);
        }
        Ok(contents)
    }

    /// Returns files with their content, if that is asked for.
    async fn content(
        &self,
        session: &dyn Session,
        files: &[File],
        has_content: bool,
    ) -> Result<Vec<ArrayRef>> {
        let bytes = match has_content {
            true => self.contents(session, files).await?,
            false => vec![Bytes::new(); files.len()],
        };
        let content: ArrayRef = match self.look {
            Look::Text => {
                let texts = bytes.iter().map(|bytes| std::str::from_utf8(bytes));
                let texts = texts.map(std::result::Result::unwrap_or_default);
                Arc::new(StringArray::from_iter_values(texts))
            }
            _ => Arc::new(BinaryArray::from_iter_values(bytes.iter())),
        };
        let names = files.iter().map(|(.., name)| name.as_str());
        let sizes = files
            .iter()
            .map(|(_, file, _)| i64::try_from(file.size).unwrap_or(i64::MAX));
        let times = files
            .iter()
            .map(|(_, file, _)| file.last_modified.timestamp_micros());
        let times = TimestampMicrosecondArray::from_iter_values(times);
        Ok(vec![
            Arc::new(StringArray::from_iter_values(names)),
            content,
            Arc::new(Int64Array::from_iter_values(sizes)),
            Arc::new(times.with_timezone("UTC")),
        ])
    }

    fn too_large(&self, file: &ObjectMeta, name: &str) -> DataFusionError {
        let message = format!(
            "{}: '{name}' has {} bytes, and files of at most {CONTENT_BYTES_MAX} bytes together are read whole: name \
             fewer files, or read their rows, as with read_csv",
            self.function, file.size
        );
        Error::new(ErrorKind::NotSupported, message).into()
    }
}

/// Adds the values of JSON that stand in a text one after the other, and those of an array one by one.
fn add_objects(text: &[u8], objects: &mut Vec<String>) -> serde_json::Result<()> {
    let values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    for value in values {
        let value = value?.get();
        match value.starts_with('[') {
            true => {
                let elements: Vec<&RawValue> = serde_json::from_str(value)?;
                objects.extend(elements.iter().map(|element| element.get().to_string()));
            }
            false => objects.push(value.to_string()),
        }
    }
    Ok(())
}

fn of_content(content: DataType) -> Schema {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Schema::new(vec![
        Field::new("filename", DataType::Utf8, false),
        Field::new("content", content, false),
        Field::new("size", DataType::Int64, false),
        Field::new("last_modified", time, false),
    ])
}

fn is_not_found(error: &DataFusionError) -> bool {
    Error::own(error).is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

#[async_trait]
impl TableProvider for LookTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // The second column of those that have content.
        let has_content = projection.is_none_or(|columns| columns.contains(&1));
        let rows = self.rows(session, has_content).await?;
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![rows]],
            Arc::clone(&self.schema),
            projection.cloned(),
        )?)
    }
}
