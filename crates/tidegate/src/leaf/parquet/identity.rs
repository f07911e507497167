//! What the column chunks of a Parquet scan are read from, as the column cache knows them.
//!
//! A key names the file with its size, time and tags as the store tells them *now*, its footer, the
//! row group, the column, and everything that decides how its values are read. A file that is not
//! what it was when the scan was planned has no keys: its rows are read again.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion_datasource::file::FileSource;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use parking_lot::Mutex;
use tidegate_scheduler::{ChunkKey, MorselId};

use super::loader::RowGroups;

/// Files that a store is asked about at a time.
const FILES_AT_A_TIME: usize = 16;

/// The identities of a scan's files, as far as they were asked for.
#[derive(Debug)]
pub(super) struct Identities {
    store: Arc<dyn ObjectStore>,
    url: String,
    row_groups: Arc<RowGroups>,
    columns: Vec<Column>,
    found: Mutex<Vec<Option<Identity>>>,
}

/// A column of the leaf.
#[derive(Debug)]
enum Column {
    /// Read from the file, in this way.
    File(Arc<str>),
    /// A partition column: its name and type, and its place among the files' partition values.
    Partition(String, usize),
}

#[derive(Clone, Debug)]
struct Identity {
    source: Arc<str>,
    columns: Arc<[Arc<str>]>,
    /// The row groups of the piece's morsels.
    row_groups: Arc<[u64]>,
}

impl Identities {
    pub(super) fn new(
        config: &FileScanConfig,
        planned: &ParquetSource,
        columns: &[usize],
        row_groups: &Arc<RowGroups>,
        ctx: &TaskContext,
    ) -> Result<Self> {
        let schema = planned.table_schema();
        let num_file_columns = schema.file_schema().fields().len();
        let how = how_read(planned);
        let column = |&index: &usize| {
            let field = schema.table_schema().field(index);
            if index < num_file_columns {
                Column::File(column_key(field, &how))
            } else {
                let column = format!("{}: {}", field.name(), field.data_type());
                Column::Partition(column, index - num_file_columns)
            }
        };
        let num_files = row_groups.num_files();
        Ok(Self {
            store: ctx.runtime_env().object_store(&config.object_store_url)?,
            url: config.object_store_url.to_string(),
            row_groups: Arc::clone(row_groups),
            columns: columns.iter().map(column).collect(),
            found: Mutex::new(vec![None; num_files]),
        })
    }

    /// Finds out what a listed piece's file is now.
    pub(super) async fn find(&self, piece: usize) -> Result<()> {
        if self.found.lock()[piece].is_some() {
            return Ok(());
        }
        let Some((footer, row_groups)) = self.row_groups.footer(piece) else {
            return Ok(());
        };
        let file = self.row_groups.file(piece);
        let planned = &file.object_meta;
        let now = self.store.head(&planned.location).await?;
        if !is_same(planned, &now) {
            return Ok(());
        }
        let source = source_key(&self.url, &now, footer);
        let column = |column: &Column| match column {
            Column::File(name) => Arc::clone(name),
            Column::Partition(name, index) => {
                format!("{name} = {:?}", file.partition_values.get(*index)).into()
            }
        };
        self.found.lock()[piece] = Some(Identity {
            source,
            columns: self.columns.iter().map(column).collect(),
            row_groups: row_groups.into(),
        });
        Ok(())
    }

    /// Returns whether all files are what they were when the scan was planned.
    pub(super) async fn are_as_planned(&self) -> Result<bool> {
        let files = self.row_groups.files().iter().map(|file| &file.object_meta);
        let files: BTreeMap<&Path, &ObjectMeta> =
            files.map(|file| (&file.location, file)).collect();
        let looks = files.into_values().cloned().map(|planned| {
            let store = Arc::clone(&self.store);
            async move {
                match store.head(&planned.location).await {
                    Ok(now) => Ok(is_same(&planned, &now)),
                    Err(object_store::Error::NotFound { .. }) => Ok(false),
                    Err(error) => Err(DataFusionError::from(error)),
                }
            }
        });
        let looks: Vec<_> = looks.collect();
        let mut looks = stream::iter(looks).buffer_unordered(FILES_AT_A_TIME);
        while let Some(is_same) = looks.next().await {
            if !is_same? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Names a column of a morsel.
    pub(super) fn chunk_key(&self, morsel: MorselId, column: usize) -> Option<ChunkKey> {
        let found = self.found.lock();
        let identity = found[morsel.piece].as_ref()?;
        Some(ChunkKey {
            source: Arc::clone(&identity.source),
            column: Arc::clone(&identity.columns[column]),
            part: *identity.row_groups.get(morsel.index)?,
        })
    }
}

/// Names a file by the state that it is in.
pub(super) fn source_key(url: &str, file: &ObjectMeta, footer: u64) -> Arc<str> {
    let key = format!(
        "{url}{} size={} time={} tag={:?} version={:?} footer={footer:x}",
        file.location,
        file.size,
        file.last_modified.timestamp_nanos_opt().unwrap_or_default(),
        file.e_tag,
        file.version,
    );
    key.into()
}

/// Names what decides how the values of a file's columns are read, beside their types.
pub(super) fn how_read(planned: &ParquetSource) -> String {
    let options = &planned.table_parquet_options().global;
    format!(
        "binary_as_string={} coerce_int96={:?} {:?}",
        options.binary_as_string, options.coerce_int96, options.coerce_int96_tz
    )
}

/// Names a column of a file.
pub(super) fn column_key(field: &Field, how: &str) -> Arc<str> {
    format!("{}: {:?}, {how}", field.name(), field.data_type()).into()
}

/// Returns whether a file is what it was; a tag or version that one side does not tell decides
/// nothing.
pub(super) fn is_same(planned: &ObjectMeta, now: &ObjectMeta) -> bool {
    let agree = |planned: &Option<String>, now: &Option<String>| {
        planned.is_none() || now.is_none() || planned == now
    };
    planned.size == now.size
        && planned.last_modified == now.last_modified
        && agree(&planned.e_tag, &now.e_tag)
        && agree(&planned.version, &now.version)
}
