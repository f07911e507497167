//! What is known of chunks, cached or not, and which of them are evicted for others.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::chunk::HostChunk;
use super::{Bid, ChunkLabel, TierActivity};
use crate::cache::ChunkKey;

/// How much more than what goes a chunk must save to come in its place.
const HYSTERESIS: f64 = 1.5;

/// Scans in which the uses of a chunk fade to a half.
const HALF_LIFE_SCANS: f64 = 64.0;

/// Uses up to which a chunk counts as read once.
pub(super) const ONCE: f64 = 1.0;

/// Seconds to read a byte again, until one was measured.
pub(super) const FIRST_PACE: f64 = 2e-9;

/// Chunks of which uses are remembered, at least.
const SLOTS_MIN: usize = 1 << 16;

/// Everything that the tier remembers.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) scans: u64,
    pub(super) activity: TierActivity,
    /// Seconds to read a byte again, as measured lately.
    pub(super) pace: Option<f64>,
    pub(super) num_slots: usize,
    /// Slots that were left when uses were last forgotten.
    pub(super) slots_left: usize,
    pub(super) sources: HashMap<Arc<str>, HashMap<Arc<str>, Column>>,
    /// The tables of `CACHE TABLE`.
    pub(super) tables: BTreeSet<String>,
}

/// What is known of one column of one source.
#[derive(Debug, Default)]
pub(super) struct Column {
    pub(super) label: Option<ChunkLabel>,
    pub(super) parts: HashMap<u64, Slot>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) uses: f64,
    pub(super) last_use: u64,
    pub(super) hits: u64,
    /// Seconds that reading it again takes.
    pub(super) seconds: f64,
    pub(super) chunk: Option<Arc<HostChunk>>,
    /// The tables of `CACHE TABLE` that keep it.
    pub(super) tables: Vec<String>,
}

/// A chunk that may go.
pub(super) struct Victim {
    pub(super) key: ChunkKey,
    pub(super) bytes: u64,
    pub(super) value: f64,
}

impl State {
    pub(super) fn slot(&mut self, source: &Arc<str>, column: &Arc<str>, part: u64) -> &mut Slot {
        let columns = self.sources.entry(Arc::clone(source)).or_default();
        let column = columns.entry(Arc::clone(column)).or_default();
        column.parts.entry(part).or_insert_with(|| {
            self.num_slots += 1;
            Slot {
                uses: 0.0,
                last_use: 0,
                hits: 0,
                seconds: 0.0,
                chunk: None,
                tables: Vec::new(),
            }
        })
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let columns = self.sources.values().flat_map(HashMap::values);
        columns.flat_map(|column| column.parts.values())
    }

    pub(super) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        let columns = self.sources.values_mut().flat_map(HashMap::values_mut);
        columns.flat_map(|column| column.parts.values_mut())
    }

    /// Lists the chunks that may go for a bid; for anything, without one.
    pub(super) fn candidates(&self, bid: Option<Bid>) -> Vec<Victim> {
        let mut candidates = Vec::new();
        for (source, columns) in &self.sources {
            for (name, column) in columns {
                for (part, slot) in &column.parts {
                    let Some(chunk) = slot.chunk.as_ref().filter(|chunk| slot.is_idle(chunk))
                    else {
                        continue;
                    };
                    let value = slot.value(chunk, self.scans);
                    let gives_way = bid.is_none_or(|bid| {
                        let is_hot = slot.recent_uses(self.scans) > ONCE && bid.uses <= ONCE;
                        !is_hot && bid.uses * bid.pace > HYSTERESIS * value
                    });
                    if gives_way {
                        candidates.push(Victim {
                            key: ChunkKey {
                                source: Arc::clone(source),
                                column: Arc::clone(name),
                                part: *part,
                            },
                            bytes: chunk.host_bytes(),
                            value,
                        });
                    }
                }
            }
        }
        candidates
    }

    /// Returns chunks that give way to a bid and take at least `need` bytes.
    pub(super) fn victims(&self, bid: Option<Bid>, need: u64) -> Option<Vec<Victim>> {
        let mut candidates = self.candidates(bid);
        candidates.sort_by(|left, right| left.value.total_cmp(&right.value));
        let mut freed = 0;
        let mut victims = Vec::new();
        for victim in candidates {
            if freed >= need {
                break;
            }
            freed += victim.bytes;
            victims.push(victim);
        }
        (freed >= need).then_some(victims)
    }

    /// Drops a chunk.
    pub(super) fn evict(&mut self, key: &ChunkKey) {
        let columns = self.sources.get_mut(&key.source);
        let column = columns.and_then(|columns| columns.get_mut(&key.column));
        let slot = column.and_then(|column| column.parts.get_mut(&key.part));
        if slot.and_then(|slot| slot.chunk.take()).is_some() {
            self.activity.evictions += 1;
        }
    }

    /// Forgets the uses of what is not here, once there are too many to remember.
    pub(super) fn forget_some(&mut self) {
        if self.num_slots < SLOTS_MIN.max(2 * self.slots_left) {
            return;
        }
        let mut num_slots = 0;
        for columns in self.sources.values_mut() {
            columns.retain(|_, column| {
                column.parts.retain(|_, slot| slot.chunk.is_some());
                num_slots += column.parts.len();
                !column.parts.is_empty()
            });
        }
        self.sources.retain(|_, columns| !columns.is_empty());
        self.num_slots = num_slots;
        self.slots_left = num_slots;
    }
}

impl Slot {
    /// Counts a use, once for each scan.
    pub(super) fn touch(&mut self, scan: u64) {
        if self.last_use != scan {
            self.uses = self.recent_uses(scan) + 1.0;
            self.last_use = scan;
        }
    }

    /// Returns how often it was used, each use worth less the longer ago.
    pub(super) fn recent_uses(&self, now: u64) -> f64 {
        let since = now.saturating_sub(self.last_use) as f64;
        self.uses * (-since / HALF_LIFE_SCANS).exp2()
    }

    /// Returns whether no query reads its chunk and no table of `CACHE TABLE` keeps it.
    fn is_idle(&self, chunk: &Arc<HostChunk>) -> bool {
        self.tables.is_empty() && Arc::strong_count(chunk) == 1
    }

    /// Returns the seconds that a byte of its chunk saves.
    fn value(&self, chunk: &HostChunk, now: u64) -> f64 {
        self.recent_uses(now) * self.seconds / chunk.host_bytes().max(64) as f64
    }
}
