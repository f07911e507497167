//! Keeps a row group while the host engine reads its pages.

use std::sync::Arc;
use std::time::Duration;

use object_store::{ObjectStore, ObjectStoreExt as _};
use tidegate_kernels::host::{Chunk, Entries};
use tidegate_scheduler::ChunkKey;
use tidegate_scheduler::cache::host::{Bid, BlocksBuilder, HostBytes, Offer};

use super::super::files::KnownFile;
use super::super::identity::is_same;
use super::scan::{CachedScan, Missing, Origin};

/// A row group that is to be kept, as its pages have it.
///
/// A column of which a block was not decoded, since no row of it was wanted, is not kept.
pub(crate) struct PageFill {
    scan: Arc<CachedScan>,
    file: Arc<KnownFile>,
    store: Arc<dyn ObjectStore>,
    row_group: Missing,
    bid: Bid,
    /// For each column of the scan its chunk; `None` if it is there, or not kept.
    columns: Vec<Option<Column>>,
    charge: Option<HostBytes>,
}

struct Column {
    key: usize,
    chunk: BlocksBuilder,
    bytes: u64,
}

impl PageFill {
    pub(super) fn new(
        scan: &Arc<CachedScan>,
        file: &Arc<KnownFile>,
        store: &Arc<dyn ObjectStore>,
        row_group: Missing,
        bid: Bid,
    ) -> Self {
        let num_rows = usize::try_from(row_group.num_rows).unwrap_or(0);
        let fields = scan.schema().fields().iter();
        let columns = scan.columns().iter().zip(fields);
        let columns = columns.map(|(origin, field)| {
            let Origin::File(key) = *origin else {
                return None;
            };
            let chunk = match row_group.there.get(key) {
                Some(false) => BlocksBuilder::new(field.data_type(), num_rows)?,
                _ => return None,
            };
            Some(Column {
                key,
                chunk,
                bytes: 0,
            })
        });
        Self {
            columns: columns.collect(),
            scan: Arc::clone(scan),
            file: Arc::clone(file),
            store: Arc::clone(store),
            row_group,
            bid,
            charge: None,
        }
    }

    /// Adds a block of one column of the scan's; one that was not decoded, or that is not kept, ends its column.
    pub(crate) fn push(
        &mut self,
        column: usize,
        block: Option<Chunk<'_>>,
        entries: Option<&Entries>,
        rows: usize,
    ) {
        let Some(kept) = self.columns.get_mut(column) else {
            return;
        };
        let Some(column) = kept else {
            return;
        };
        let bytes = block.and_then(|block| column.chunk.push(&block, entries, rows));
        match bytes {
            Some(bytes) => column.bytes = bytes,
            None => *kept = None,
        }
    }

    /// Takes the bytes of what was added from the tier; returns whether it goes on.
    pub(crate) fn charge(&mut self) -> bool {
        let columns = self.columns.iter().flatten();
        let bytes: u64 = columns.map(|column| column.bytes).sum();
        let tier = self.scan.tier();
        if bytes == 0 {
            return false;
        }
        match &mut self.charge {
            Some(charge) if bytes <= charge.get() => true,
            Some(charge) => tier.grow(charge, bytes - charge.get(), Some(self.bid)),
            None => {
                let expected = self.scan.bytes(&self.row_group, &self.file);
                self.charge = tier.charge(bytes.max(expected), self.bid);
                self.charge.is_some()
            }
        }
    }

    /// Keeps the columns of which all rows came, if the file is still what it was. `reading` is how long
    /// that took.
    pub(crate) async fn keep(self, reading: Duration) {
        let Self {
            scan,
            file,
            store,
            row_group,
            bid,
            columns,
            charge,
        } = self;
        let Some(mut charge) = charge else {
            return;
        };
        let is_still = store.head(&file.meta.location).await;
        if !is_still.is_ok_and(|now| is_same(&file.meta, &now)) {
            return;
        }
        let columns = columns.into_iter().flatten();
        let columns = columns.filter(|column| column.chunk.num_rows() == row_group.num_rows);
        let chunks = columns.filter_map(|column| Some((column.key, column.chunk.finish()?)));
        let chunks: Vec<_> = chunks.collect();
        if chunks.is_empty() {
            return;
        }
        scan.cache().remember(scan.url(), Arc::clone(&file));
        let bytes: u64 = chunks.iter().map(|(_, chunk)| chunk.host_bytes()).sum();
        let seconds = reading.as_secs_f64() / bytes.max(1) as f64;
        for (key, chunk) in chunks {
            let lacking = chunk.host_bytes().saturating_sub(charge.get());
            if lacking > 0 && !scan.tier().grow(&mut charge, lacking, Some(bid)) {
                continue;
            }
            scan.tier().keep(Offer {
                key: ChunkKey {
                    source: Arc::clone(&file.source),
                    column: Arc::clone(&scan.keys()[key]),
                    part: row_group.row_group,
                },
                label: scan.label(&file, key),
                uses: bid.uses,
                seconds: seconds * chunk.host_bytes() as f64,
                chunk: chunk.finish(&mut charge),
            });
        }
    }
}
