//! One large file, read in parts by several readers.
//!
//! DataFusion wants a file cut at offsets. Where the rows nearest to them begin is searched once, by all
//! workers side by side, before the first part is read (`tidegate_readers::Splitter`); so that costs another
//! pass over the file, and only files of this machine are cut, whose bytes come from the page cache the
//! second time. A scan that has a share of a file alone searches from the file's beginning to the share's
//! end, and so makes the cuts that a scan of all of it makes.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::{DataFusionError, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use parking_lot::Mutex;
use tidegate_readers::{Part, Place, SearchFrom, Splitter, places, wrong_part};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::bytes::{Buffers, open};
use super::found::Found;
use crate::error::{Error, ErrorKind};
use crate::files::name_of;

/// Bytes that are read at a time behind a part, where its last row may end.
const BEHIND_BYTES: u64 = 1 << 20;

/// The places of a file's parts, by the offsets at which they were wanted.
type Places = HashMap<u64, Place>;
/// A version of a file, and the offsets.
type Key = (Path, u64, DateTime<Utc>, Vec<u64>);

/// The files of a scan that are read in parts.
#[derive(Debug, Default)]
pub(super) struct Parts(Mutex<HashMap<Key, Arc<OnceCell<Places>>>>);

impl Parts {
    /// Returns where the part of a file stands that was wanted at `offset`, one of all `offsets` but the
    /// last, where the last part ends.
    pub(super) async fn place(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
        found: &Arc<Found>,
        offsets: &[u64],
        offset: u64,
    ) -> Result<Place> {
        let (location, modified) = (file.location.clone(), file.last_modified);
        let key = (location, file.size, modified, offsets.to_vec());
        let cell = Arc::clone(self.0.lock().entry(key).or_default());
        let places = cell
            .get_or_try_init(|| cut(store, file, found, offsets))
            .await?;
        places.get(&offset).copied().ok_or_else(|| {
            let message = format!("no part of {} begins at {offset}", file.location);
            Error::new(ErrorKind::Internal, message).into()
        })
    }
}

/// Returns the offsets at which a scan wants its files cut, from 0 to where its last part ends.
pub(super) fn offsets(config: &FileScanConfig) -> HashMap<Path, Vec<u64>> {
    let mut all = HashMap::<Path, Vec<u64>>::new();
    for file in config.file_groups.iter().flat_map(|group| group.iter()) {
        if file.range.is_some() {
            let location = file.object_meta.location.clone();
            let offsets = all.entry(location).or_insert_with(|| vec![0]);
            let (start, end) = file.range();
            offsets.extend([start, end]);
        }
    }
    for offsets in all.values_mut() {
        offsets.sort_unstable();
        offsets.dedup();
    }
    all
}

async fn cut(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    found: &Arc<Found>,
    offsets: &[u64],
) -> Result<Places> {
    let (offsets, ends) = (offsets.split_last(), offsets.split_first());
    let (Some((_, offsets)), Some((_, ends))) = (offsets, ends) else {
        return Ok(Places::new());
    };
    let mut searches = JoinSet::new();
    for (place, (offset, end)) in offsets.iter().zip(ends).enumerate() {
        let from = match place {
            0 => SearchFrom::Head,
            _ => SearchFrom::Line(*offset),
        };
        let (store, file, found, end) = (Arc::clone(store), file.clone(), Arc::clone(found), *end);
        searches.spawn(async move {
            let part = search(&store, &file, &found, from, end).await?;
            Result::<_>::Ok((place, part))
        });
    }
    let mut parts = Vec::with_capacity(offsets.len());
    while let Some(searched) = searches.join_next().await {
        parts.push(searched.map_err(|error| DataFusionError::External(Box::new(error)))??);
    }
    parts.sort_unstable_by_key(|(place, _)| *place);
    let mut parts: Vec<Part> = parts.into_iter().map(|(_, part)| part).collect();
    while let Some((wrong, start)) = wrong_part(&parts) {
        let from = SearchFrom::Row(start);
        parts[wrong] = search(store, file, found, from, ends[wrong]).await?;
    }
    let places = places(&parts, file.size);
    Ok(offsets.iter().copied().zip(places).collect())
}

async fn search(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    found: &Found,
    from: SearchFrom,
    end: u64,
) -> Result<Part> {
    let mut splitter = match found {
        Found::Delimited(sniffed) => Splitter::delimited(sniffed, from, end),
        Found::Json(sniffed) => Splitter::json(sniffed, from, end),
    };
    let mut is_over = splitter.push(&[]);
    let (mut start, mut stop) = (from.offset(), end);
    while !is_over && start < file.size {
        stop = stop.clamp(start + 1, file.size);
        let mut buffers = open_part(store, file, start, stop).await?;
        while let Some(buffer) = buffers.try_next().await? {
            is_over = splitter.push(&buffer);
            if is_over {
                break;
            }
        }
        (start, stop) = (stop, stop + BEHIND_BYTES);
    }
    Ok(splitter.part())
}

/// Opens a part of a file that is not compressed.
///
/// # Errors
/// Fails for a file that is another one than when the statement was planned.
pub(super) async fn open_part(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    start: u64,
    end: u64,
) -> Result<Buffers> {
    let (buffers, now) = open(
        store,
        file,
        Some(start..end),
        FileCompressionType::UNCOMPRESSED,
    )
    .await?;
    if now.size != file.size || now.last_modified != file.last_modified {
        let name = name_of(store.as_ref(), &file.location);
        let message = format!("{name} was changed while it was read: run the statement again");
        return Err(Error::new(ErrorKind::Io, message).into());
    }
    Ok(buffers)
}
