//! A scan of which a device holds a part while the rest lies below it in pinned memory.

use std::sync::Arc;

use tidegate_kernels::{ColumnDictionary, PipelineDevice};

use super::{ALL, Bench, MORSELS, Numbers, key, total};
use crate::cache::pinned::{GroupLabel, PinnedChunk, PinnedGroup};
use crate::cache::{CachedChunk, ChunkKey};
use crate::rates::ShapeKey;
use crate::run::{MixedRun, RunSpec};

const FAST: &str = "1GB,launch=1ns,rows=1e12/s,copy=1e15B/s";

impl Bench {
    /// Puts these morsels into pinned memory.
    async fn with_below(self, morsels: impl IntoIterator<Item = usize>) -> Self {
        self.spec.keep_below(self.device(), morsels).await;
        self
    }
}

impl RunSpec {
    /// Puts these morsels into pinned memory, as this device encodes them.
    pub(super) async fn keep_below(
        &self,
        device: &Arc<dyn PipelineDevice>,
        morsels: impl IntoIterator<Item = usize>,
    ) {
        let pinned = self.cache.pinned();
        pinned.set_limit(1 << 20);
        let group = PinnedGroup {
            what: 1,
            device: device.info().id,
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
            let stored = device.store(arrays, ColumnDictionary::new());
            let chunk = CachedChunk {
                stored: Arc::new(stored.await.unwrap()),
                anchor: vec![],
            };
            let charge = pinned.charge(chunk.stored.device_bytes(), &label, false);
            let copy = device.demote(Arc::clone(&chunk.stored)).await.unwrap();
            let chunk = PinnedChunk::new(copy, &chunk, charge.unwrap());
            let named: Vec<(ChunkKey, PinnedChunk)> = vec![(key(index), chunk)];
            pinned.keep(group, &label, named);
        }
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
    rates.learn_pinned(slow_link.device().info(), 80, 100.0);
    for bench in [one_missing, slow_link] {
        let run = MixedRun::new(bench.spec.clone());
        run.weigh_residency().await.unwrap();
        assert!(!bench.spec.queue.is_for_devices());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_moving_takes_is_learned_without_waiting_for_the_device() {
    // A fold takes ten times as long as the copy before it, and the next copy waits for that.
    let bench = Bench::new("1GB,launch=1ns,rows=1000/s,copy=80000B/s", []).await;
    let bench = bench.with_below(0..MORSELS).await;
    let tail = bench.run().await;
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));
    let (rates, shape) = (
        bench.spec.dispatch.rates(),
        ShapeKey::of(&bench.spec.pipeline),
    );
    let learned = rates.device(shape, bench.device().info());
    let per_byte = learned.pinned_seconds_per_byte;
    assert!((per_byte * 80_000.0 - 1.0).abs() < 1e-3, "{per_byte}");
}
