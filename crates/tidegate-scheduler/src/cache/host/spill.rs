//! What goes to disk in place of memory, and how it comes back.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::chunk::{ChunkBuilder, HostChunk};
use super::disk::{DiskChunk, DiskReport};
use super::slots::{ONCE, State};
use super::{Bid, HostBytes, HostTier, Offer};
use crate::cache::ChunkKey;

/// Bytes that wait to be written to disk, at the least and at the most.
const SPILLING_BYTES: (u64, u64) = (1 << 20, 64 << 20);

/// The share of the tier that waits to be written to disk, within those bounds.
const SPILLING_SHARE: u64 = 4;

/// A chunk that a scan found.
#[derive(Clone, Debug)]
pub enum Held {
    /// In memory.
    Memory(Arc<HostChunk>),
    /// In a file; [`HostTier::fetch`] reads it.
    Disk(ChunkKey, Arc<DiskChunk>),
}

impl HostTier {
    /// Lets chunks take so many bytes of a folder from now on; with 0 there are none on disk.
    ///
    /// # Errors
    /// What the system says if nothing can be written there.
    pub fn set_disk(&self, folder: &Path, limit: u64) -> io::Result<()> {
        self.disk.set(folder, limit)
    }

    /// Returns the most bytes that files may take.
    pub fn disk_limit(&self) -> u64 {
        self.disk.limit()
    }

    /// Returns the bytes that files take.
    pub fn disk_used(&self) -> u64 {
        self.disk.used()
    }

    /// Returns the bytes of memory that wait to be written to files.
    pub fn spilling_bytes(&self) -> u64 {
        self.spilling.used()
    }

    /// Reports every column of which a chunk lies on disk, sorted by table and column.
    pub fn disk_reports(&self) -> Vec<DiskReport> {
        self.disk.reports()
    }

    /// Returns whether so many bytes that find no room in memory would go to disk.
    pub fn would_spill(&self, bytes: u64, bid: Bid) -> bool {
        bid.uses > ONCE && self.may_spill(bytes) && self.disk.would_take(bytes, bid.uses)
    }

    /// Takes bytes for chunks in the making that go to disk; `None` if too much waits there already.
    pub fn charge_to_spill(&self, bytes: u64) -> Option<HostBytes> {
        self.may_spill(bytes).then(|| self.spilling.take(bytes))
    }

    /// Has a chunk written whose bytes were taken for that.
    pub fn spill(&self, offer: Offer) {
        self.disk.offer(offer);
    }

    /// Reads a chunk for a scan; keeps it in memory too if there is room. Blocks.
    ///
    /// # Errors
    /// What the system says, or that the file is not what was written. The chunk is forgotten then:
    /// it must be read from its source.
    pub fn fetch(&self, key: &ChunkKey, held: &DiskChunk) -> io::Result<Arc<HostChunk>> {
        let segments = match held.read() {
            Ok(segments) => segments,
            Err(error) => {
                self.disk.forget(|other| other == key);
                return Err(error);
            }
        };
        let builder = ChunkBuilder::restored(segments, held.plain_bytes());
        let mut state = self.state.lock();
        let bytes = builder.host_bytes();
        let has_room = self.lacking(bytes) == 0;
        // A scan needs it in any case, as it would need what it read.
        let mut charge = self.account.take(bytes);
        let chunk = Arc::new(builder.finish(&mut charge));
        let slot = state.slot(&key.source, &key.column, key.part);
        if has_room && slot.chunk.is_none() {
            slot.chunk = Some(Arc::clone(&chunk));
        }
        Ok(chunk)
    }

    /// Finds what is in memory or on disk of one row group's columns, if that is all of them; counts
    /// it.
    pub(super) fn held(
        &self,
        state: &mut State,
        source: &Arc<str>,
        columns: &[Arc<str>],
        part: u64,
        found: &[Option<Arc<HostChunk>>],
    ) -> Option<Vec<Held>> {
        if columns.is_empty() || self.disk.limit() == 0 {
            return None;
        }
        let held = columns.iter().zip(found).map(|(column, chunk)| {
            if let Some(chunk) = chunk {
                return Some(Held::Memory(Arc::clone(chunk)));
            }
            let key = ChunkKey {
                source: Arc::clone(source),
                column: Arc::clone(column),
                part,
            };
            let on_disk = self.disk.get(&key)?;
            Some(Held::Disk(key, on_disk))
        });
        let held: Vec<Held> = held.collect::<Option<_>>()?;
        let now = state.scans;
        for each in &held {
            match each {
                Held::Memory(_) => state.activity.hits += 1,
                Held::Disk(key, _) => {
                    state.activity.disk_hits += 1;
                    let slot = state.slot(&key.source, &key.column, key.part);
                    self.disk.hit(key, slot.recent_uses(now));
                }
            }
        }
        Some(held)
    }

    /// Has written what gave way in memory, if it was read more than once and not too much waits.
    pub(super) fn spill_evicted(&self, mut offer: Offer) {
        let bytes = offer.chunk.host_bytes();
        if offer.uses > ONCE && self.may_spill(bytes) && self.disk.would_take(bytes, offer.uses) {
            offer.chunk.charge_to(&self.spilling);
            self.disk.offer(offer);
        }
    }

    fn may_spill(&self, bytes: u64) -> bool {
        let (least, most) = SPILLING_BYTES;
        let allowed = (self.limit() / SPILLING_SHARE).clamp(least, most);
        self.disk.limit() > 0 && self.spilling.used() + bytes <= allowed
    }
}
