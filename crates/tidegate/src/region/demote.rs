//! Copies of automatic tables on their way to pinned memory, in the background.
//!
//! They are made while the chunks are still on their device, so that whoever needs the room there has it
//! at once. The last morsels come first: they are the first to go.

use std::sync::Arc;
use std::time::Instant;

use tidegate_kernels::PipelineDevice;
use tidegate_scheduler::{
    CachedChunk, ChunkKey, ColumnCache, GroupLabel, PinnedChunk, PinnedGroup,
};

/// For how long it rests after a copy, in times that the copy took: pinning keeps the device's thread from
/// launching kernels.
const REST: u32 = 4;

/// Copies the automatic table of this name on a device to pinned memory, morsel by morsel, as long as it
/// is there and saves more than what is in the way.
pub(crate) async fn copy_down(
    cache: &Arc<ColumnCache>,
    device: &Arc<dyn PipelineDevice>,
    what: u64,
) {
    let group = PinnedGroup {
        what,
        device: device.info().id,
    };
    let Some(table) = cache.automatic(what, group.device) else {
        return;
    };
    let num_morsels = table.num_morsels();
    let label = GroupLabel::of(&table, cache.uses_of(what, group.device));
    // What goes meanwhile is not held up.
    let table = {
        let weak = Arc::downgrade(&table);
        drop(table);
        weak
    };
    let keys_of = |number| Some(table.upgrade()?.keys_of(number)?.to_vec());
    let chunk_of = |key: &ChunkKey| Some(table.upgrade()?.get(key)?.1.clone());
    for number in (0..num_morsels).rev() {
        let Some(keys) = keys_of(number) else {
            return;
        };
        if cache.pinned().find_in(group, &keys).is_some() {
            continue;
        }
        let mut copied = Vec::with_capacity(keys.len());
        // One after the other: pinning takes the device's thread, and queries want it too.
        for key in keys {
            let began = Instant::now();
            let Some(chunk) = chunk_of(&key) else {
                return;
            };
            let Some(copy) = copy(cache, device, &label, chunk).await else {
                return;
            };
            copied.push((key, copy));
            tokio::time::sleep(REST * began.elapsed()).await;
        }
        cache.pinned().keep(group, &label, copied);
    }
}

/// Copies one chunk, which is held no longer than that; `None` if there is no room for it, or it cannot be
/// copied.
async fn copy(
    cache: &ColumnCache,
    device: &Arc<dyn PipelineDevice>,
    label: &GroupLabel,
    chunk: CachedChunk,
) -> Option<PinnedChunk> {
    let bytes = chunk.stored.device_bytes();
    let charge = cache.pinned().charge(bytes, label, true)?;
    let copy = device.demote(Arc::clone(&chunk.stored)).await.ok()?;
    Some(PinnedChunk::new(copy, &chunk, charge))
}
