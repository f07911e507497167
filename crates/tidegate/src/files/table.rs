//! Files that a statement names, as one table: `read_csv('logs/*/2024.csv', filename => true)`.
//!
//! The files are listed anew at each scan, so that a view over a pattern sees those that came later; the
//! columns stay. Beside the columns of the files there may be those of their folders (`year=2024`) and their
//! names.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::NaiveDate;
use datafusion::arrow::array::BooleanArray;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, ScalarValue, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::parquet::arrow::RowNumber;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::{PartitionedFile, TableSchema, compute_all_files_statistics};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};

use super::listed::{FilePath, partitions};
use super::merged::merged;
use crate::error::{Error, ErrorKind};

/// Files whose columns or statistics are read side by side.
const FILES_AT_A_TIME: usize = 32;
/// The column of the rows' numbers.
const ROW_NUMBER: &str = "file_row_number";
/// What a folder's name has for a value that is NULL.
pub(super) const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// What a table of files has beside their columns, and how files with other columns are put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilesOptions {
    /// The column of the files' names, if there is one.
    pub(crate) filename: Option<String>,
    /// Whether the column of the files' names is left out where the files have one of its name.
    pub(crate) is_filename_hidden: bool,
    /// Whether folders called `key=value` are columns; `None` if they are where all files have them.
    pub(crate) hive_partitioning: Option<bool>,
    /// The types of such columns.
    pub(crate) hive_types: Vec<(String, DataType)>,
    /// Whether the others are text, whatever their values are.
    pub(crate) are_keys_text: bool,
    /// Whether there is a column of the rows' numbers in their file, which Parquet's reader gives.
    pub(crate) file_row_number: bool,
    /// Whether a column that a file lacks is NULL, and one that has several types has one that holds all.
    pub(crate) union_by_name: bool,
}

/// A table of files.
#[derive(Debug)]
pub(crate) struct FilesTable {
    paths: Vec<FilePath>,
    format: Arc<dyn FileFormat>,
    schema: TableSchema,
    num_keys: usize,
    has_filename: bool,
    is_filename_hidden: bool,
}

impl FilesTable {
    /// Makes a table of files, and finds its columns; `schema` are those of the files, if they were given.
    ///
    /// # Errors
    /// Fails if there are no files, if they are of several stores, or cannot be read as the format.
    pub(crate) async fn open(
        session: &dyn Session,
        paths: Vec<FilePath>,
        format: Arc<dyn FileFormat>,
        options: &FilesOptions,
    ) -> Result<Self> {
        let (url, files) = list(session, &paths).await?;
        let files: Vec<ObjectMeta> = files.into_iter().map(|(file, _)| file).collect();
        let store = session.runtime_env().object_store(&url)?;
        let of_files = match options.union_by_name {
            true => united(session, &store, &format, &files).await?,
            false => format.infer_schema(session, &store, &files).await?,
        };
        let mut keys = match options.hive_partitioning {
            Some(false) => Vec::new(),
            _ => keys_of(&files),
        };
        for key in &mut keys {
            let said = options
                .hive_types
                .iter()
                .find(|(name, _)| name == key.name());
            let said = said.map(|(_, data_type)| data_type.clone());
            if let Some(data_type) = said.or(options.are_keys_text.then_some(DataType::Utf8)) {
                *key = Arc::new(Field::clone(key).with_data_type(data_type));
            }
        }
        // A file's own column of that name is read instead.
        keys.retain(|key| of_files.column_with_name(key.name()).is_none());
        let num_keys = keys.len();
        let has_own = |name: &String| of_files.column_with_name(name).is_some();
        let filename = options.filename.as_ref();
        let filename = filename.filter(|name| !(options.is_filename_hidden && has_own(name)));
        if let Some(filename) = filename {
            if has_own(filename) {
                let message = format!(
                    "the files have a column \"{filename}\" already: give the column of their names \
                     another name, as in filename => 'source'"
                );
                return Err(Error::new(ErrorKind::Sql, message).into());
            }
            keys.push(Arc::new(Field::new(filename, DataType::Utf8, false)));
        }
        let mut numbers: Vec<FieldRef> = Vec::new();
        if options.file_row_number {
            let is_taken = keys.iter().any(|key| key.name() == ROW_NUMBER);
            if is_taken || of_files.column_with_name(ROW_NUMBER).is_some() {
                let message = format!("the files have a column \"{ROW_NUMBER}\" already");
                return Err(Error::new(ErrorKind::Sql, message).into());
            }
            let number = Field::new(ROW_NUMBER, DataType::Int64, false);
            numbers.push(Arc::new(number.with_extension_type(RowNumber)));
        }
        Ok(Self {
            paths,
            format,
            has_filename: filename.is_some(),
            is_filename_hidden: options.is_filename_hidden,
            schema: TableSchema::builder(of_files)
                .with_table_partition_cols(keys)
                .with_virtual_columns(numbers)
                .build(),
            num_keys,
        })
    }

    /// Tells whether the table has a column of the files' names that `*` does not stand for.
    pub(crate) fn has_hidden_filename(&self) -> bool {
        self.has_filename && self.is_filename_hidden
    }

    fn partitioned(&self, (file, name): (ObjectMeta, String)) -> Result<PartitionedFile> {
        let keys = self.schema.table_partition_cols();
        let mut values = Vec::with_capacity(keys.len());
        let of_file = partitions(&file);
        for key in keys.iter().take(self.num_keys) {
            let value = of_file.iter().find(|(name, _)| name == key.name());
            let value = value.filter(|(_, value)| value != NULL_PARTITION);
            values.push(match value {
                None => ScalarValue::try_from(key.data_type())?,
                Some((_, value)) => ScalarValue::try_from_string(value.clone(), key.data_type())?,
            });
        }
        if self.has_filename {
            values.push(ScalarValue::Utf8(Some(name)));
        }
        Ok(PartitionedFile::new_from_meta(file).with_partition_values(values))
    }

    /// Leaves out files whose folders or names a filter refuses.
    fn pruned(
        &self,
        session: &dyn Session,
        files: Vec<PartitionedFile>,
        filters: &[Expr],
    ) -> Result<Vec<PartitionedFile>> {
        let keys = self.schema.table_partition_cols();
        let filters: Vec<&Expr> = filters
            .iter()
            .filter(|filter| self.is_of_keys(filter))
            .collect();
        if filters.is_empty() || files.is_empty() {
            return Ok(files);
        }
        let schema = Arc::new(Schema::new(keys.clone()));
        let columns = (0..keys.len()).map(|key| {
            let values = files.iter().map(|file| file.partition_values[key].clone());
            ScalarValue::iter_to_array(values)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let named = DFSchema::try_from(schema)?;
        let mut kept = vec![true; files.len()];
        for filter in filters {
            let filter = session.create_physical_expr(filter.clone(), &named)?;
            let passed = filter.evaluate(&rows)?.into_array(files.len())?;
            if let Some(passed) = passed.as_any().downcast_ref::<BooleanArray>() {
                for (kept, passed) in kept.iter_mut().zip(passed) {
                    *kept &= passed == Some(true);
                }
            }
        }
        let pairs = files.into_iter().zip(kept);
        Ok(pairs
            .filter_map(|(file, kept)| kept.then_some(file))
            .collect())
    }

    /// Tells whether a filter is about folders and names of files alone.
    fn is_of_keys(&self, filter: &Expr) -> bool {
        let keys = self.schema.table_partition_cols();
        let columns = filter.column_refs();
        let is_key = |name: &str| keys.iter().any(|key| key.name() == name);
        !columns.is_empty()
            && !filter.is_volatile()
            && columns.iter().all(|column| is_key(&column.name))
    }

    /// Tells whether statistics are read; those of a column that the reader makes are not known.
    fn has_statistics(&self, session: &dyn Session) -> bool {
        session.config().collect_statistics() && self.schema.virtual_columns().is_empty()
    }

    async fn with_statistics(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: Vec<PartitionedFile>,
    ) -> Result<Vec<PartitionedFile>> {
        if !self.has_statistics(session) {
            return Ok(files);
        }
        let known = files.into_iter().map(|file| async move {
            let schema = Arc::clone(self.schema.file_schema());
            let meta = &file.object_meta;
            let known = self
                .format
                .infer_stats(session, store, schema, meta)
                .await?;
            Ok(file.with_statistics(Arc::new(known)))
        });
        let known: Vec<_> = known.collect();
        stream::iter(known)
            .buffered(FILES_AT_A_TIME)
            .try_collect()
            .await
    }
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushdown = |filter: &&Expr| match self.is_of_keys(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(pushdown).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (url, files) = list(session, &self.paths).await?;
        let store = session.runtime_env().object_store(&url)?;
        let files = files.into_iter().map(|file| self.partitioned(file));
        let files = self.pruned(session, files.collect::<Result<_>>()?, filters)?;
        let files = self.with_statistics(session, &store, files).await?;
        let partitions = session.config().target_partitions().max(1);
        let groups = FileGroup::new(files).split_files(partitions);
        let (groups, statistics) = match self.has_statistics(session) {
            true => compute_all_files_statistics(groups, self.schema(), true, false)?,
            false => (groups, Statistics::new_unknown(&self.schema())),
        };
        let source = self.format.file_source(self.schema.clone());
        let config = FileScanConfigBuilder::new(url, source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        self.format.create_physical_plan(session, config).await
    }
}

/// Lists the files of all paths, and their names. A file that two paths name is listed twice.
pub(crate) async fn list(
    session: &dyn Session,
    paths: &[FilePath],
) -> Result<(ObjectStoreUrl, Vec<(ObjectMeta, String)>)> {
    let Some(first) = paths.first() else {
        return Err(Error::new(ErrorKind::Sql, "the list of files is empty").into());
    };
    let url = first.store();
    if let Some(other) = paths.iter().find(|path| path.store() != url) {
        let message = format!(
            "'{}' and '{}' are of different stores: read them one by one, and put them together with \
             UNION ALL",
            first.text(),
            other.text()
        );
        return Err(Error::new(ErrorKind::NotSupported, message).into());
    }
    let mut files = Vec::new();
    for path in paths {
        let listed = path.list(session).await?;
        files.extend(listed.into_iter().map(|file| {
            let name = path.name(&file);
            (file, name)
        }));
    }
    Ok((url, files))
}

/// Returns the columns of files together: what a file lacks is NULL, and types are made wide enough.
async fn united(
    session: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    format: &Arc<dyn FileFormat>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let schemas = files.iter().map(|file| async move {
        format
            .infer_schema(session, store, std::slice::from_ref(file))
            .await
    });
    let schemas: Vec<_> = schemas.collect();
    let schemas: Vec<SchemaRef> = stream::iter(schemas)
        .buffered(FILES_AT_A_TIME)
        .try_collect()
        .await?;
    let mut fields: Vec<Field> = Vec::new();
    for schema in &schemas {
        for field in schema.fields() {
            match fields.iter_mut().find(|known| known.name() == field.name()) {
                Some(known) => *known = merged(known, field),
                None => fields.push(field.as_ref().clone().with_nullable(true)),
            }
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Has keys of folders, which DataFusion takes for text, be of the types that all of their values have. Its tables know
/// no NULL of them.
pub(crate) fn with_types(keys: &mut [(String, DataType)], files: &[ObjectMeta]) {
    let nulls: Vec<String> = files
        .iter()
        .flat_map(partitions)
        .filter_map(|(key, value)| (value == NULL_PARTITION).then_some(key))
        .collect();
    for found in keys_of(files) {
        let key = keys.iter_mut().find(|(key, _)| key == found.name());
        if let Some((key, data_type)) = key
            && *found.data_type() != DataType::Utf8
            && !nulls.contains(key)
        {
            *data_type = found.data_type().clone();
        }
    }
}

/// Returns the keys that the folders of all files have, with types that all of their values have.
fn keys_of(files: &[ObjectMeta]) -> Vec<FieldRef> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut order = Vec::new();
    for file in files {
        for (key, value) in partitions(file) {
            if !order.contains(&key) {
                order.push(key.clone());
            }
            values.entry(key).or_default().push(value);
        }
    }
    let mut keys = Vec::new();
    for key in order {
        let all = values.get(&key).map_or(&[][..], Vec::as_slice);
        if all.len() < files.len() {
            continue;
        }
        let known: Vec<&String> = all
            .iter()
            .filter(|value| *value != NULL_PARTITION)
            .collect();
        let are = |is: fn(&str) -> bool| !known.is_empty() && known.iter().all(|value| is(value));
        let data_type = if are(is_number) {
            DataType::Int64
        } else if are(is_date) {
            DataType::Date32
        } else {
            DataType::Utf8
        };
        keys.push(Arc::new(Field::new(key, data_type, true)) as FieldRef);
    }
    keys
}

/// Tells whether a text is a whole number as it is written out.
fn is_number(value: &str) -> bool {
    value
        .parse::<i64>()
        .is_ok_and(|number| number.to_string() == *value)
}

/// Tells whether a text is a date such as `2024-01-31`.
fn is_date(value: &str) -> bool {
    let date = NaiveDate::parse_from_str(value, "%Y-%m-%d");
    date.is_ok_and(|date| date.to_string() == value)
}
