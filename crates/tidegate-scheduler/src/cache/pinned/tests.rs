//! What saves most stays, within the limit; what is read stays until it was read.

use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef, Int64Array};
use tidegate_device::{DeviceId, SimulatedDevice};
use tidegate_kernels::{ColumnDictionary, PipelineDevice, SimulatedPipelineDevice};

use super::{GroupLabel, PinnedChunk, PinnedGroup, PinnedTier};
use crate::cache::host::HostMemory;
use crate::cache::{CachedChunk, CachedTable, ChunkKey, ColumnCache};

const ROWS: i64 = 1000;
/// Bytes of a chunk.
const CHUNK: u64 = 8 * ROWS as u64;

fn device() -> Arc<dyn PipelineDevice> {
    let device = SimulatedDevice::new(DeviceId(0), "1GB".parse().unwrap()).unwrap();
    Arc::new(SimulatedPipelineDevice::new(device))
}

fn group(what: u64) -> PinnedGroup {
    let device = DeviceId(0);
    PinnedGroup { what, device }
}

/// Describes a group of one column that was read so often.
fn label(uses: f64) -> GroupLabel {
    GroupLabel {
        name: "t".into(),
        columns: vec!["v".into()],
        dictionaries: vec![ColumnDictionary::new()],
        reads: None,
        uses,
        pace: 1e-9,
    }
}

fn key(what: u64, part: u64) -> ChunkKey {
    ChunkKey {
        source: format!("source {what}").into(),
        column: "v".into(),
        part,
    }
}

async fn stored(device: &Arc<dyn PipelineDevice>) -> CachedChunk {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let stored = device.store(vec![array], ColumnDictionary::new());
    CachedChunk {
        stored: Arc::new(stored.await.unwrap()),
        anchor: vec![],
    }
}

/// Copies a chunk that stays on its device to the tier; returns whether it found room.
async fn add(
    tier: &PinnedTier,
    device: &Arc<dyn PipelineDevice>,
    part: u64,
    label: &GroupLabel,
    chunk: &CachedChunk,
) -> bool {
    let Some(charge) = tier.charge(CHUNK, label, true) else {
        return false;
    };
    let copy = device.demote(Arc::clone(&chunk.stored)).await.unwrap();
    let chunk = PinnedChunk::new(copy, chunk, charge);
    tier.keep(group(1), label, vec![(key(1, part), chunk)]);
    true
}

/// Adds chunks that are on no device any more; returns how many found room.
async fn fill(tier: &PinnedTier, what: u64, parts: Range<u64>, label: &GroupLabel) -> u64 {
    let device = device();
    let mut num_added = 0;
    for part in parts {
        let Some(charge) = tier.charge(CHUNK, label, false) else {
            continue;
        };
        let chunk = stored(&device).await;
        let copy = device.demote(Arc::clone(&chunk.stored)).await.unwrap();
        let copy = PinnedChunk::new(copy, &chunk, charge);
        drop(chunk);
        tier.keep(group(what), label, vec![(key(what, part), copy)]);
        num_added += 1;
    }
    num_added
}

fn parts(tier: &PinnedTier, what: u64) -> usize {
    let keys = (0..64).map(|part| key(what, part));
    keys.filter(|key| tier.find(std::slice::from_ref(key)).is_some())
        .count()
}

#[tokio::test]
async fn what_saves_most_stays_within_the_limit() {
    let tier = PinnedTier::default();
    assert_eq!(
        fill(&tier, 1, 0..2, &label(2.0)).await,
        0,
        "no limit, no tier"
    );
    tier.set_limit(4 * CHUNK);
    let (rare, often) = (label(2.0), label(8.0));
    assert_eq!(fill(&tier, 1, 0..6, &rare).await, 4);
    assert_eq!(tier.used(), 4 * CHUNK);
    assert_eq!(fill(&tier, 2, 0..1, &label(2.9)).await, 0, "not much more");
    assert_eq!(fill(&tier, 2, 0..3, &often).await, 3);
    assert_eq!((parts(&tier, 1), parts(&tier, 2)), (1, 3));
    assert_eq!(tier.used(), 4 * CHUNK);
    let activity = tier.activity();
    assert_eq!((activity.demotions, activity.evictions), (7, 3));
    tier.set_limit(CHUNK);
    assert_eq!((parts(&tier, 1), parts(&tier, 2)), (0, 1));
    tier.set_limit(0);
    assert_eq!(tier.used(), 0);
    assert!(tier.is_empty());
}

#[tokio::test]
async fn copies_of_what_is_on_a_device_give_way_first() {
    let (tier, device) = (PinnedTier::default(), device());
    tier.set_limit(2 * CHUNK);
    let (resident, other) = (label(4.0), label(2.0));
    let chunk = stored(&device).await;
    assert!(add(&tier, &device, 0, &resident, &chunk).await);
    assert!(add(&tier, &device, 1, &resident, &chunk).await);
    assert_eq!(tier.activity().demotions, 0, "still there");
    // Half as often, but nothing else has it.
    assert_eq!(fill(&tier, 2, 0..1, &other).await, 1);
    assert_eq!((parts(&tier, 1), parts(&tier, 2)), (1, 1));
    assert_eq!(tier.give_back(2 * CHUNK, true), CHUNK, "copies alone");
    assert_eq!((parts(&tier, 1), parts(&tier, 2)), (0, 1));
    assert!(add(&tier, &device, 0, &resident, &chunk).await);
    // Once it has left the device it is worth as much as it was there.
    drop(chunk);
    assert_eq!(fill(&tier, 3, 0..1, &label(3.5)).await, 1);
    assert_eq!((parts(&tier, 1), parts(&tier, 2)), (1, 0));
}

#[tokio::test]
async fn what_is_read_stays_until_it_was_read() {
    let tier = PinnedTier::default();
    tier.set_limit(2 * CHUNK);
    assert_eq!(fill(&tier, 1, 0..2, &label(2.0)).await, 2);
    let reading = tier.find(&[key(1, 0)]).unwrap();
    assert_eq!((reading.num_rows(), reading.bytes()), (ROWS as u64, CHUNK));
    tier.hit(&reading);
    assert_eq!(tier.give_back(2 * CHUNK, false), CHUNK);
    assert_eq!((parts(&tier, 1), tier.used()), (1, CHUNK));
    // A file that is replaced under it goes at once, and its bytes with the reader.
    tier.forget("source 1");
    assert_eq!((parts(&tier, 1), tier.used()), (0, CHUNK));
    drop(reading);
    assert_eq!(tier.used(), 0);
    assert_eq!(tier.activity().hits, 1);
}

#[tokio::test]
async fn chunks_of_other_dictionaries_are_not_mixed() {
    let tier = PinnedTier::default();
    tier.set_limit(8 * CHUNK);
    let first = label(2.0);
    assert_eq!(fill(&tier, 1, 0..3, &first).await, 3);
    let known = tier.dictionaries(group(1)).unwrap();
    assert!(Arc::ptr_eq(&known[0], &first.dictionaries[0]));
    let second = label(2.0);
    assert_eq!(fill(&tier, 1, 3..4, &second).await, 1);
    assert_eq!((parts(&tier, 1), tier.used()), (1, CHUNK));
    let known = tier.dictionaries(group(1)).unwrap();
    assert!(Arc::ptr_eq(&known[0], &second.dictionaries[0]));
}

#[tokio::test]
async fn a_memory_table_that_is_gone_keeps_nothing() {
    let cache = Arc::new(ColumnCache::default());
    let tier = cache.pinned();
    tier.set_limit(8 * CHUNK);
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let label = GroupLabel {
        reads: Some(Arc::downgrade(&array) as Weak<dyn Array>),
        ..label(2.0)
    };
    assert_eq!(fill(tier, 1, 0..2, &label).await, 2);
    cache.note_read();
    assert_eq!(parts(tier, 1), 2);
    drop(array);
    cache.note_read();
    assert_eq!((parts(tier, 1), tier.used()), (0, 0));
}

#[tokio::test]
async fn a_table_that_is_cached_by_name_needs_no_copy() {
    let (cache, device) = (ColumnCache::default(), device());
    cache.pinned().set_limit(8 * CHUNK);
    assert_eq!(fill(cache.pinned(), 1, 0..2, &label(2.0)).await, 2);
    for num_parts in [1, 2] {
        let mut table = CachedTable::new("t", DeviceId(0), ["v".to_string()]);
        for part in 0..num_parts {
            table.insert_morsel(vec![(key(1, part), stored(&device).await)]);
        }
        cache.insert(table);
        let left = if num_parts == 2 { 0 } else { 2 };
        assert_eq!(parts(cache.pinned(), 1), left);
    }
}

#[tokio::test]
async fn a_table_that_is_spread_over_devices_needs_no_copy_once_all_of_it_is_there() {
    let (cache, device) = (ColumnCache::default(), device());
    cache.pinned().set_limit(8 * CHUNK);
    assert_eq!(fill(cache.pinned(), 1, 0..4, &label(2.0)).await, 4);
    for (id, of_device, left) in [(1, 0..1, 4), (0, 2..4, 4), (1, 0..2, 0)] {
        let mut table = CachedTable::new("t", DeviceId(id), ["v".to_string()]);
        for part in of_device {
            table.insert_morsel(vec![(key(1, part), stored(&device).await)]);
        }
        cache.insert(table);
        assert_eq!(parts(cache.pinned(), 1), left);
    }
    // Another device's table is no reason: this one may still be given what lies below it.
    assert_eq!(fill(cache.pinned(), 2, 0..1, &label(2.0)).await, 1);
    let mut table = CachedTable::new("u", DeviceId(1), ["v".to_string()]);
    table.insert_morsel(vec![(key(2, 0), stored(&device).await)]);
    cache.insert(table);
    assert_eq!(parts(cache.pinned(), 2), 1);
}

/// Statements that hold all but so many bytes.
struct Statements(u64);

impl HostMemory for Statements {
    fn left_by_statements(&self) -> u64 {
        self.0
    }
}

#[tokio::test]
async fn statements_leave_what_they_leave_to_both_tiers() {
    let cache = ColumnCache::default();
    let (host, tier) = (cache.host(), cache.pinned());
    host.set_limit(100 * CHUNK);
    tier.set_limit(100 * CHUNK);
    let statements: Arc<dyn HostMemory> = Arc::new(Statements(6 * CHUNK));
    cache.watch(&Arc::downgrade(&statements));
    let held = host.charge(2 * CHUNK, host.bid(1.0)).unwrap();
    assert_eq!(fill(tier, 1, 0..8, &label(2.0)).await, 4);
    assert!(host.charge(1, host.bid(1.0)).is_none());
    assert_eq!(cache.host_bytes(), 6 * CHUNK);
    assert_eq!(cache.give_back(3 * CHUNK), 3 * CHUNK);
    assert_eq!(tier.used(), CHUNK);
    drop(held);
    assert_eq!(cache.host_bytes(), CHUNK);
}
