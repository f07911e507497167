//! What is read often comes; what saves least goes; what was asked for stays.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use tidegate_device::{DeviceId, SimulatedDevice};
use tidegate_kernels::{ColumnDictionary, PipelineDevice, SimulatedPipelineDevice};

use super::RETRY_READS;
use crate::cache::{CachedChunk, CachedTable, ChunkKey, ColumnCache, Kept, ScanKey, ScanRows};
use crate::ladder::Evict;

const DEVICE: DeviceId = DeviceId(0);
const ROWS: i64 = 1000;

fn device() -> Arc<dyn PipelineDevice> {
    let device = SimulatedDevice::new(DEVICE, "1GB".parse().unwrap()).unwrap();
    Arc::new(SimulatedPipelineDevice::new(device))
}

/// Makes a table of one column and so many morsels.
async fn table(device: &Arc<dyn PipelineDevice>, name: &str, morsels: u64) -> CachedTable {
    let mut table = CachedTable::new(name, DEVICE, ["v".to_string()]);
    for part in 0..morsels {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
        let dictionary = Arc::clone(table.dictionary(0));
        let stored = device.store(vec![array], dictionary).await.unwrap();
        let key = ChunkKey {
            source: name.into(),
            column: "v".into(),
            part,
        };
        let chunk = CachedChunk {
            stored: Arc::new(stored),
            anchor: vec![],
        };
        table.insert_morsel(vec![(key, chunk)]);
    }
    table
}

/// Has something read until it may come, and keeps a table for it that took so many seconds.
async fn promote(
    cache: &Arc<ColumnCache>,
    device: &Arc<dyn PipelineDevice>,
    what: u64,
    morsels: u64,
    seconds: f64,
) {
    assert!(cache.wants(what).is_none());
    let promotion = cache.wants(what).unwrap();
    let mut table = table(device, &format!("t{what}"), morsels).await;
    table.keep(Kept::Automatic { what, seconds });
    promotion.keep(vec![table]);
}

fn names(cache: &ColumnCache) -> Vec<String> {
    let tables = cache.on_device(DEVICE);
    let mut names: Vec<String> = tables.iter().map(|table| table.name().into()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_was_read_twice_comes_one_thing_at_a_time() {
    let cache = Arc::new(ColumnCache::default());
    assert!(cache.wants(1).is_none(), "read once");
    let promotion = cache.wants(1).unwrap();
    assert!(cache.wants(2).is_none());
    assert!(cache.wants(2).is_none(), "another is on its way");
    promotion.give_up();
    assert!(cache.wants(1).is_none(), "not at once again");
    drop(cache.wants(2).unwrap());
    for _ in 0..RETRY_READS {
        drop(cache.wants(3));
    }
    assert!(cache.wants(1).is_some());
    // Reads fade: what was read now and then does not come.
    for _ in 0..4 {
        assert!(cache.wants(4).is_none());
        for other in 0..128 {
            drop(cache.wants(100 + other));
        }
    }
}

#[tokio::test]
async fn what_saves_least_goes_first_and_no_more_than_must() {
    let (cache, device) = (Arc::new(ColumnCache::default()), device());
    let kept = table(&device, "kept", 10).await;
    let each = kept.device_bytes() / 10;
    cache.insert(kept);
    promote(&cache, &device, 1, 10, 1.0).await;
    promote(&cache, &device, 2, 10, 0.1).await;
    assert_eq!(names(&cache), ["kept", "t1", "t2"]);
    let before = device.budget().used();
    assert_eq!(cache.evict(DEVICE, 3 * each), 3 * each);
    assert_eq!(device.budget().used(), before - 3 * each);
    let of = |name: &str| {
        let tables = cache.on_device(DEVICE);
        let found = tables.into_iter().find(|table| table.name() == name);
        found.map_or(0, |table| table.device_bytes() / each)
    };
    assert_eq!((of("kept"), of("t1"), of("t2")), (10, 10, 7));
    // What is left of one is worth as much for each byte as before.
    assert_eq!(cache.evict(DEVICE, 9 * each), 9 * each);
    assert_eq!((of("kept"), of("t1"), of("t2")), (10, 8, 0));
    // A table that was asked for stays, however much is wanted.
    assert_eq!(cache.evict(DEVICE, u64::MAX), 8 * each);
    assert_eq!(names(&cache), ["kept"]);
    assert_eq!(device.budget().used(), 10 * each);
    assert_eq!(cache.evict(DEVICE, 1), 0);
    assert!(cache.evict(DeviceId(1), 1) == 0 && cache.keeps_on(DEVICE));
}

#[tokio::test]
async fn a_table_that_is_completed_counts_on() {
    let (cache, device) = (Arc::new(ColumnCache::default()), device());
    let (what, seconds) = (1, 1.0);
    promote(&cache, &device, what, 2, seconds).await;
    let first = cache.automatic(what, DEVICE).unwrap();
    first.hit(0, 2);
    // While the rest of it comes it is used for what it has.
    cache.wants(what);
    let promotion = cache.wants(what).unwrap();
    first.hit(0, 2);
    let uses = promotion.uses();
    let mut complete = table(&device, "t1", 4).await;
    complete.keep(Kept::Automatic { what, seconds });
    promotion.keep(vec![complete]);
    let hits = || cache.reports()[0].hits;
    assert_eq!((hits(), cache.device_hits()), (4, 4));
    // What was used before the reads that brought it is in them.
    assert!((cache.uses_of(what, DEVICE) - uses).abs() < 1e-9);
    // A query that began before may still fold chunks of the one that went.
    first.hit(0, 1);
    cache.automatic(what, DEVICE).unwrap().hit(0, 3);
    assert_eq!((hits(), cache.device_hits()), (8, 8));
    cache.note_read();
    let more = cache.uses_of(what, DEVICE) - uses;
    assert!((0.9..1.01).contains(&more), "{more}");
    // One that goes without another in its place counts too.
    assert!(cache.evict(DEVICE, u64::MAX) > 0);
    assert_eq!(cache.device_hits(), 8);
}

#[tokio::test]
async fn what_a_query_reads_goes_when_it_has_read_it() {
    let (cache, device) = (Arc::new(ColumnCache::default()), device());
    promote(&cache, &device, 1, 4, 1.0).await;
    let reader = cache.on_device(DEVICE);
    assert_eq!(cache.evict(DEVICE, u64::MAX), 0, "nothing at once");
    assert!(
        cache.on_device(DEVICE).is_empty(),
        "nobody finds it any more"
    );
    assert!(device.budget().used() > 0);
    drop(reader);
    assert_eq!(device.budget().used(), 0);
}

#[tokio::test]
async fn only_what_saves_much_more_takes_the_place_of_another() {
    let (cache, device) = (Arc::new(ColumnCache::default()), device());
    promote(&cache, &device, 1, 10, 1.0).await;
    let bytes = cache.on_device(DEVICE)[0].device_bytes();
    cache.wants(2);
    let promotion = cache.wants(2).unwrap();
    assert_eq!(promotion.displace(DEVICE, 1, 1.2, bytes), 0);
    assert_eq!(promotion.displace(DEVICE, 1, 2.0, bytes), bytes / 10);
    assert!(promotion.may_go_on());
    cache.evict(DEVICE, u64::MAX);
    assert!(!promotion.may_go_on(), "a query lacks memory");
}

#[tokio::test]
async fn hits_keep_a_table_and_a_larger_one_takes_it_in() {
    let (cache, device) = (Arc::new(ColumnCache::default()), device());
    promote(&cache, &device, 1, 10, 1.0).await;
    promote(&cache, &device, 2, 10, 1.0).await;
    // All of the second is read five times more.
    let tables = cache.on_device(DEVICE);
    let second = tables.iter().find(|table| table.name() == "t2").unwrap();
    second.hit(0, 50);
    drop(tables);
    cache.note_read();
    let bytes = cache.on_device(DEVICE)[0].device_bytes();
    assert_eq!(cache.evict(DEVICE, bytes), bytes);
    assert_eq!(names(&cache), ["t2"]);
    // A table of CACHE TABLE with the same chunks makes it needless.
    let mut kept = CachedTable::new("kept", DEVICE, ["v".to_string()]);
    let automatic = &cache.on_device(DEVICE)[0];
    for part in 0..10 {
        let key = ChunkKey {
            source: "t2".into(),
            column: "v".into(),
            part,
        };
        let (_, chunk) = automatic.get(&key).unwrap();
        kept.insert_morsel(vec![(key.clone(), chunk.clone())]);
    }
    cache.insert(kept);
    assert_eq!(names(&cache), ["kept"]);
    assert_eq!(cache.names(), ["kept"]);
    assert!(cache.remove("t2").is_empty());
}

#[tokio::test]
async fn rows_that_nobody_else_has_are_let_go_of() {
    let (cache, device) = (Arc::new(ColumnCache::default()), device());
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let memory = RecordBatch::try_from_iter([("v", array)]).unwrap();
    cache.wants(1);
    let promotion = cache.wants(1).unwrap();
    let mut table = table(&device, "a memory table", 1).await;
    table.keep(Kept::Automatic {
        what: 1,
        seconds: 1.0,
    });
    let rows = ScanRows::Batches(vec![memory.clone()].into());
    table.holds_all_of(ScanKey::new(rows, vec![0]));
    promotion.keep(vec![table]);
    cache.note_read();
    assert_eq!(cache.on_device(DEVICE).len(), 1);
    drop(memory);
    cache.note_read();
    assert!(cache.on_device(DEVICE).is_empty());
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn dictionaries_are_a_columns_own_until_one_is_adopted() {
    let columns = ["a".to_string(), "b".to_string()];
    let mut table = CachedTable::new("t", DEVICE, columns);
    assert!(!Arc::ptr_eq(table.dictionary(0), table.dictionary(1)));
    let other = ColumnDictionary::new();
    table.adopt(1, Arc::clone(&other));
    assert!(Arc::ptr_eq(table.dictionary(1), &other));
}
