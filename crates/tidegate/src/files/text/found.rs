//! What was found of the files of a table.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::Result;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use parking_lot::Mutex;
use tidegate_readers::json::{self, GivenJson, SniffedJson, sniff_json};
use tidegate_readers::{HEAD_BYTES, HEAD_BYTES_MAX, Sniffed, is_cut, sniff};

use super::Kind;
use super::bytes::{compression_of, sample};
use crate::error::{Error, ErrorKind};
use crate::files::name_of;

/// Files that are looked at side by side.
const FILES_AT_A_TIME: usize = 32;
/// Files whose findings are kept.
const FILES_MAX: usize = 10_000;

/// What was found of a file.
#[derive(Debug)]
pub(super) enum Found {
    Delimited(Sniffed),
    Json(SniffedJson),
}

impl Found {
    fn is_splittable(&self) -> bool {
        match self {
            Self::Delimited(sniffed) => sniffed.dialect.is_splittable(),
            Self::Json(sniffed) => sniffed.is_splittable(),
        }
    }
}

/// A version of a file.
type Version = (Path, u64, DateTime<Utc>);

fn version_of(file: &ObjectMeta) -> Version {
    (file.location.clone(), file.size, file.last_modified)
}

/// The files of a table, looked at once each.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) kind: Kind,
    pub(super) compression: Option<FileCompressionType>,
    found: Mutex<HashMap<Version, Arc<Found>>>,
    /// Whether the table's columns are those that were found.
    were_looked_at: AtomicBool,
}

impl Files {
    pub(super) fn new(kind: Kind, compression: Option<FileCompressionType>) -> Self {
        Self {
            kind,
            compression,
            found: Mutex::default(),
            were_looked_at: AtomicBool::new(false),
        }
    }

    pub(super) fn were_looked_at(&self) -> bool {
        self.were_looked_at.load(Ordering::Relaxed)
    }

    pub(super) fn file_type(&self) -> &'static str {
        match self.kind {
            Kind::Delimited(_) => "csv",
            Kind::Json(_) => "json",
        }
    }

    /// Returns what was said of files of JSON; `None` for others.
    pub(super) fn given_json(&self) -> Option<&GivenJson> {
        match &self.kind {
            Kind::Delimited(_) => None,
            Kind::Json(given) => Some(given),
        }
    }

    pub(super) fn compression_of(&self, file: &ObjectMeta) -> FileCompressionType {
        compression_of(self.compression, file)
    }

    /// Tells whether a file was looked at, and can be read in parts.
    pub(super) fn is_splittable(&self, file: &ObjectMeta) -> bool {
        let found = self.found.lock().get(&version_of(file)).map(Arc::clone);
        !self.compression_of(file).is_compressed()
            && found.is_some_and(|found| found.is_splittable())
    }

    /// Looks at all files, and returns what was found of each that has rows, by its name.
    pub(super) async fn find_all(
        self: &Arc<Self>,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<Vec<(String, Arc<Found>)>> {
        self.were_looked_at.store(true, Ordering::Relaxed);
        let is_one = files.len() == 1;
        let finds = files.iter().cloned().map(|file| {
            let (files, store) = (Arc::clone(self), Arc::clone(store));
            async move {
                // An empty file among others has no rows.
                if file.size == 0 && !is_one {
                    return Ok(None);
                }
                let found = files.find(&store, &file).await?;
                Result::<_>::Ok(Some((name_of(store.as_ref(), &file.location), found)))
            }
        });
        let found = stream::iter(finds.collect::<Vec<_>>()).buffered(FILES_AT_A_TIME);
        let found: Vec<Option<_>> = found.try_collect::<Vec<_>>().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Looks at a file, unless it was looked at before.
    pub(super) async fn find(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Result<Arc<Found>> {
        let version = version_of(file);
        if let Some(found) = self.found.lock().get(&version) {
            return Ok(Arc::clone(found));
        }
        let rows = match &self.kind {
            Kind::Delimited(given) => given.sample_rows,
            Kind::Json(given) => given.sample_rows,
        };
        let compression = self.compression_of(file);
        let mut head = HEAD_BYTES;
        let sample = loop {
            let sample = sample(store, file, compression, rows, head).await?;
            let is_cut = || match &self.kind {
                Kind::Delimited(given) => is_cut(&sample, given),
                Kind::Json(given) => json::is_cut(&sample, given),
            };
            if sample.is_whole || head >= HEAD_BYTES_MAX || !is_cut() {
                break sample;
            }
            head *= 16;
        };
        let found = match &self.kind {
            Kind::Delimited(given) => sniff(&sample, given).map(Found::Delimited),
            Kind::Json(given) => sniff_json(&sample, given).map(Found::Json),
        };
        let found = Arc::new(found.map_err(|error| {
            let name = name_of(store.as_ref(), &file.location);
            Error::with_source(ErrorKind::Io, format!("cannot read {name}: {error}"), error)
        })?);
        let mut all = self.found.lock();
        if all.len() >= FILES_MAX {
            all.clear();
        }
        all.insert(version, Arc::clone(&found));
        Ok(found)
    }
}
