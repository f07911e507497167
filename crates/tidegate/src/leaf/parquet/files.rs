//! The Parquet files of which column chunks are kept in host memory.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::SchemaRef;
use object_store::ObjectMeta;
use parking_lot::Mutex;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::ParquetMetaData;
use tidegate_scheduler::ColumnCache;

use super::identity::source_key;
use super::loader::footer_hash;
use crate::runtime::Runtime;

/// Files remembered.
const FILES_MAX: usize = 4_096;

/// The host tier, and the files that its chunks come from.
#[derive(Debug)]
pub(crate) struct HostCache {
    columns: Arc<ColumnCache>,
    files: Arc<Files>,
}

/// What is known of the files of a runtime.
#[derive(Debug, Default)]
struct Files(Mutex<HashMap<String, Arc<KnownFile>>>);

/// A file in the state in which it was read.
#[derive(Debug)]
pub(crate) struct KnownFile {
    /// What the store told of it.
    pub(super) meta: ObjectMeta,
    /// Its part of the chunks' keys.
    pub(super) source: Arc<str>,
    pub(super) footer: Arc<ParquetMetaData>,
    /// The types in which its columns lie in it.
    stored: OnceLock<Option<SchemaRef>>,
}

impl HostCache {
    /// Returns the host tier of a runtime.
    pub(crate) fn of(runtime: &Runtime) -> Arc<Self> {
        Arc::new(Self {
            columns: Arc::clone(runtime.cache()),
            files: runtime.shared(),
        })
    }

    /// Returns the column cache.
    pub(crate) fn columns(&self) -> &Arc<ColumnCache> {
        &self.columns
    }

    /// Returns what is known of a file.
    pub(super) fn file(&self, url: &str, file: &ObjectMeta) -> Option<Arc<KnownFile>> {
        let files = self.files.0.lock();
        files.get(&place(url, file)).cloned()
    }

    /// Remembers a file, in place of what it was before.
    pub(super) fn remember(&self, url: &str, file: Arc<KnownFile>) {
        let mut files = self.files.0.lock();
        if files.len() >= FILES_MAX {
            let tier = self.columns.host();
            files.retain(|_, file| tier.holds(&file.source));
        }
        if files.len() >= FILES_MAX {
            return;
        }
        let source = Arc::clone(&file.source);
        let before = files.insert(place(url, &file.meta), file);
        if let Some(before) = before.filter(|before| before.source != source) {
            self.columns.forget(&before.source);
        }
    }

    /// Forgets a file that is no more what it was, with its chunks.
    pub(super) fn forget(&self, url: &str, file: &KnownFile) {
        self.files.0.lock().remove(&place(url, &file.meta));
        self.columns.forget(&file.source);
    }
}

fn place(url: &str, file: &ObjectMeta) -> String {
    format!("{url}{}", file.location)
}

impl KnownFile {
    /// Describes a file by its footer.
    pub(super) fn new(url: &str, meta: ObjectMeta, footer: Arc<ParquetMetaData>) -> Self {
        Self {
            source: source_key(url, &meta, footer_hash(&footer)),
            meta,
            footer,
            stored: OnceLock::new(),
        }
    }

    /// Returns the types in which the file's columns lie in it.
    pub(super) fn stored(&self) -> Option<&SchemaRef> {
        let read = || {
            let footer = self.footer.file_metadata();
            let metadata = footer.key_value_metadata();
            let schema = parquet_to_arrow_schema(footer.schema_descr(), metadata).ok()?;
            Some(Arc::new(schema))
        };
        self.stored.get_or_init(read).as_ref()
    }
}
