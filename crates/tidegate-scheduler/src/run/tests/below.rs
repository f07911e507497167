//! A scan of which a device holds a part while the rest lies below it in pinned memory.

use std::sync::Arc;

use tidegate_kernels::ColumnDictionary;

use super::{ALL, Bench, DEVICE, MORSELS, Numbers, key, total};
use crate::cache::pinned::{GroupLabel, PinnedChunk, PinnedGroup};
use crate::cache::{CachedChunk, ChunkKey};
use crate::run::MixedRun;

const FAST: &str = "1GB,launch=1ns,rows=1e12/s,copy=1e15B/s";

impl Bench {
    /// Puts these morsels into pinned memory.
    async fn with_below(self, morsels: impl IntoIterator<Item = usize>) -> Self {
        let pinned = self.spec.cache.pinned();
        pinned.set_limit(1 << 20);
        let group = PinnedGroup {
            what: 1,
            device: DEVICE,
        };
        let label = GroupLabel {
            name: "t".into(),
            columns: vec!["v".into()],
            dictionaries: vec![ColumnDictionary::new()],
            reads: None,
            uses: 1.0,
            pace: 1e-9,
        };
        for index in morsels {
            let arrays = vec![Numbers::column(index)];
            let stored = self.device.store(arrays, ColumnDictionary::new());
            let chunk = CachedChunk {
                stored: Arc::new(stored.await.unwrap()),
                holds_special: false,
                anchor: vec![],
            };
            let charge = pinned.charge(chunk.stored.device_bytes(), &label, false);
            let copy = self.device.demote(Arc::clone(&chunk.stored)).await.unwrap();
            let chunk = PinnedChunk::new(copy, &chunk, charge.unwrap());
            let named: Vec<(ChunkKey, PinnedChunk)> = vec![(key(index), chunk)];
            pinned.keep(group, &label, named);
        }
        self
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_is_at_hand_as_a_whole_is_kept_from_the_host() {
    for held in [0, 1, 5, MORSELS - 1] {
        let bench = Bench::new(FAST, 0..held).await.free_to_choose();
        let bench = bench.with_below(held..MORSELS).await;
        let run = MixedRun::new(bench.spec.clone());
        run.weigh_residency().await.unwrap();
        assert!(bench.spec.queue.is_for_devices(), "{held} held");
        let tail = run.enter().leave().await.unwrap().unwrap();
        assert!(tail.rest.is_empty());
        assert_eq!((total(&tail), bench.loads()), (ALL, 0), "{held} held");
        assert_eq!(bench.device_report().0, MORSELS as u64);
        assert_eq!(
            bench.spec.cache.pinned().activity().hits,
            (MORSELS - held) as u64
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_shared_where_something_must_be_read_or_moving_takes_long() {
    let one_missing = Bench::new(FAST, 0..5).await.free_to_choose();
    let one_missing = one_missing.with_below(6..MORSELS).await;
    // What a copy takes is measured, not only declared.
    let slow_link = Bench::new(FAST, 0..5).await.free_to_choose();
    let slow_link = slow_link.with_below(5..MORSELS).await;
    let rates = slow_link.spec.dispatch.rates();
    rates.learn_pinned(slow_link.device.info(), 80, 100.0);
    for bench in [one_missing, slow_link] {
        let run = MixedRun::new(bench.spec.clone());
        run.weigh_residency().await.unwrap();
        assert!(!bench.spec.queue.is_for_devices());
    }
}
