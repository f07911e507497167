//! What regions read often comes to the devices to stay, in the background.
//!
//! A region that has ended says what it read. The column cache counts, and says when it is worth
//! bringing there; then a task of its own reads the same morsels through the same loader, behind the
//! host tier, and has the devices that gain by it keep their columns. It uses a quarter of the host's
//! cores at the most, leaves a part of each device's memory free, takes the place of what saves much less, and gives
//! up as soon as a query lacks memory. Nobody waits for it.
//!
//! What finds no room on its device lies below it in pinned memory, and so does a copy of what does, as
//! far as there is room there ([`demote`](super::demote)). What lies there is not read again: it is moved
//! up as it is, if there is room by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_kernels::{PipelineDevice, RunError};
use tidegate_scheduler::{
    CachedChunk, CachedTable, ChunkKey, GroupLabel, Kept, LoadError, MorselId, PinnedChunk,
    PinnedGroup, PinnedMorsel, Promotion, ResidentScan, RunSpec, ScanKey,
};
use tokio::runtime::Handle;

use super::demote::copy_down;
use super::spread::{Dealer, say_what_is_held};
use crate::leaf::Leaf;

/// Scans of fewer rows are not worth a place on a device.
const ROWS_MIN: u64 = 1 << 16;

/// The part of a device's memory that stays free for queries.
const FREE_SHARE: f64 = 0.2;

/// Says that a region has read all of its leaf.
pub(crate) fn was_read(spec: &RunSpec, leaf: &Arc<dyn Leaf>) {
    let (num_rows, resident) = spec.counters.rows_read();
    if resident {
        return spec.cache.note_read();
    }
    let reads_columns = !spec.pipeline.input.fields().is_empty() && spec.pipeline.aggregates();
    if num_rows < ROWS_MIN || !reads_columns || !leaf.rereads() || !spec.loader.names_chunks() {
        return;
    }
    let gains =
        |device: &&Arc<dyn PipelineDevice>| !device.is_lost() && spec.gains_on(device, num_rows);
    let devices: Vec<_> = spec.devices.iter().filter(gains).cloned().collect();
    let Some((what, name)) = leaf.what() else {
        return;
    };
    if devices.is_empty() {
        return;
    }
    let Some(promotion) = spec.cache.wants(what) else {
        return;
    };
    let Ok(handle) = Handle::try_current() else {
        return;
    };
    let filling = Filling {
        devices,
        spec: spec.clone(),
        promotion: Arc::new(promotion),
        num_pieces: leaf.pieces().len(),
        name,
    };
    handle.spawn(filling.run());
}

/// Has the region's kernels compiled for what a device now holds of it as a whole, before a query asks.
async fn compile(spec: &RunSpec, device: &Arc<dyn PipelineDevice>) {
    let reads_all_of = |scan: &ScanKey| spec.loader.reads_all_of(scan);
    let id = device.info().id;
    if let Some(scan) = ResidentScan::find(&spec.cache, id, &spec.pipeline, &reads_all_of) {
        scan.compile(&spec.dispatch, &spec.pipeline, device).await;
    }
}

/// What is on its way to devices.
struct Filling {
    /// At least one.
    devices: Vec<Arc<dyn PipelineDevice>>,
    spec: RunSpec,
    promotion: Arc<Promotion>,
    num_pieces: usize,
    name: String,
}

/// Why it does not get there; the next try may.
#[derive(Debug)]
struct Stopped;

impl From<LoadError> for Stopped {
    fn from(_: LoadError) -> Self {
        Self
    }
}

/// A morsel with its rows, as far as they are known, and the names of its columns.
struct Named {
    morsel: MorselId,
    num_rows: u64,
    keys: Vec<ChunkKey>,
}

/// The table on the device whose chunks a column shares, and the column's number there.
type Shared = Option<(Arc<CachedTable>, usize)>;

/// A device on its way to have a part of a table.
struct Target<'a> {
    device: &'a Arc<dyn PipelineDevice>,
    table: CachedTable,
    /// What it need not be given, by column.
    shared: Vec<Shared>,
    /// What it has of the same already.
    own: Option<Arc<CachedTable>>,
    /// What lies below it of the same.
    group: PinnedGroup,
    /// Something came to it, or lies below it that did not.
    has_more: AtomicBool,
    /// A morsel found no room.
    lacks_some: AtomicBool,
}

impl Target<'_> {
    /// Returns the chunks of a morsel if the device has all of them already.
    fn own_chunks(&self, keys: &[ChunkKey]) -> Option<Vec<(ChunkKey, CachedChunk)>> {
        let own = self.own.as_ref()?;
        let chunk = |key: &ChunkKey| Some((key.clone(), own.get(key)?.1.clone()));
        keys.iter().map(chunk).collect()
    }

    /// Returns whether codes in a morsel from below are those of the table; values may come from wherever
    /// they were encoded.
    fn may_take(&self, below: &PinnedMorsel) -> bool {
        let mut chunks = below.chunks.iter().enumerate();
        chunks.all(|(column, chunk)| {
            let dictionary = chunk.column().dictionary();
            dictionary.is_none_or(|theirs| Arc::ptr_eq(theirs, self.table.dictionary(column)))
        })
    }

    /// Returns the seconds that reading and encoding a byte took of what it has already.
    fn own_pace(&self) -> f64 {
        let Some(own) = &self.own else {
            return 0.0;
        };
        GroupLabel::of(own, 0.0).pace
    }
}

/// A morsel's chunks, none if they lie below the device, and what reading and storing them took.
struct Stored {
    /// The number of the device that has them.
    target: usize,
    chunks: Vec<(ChunkKey, CachedChunk)>,
    seconds: f64,
}

impl Filling {
    async fn run(self) {
        let cache = Arc::clone(&self.spec.cache);
        self.bring().await;
        // What was dropped meanwhile was held for this.
        cache.let_go_of_orphans();
    }

    async fn bring(self) {
        let filled = self.fill().await;
        let Ok(promotion) = Arc::try_unwrap(self.promotion) else {
            return;
        };
        let what = promotion.what();
        match filled {
            Ok(tables) => promotion.keep(tables),
            Err(Stopped) => return promotion.give_up(),
        }
        for device in self.devices.iter().filter(|device| device.compiles()) {
            compile(&self.spec, device).await;
        }
        let cache = Arc::clone(&self.spec.cache);
        // The rows are not needed any more, and may be dropped.
        drop(self.spec);
        for device in &self.devices {
            copy_down(&cache, device, what).await;
        }
    }

    async fn fill(&self) -> Result<Vec<CachedTable>, Stopped> {
        let morsels = self.named().await?;
        let target = |device| self.target(device, &morsels);
        let targets: Vec<Target<'_>> = self.devices.iter().map(target).collect();
        // A device that has all of a column already need not share it.
        let has_some = |target: &Target<'_>| target.shared.iter().any(Option::is_some);
        let only = targets.iter().position(has_some);
        let mut dealer = Dealer::new(&self.devices);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let targets_ref = &targets;
        let stored = stream::iter(morsels)
            .map(|named| {
                let has = |target: &Target<'_>| target.own_chunks(&named.keys).is_some();
                let number = targets_ref.iter().position(has).or(only);
                let number = number.unwrap_or_else(|| dealer.deal(named.num_rows));
                self.store(named, number, &targets_ref[number])
            })
            .buffer_unordered((cores / 4).max(1));
        let stored: Vec<Stored> = stored.try_collect().await?;
        let mut all = targets.iter();
        if !all.any(|target| target.has_more.load(Ordering::Relaxed)) {
            return Err(Stopped);
        }
        let mut all = targets.iter();
        let lacks_some = all.any(|target| target.lacks_some.load(Ordering::Relaxed));
        let tables = targets.into_iter().map(|target| target.table);
        let mut tables: Vec<CachedTable> = tables.collect();
        let mut took = vec![0.0; tables.len()];
        for stored in stored {
            if !stored.chunks.is_empty() {
                took[stored.target] += stored.seconds;
                tables[stored.target].insert_morsel(stored.chunks);
            }
        }
        for (table, seconds) in tables.iter_mut().zip(took) {
            table.keep(Kept::Automatic {
                what: self.promotion.what(),
                seconds,
            });
        }
        tables.retain(|table| table.device_bytes() > 0);
        match self.spec.loader.scan_key() {
            Some(scan) if lacks_some => {
                tables
                    .iter_mut()
                    .for_each(|table| table.holds_some_of(&scan));
            }
            _ => say_what_is_held(&self.spec.loader, &mut tables),
        }
        Ok(tables)
    }

    /// Makes an empty table on a device, with the dictionaries of what is there or below it.
    fn target<'a>(&self, device: &'a Arc<dyn PipelineDevice>, morsels: &[Named]) -> Target<'a> {
        let fields = self.spec.pipeline.input.fields();
        let columns = fields.iter().map(|field| field.name().clone());
        let (cache, id) = (&self.spec.cache, device.info().id);
        let mut table = CachedTable::new(&self.name, id, columns);
        let group = PinnedGroup {
            what: self.promotion.what(),
            device: id,
        };
        let own = cache.automatic(group.what, id);
        let pinned = cache.pinned().dictionaries(group);
        let of_own = own.as_ref().map(|own| {
            let numbers = 0..fields.len();
            numbers.map(|column| Arc::clone(own.dictionary(column)))
        });
        let known = of_own.map(Iterator::collect).or(pinned);
        let known: Option<Vec<_>> = known.filter(|known: &Vec<_>| known.len() == fields.len());
        for (column, dictionary) in known.iter().flatten().enumerate() {
            table.adopt(column, Arc::clone(dictionary));
        }
        let shared = fields.iter().enumerate().map(|(column, field)| {
            let (of, number) = self.shared(device, morsels, column)?;
            let theirs = of.dictionary(number);
            let is_one = !has_codes(field) || Arc::ptr_eq(theirs, table.dictionary(column));
            if known.is_none() {
                table.adopt(column, Arc::clone(theirs));
            }
            (known.is_none() || is_one).then_some((of, number))
        });
        let shared: Vec<Shared> = shared.collect();
        Target {
            device,
            table,
            shared,
            own,
            group,
            has_more: AtomicBool::new(false),
            lacks_some: AtomicBool::new(false),
        }
    }

    /// Lists the scan's morsels with the names of their columns.
    async fn named(&self) -> Result<Vec<Named>, Stopped> {
        let loader = &self.spec.loader;
        let num_columns = self.spec.pipeline.input.fields().len();
        let mut morsels = Vec::new();
        for piece in 0..self.num_pieces {
            let sizes = loader.list(piece).await?;
            loader.identify(piece).await?;
            for (index, size) in sizes.iter().enumerate() {
                let morsel = MorselId { piece, index };
                let keys = (0..num_columns).map(|column| loader.chunk_key(morsel, column));
                let keys = keys.collect::<Option<Vec<_>>>().ok_or(Stopped)?;
                let num_rows = size.num_rows;
                morsels.push(Named {
                    morsel,
                    num_rows,
                    keys,
                });
            }
        }
        Ok(morsels)
    }

    /// Finds a table on the device that has a column of every morsel: where it has not, chunks of
    /// strings would make its dictionary grow under those who read it.
    fn shared(&self, device: &Arc<dyn PipelineDevice>, morsels: &[Named], column: usize) -> Shared {
        let tables = self.spec.cache.on_device(device.info().id);
        tables.into_iter().find_map(|table| {
            let (number, _) = table.get(&morsels.first()?.keys[column])?;
            let has = |named: &Named| {
                let found = table.get(&named.keys[column]);
                found.is_some_and(|(of, _)| of == number)
            };
            morsels.iter().all(has).then_some((table, number))
        })
    }

    /// Has the device keep those of a morsel's columns that are not there, from below it if they lie
    /// there; else they are read. What finds no room goes below.
    async fn store(
        &self,
        Named { morsel, keys, .. }: Named,
        number: usize,
        target: &Target<'_>,
    ) -> Result<Stored, Stopped> {
        if !self.promotion.may_go_on() {
            return Err(Stopped);
        }
        let stored = |chunks: Vec<(ChunkKey, CachedChunk)>, seconds| Stored {
            target: number,
            chunks,
            seconds,
        };
        if let Some(chunks) = target.own_chunks(&keys) {
            let bytes = chunks.iter().map(|(_, chunk)| chunk.stored.device_bytes());
            let seconds = target.own_pace() * bytes.sum::<u64>() as f64;
            return Ok(stored(chunks, seconds));
        }
        let pinned = self.spec.cache.pinned();
        let own = pinned.find_in(target.group, &keys);
        let below = own.or_else(|| pinned.find(&keys));
        if let Some(below) = below.filter(|below| target.may_take(below)) {
            if !has_room(target.device, below.bytes()) {
                target.lacks_some.store(true, Ordering::Relaxed);
                return Ok(stored(Vec::new(), 0.0));
            }
            let chunks = self.bring_back(&below, keys, target.device).await?;
            target.has_more.store(true, Ordering::Relaxed);
            let seconds = target.own_pace() * below.bytes() as f64;
            return Ok(stored(chunks, seconds));
        }
        let began = Instant::now();
        let in_table = |(column, key): (usize, &ChunkKey)| {
            let (of, _) = target.shared[column].as_ref()?;
            Some(of.get(key)?.1.clone())
        };
        let known: Vec<Option<CachedChunk>> = keys.iter().enumerate().map(in_table).collect();
        let batches = match known.iter().all(Option::is_some) {
            true => Vec::new(),
            false => self.load(morsel).await?,
        };
        let arrays = |column: usize| -> Vec<ArrayRef> {
            let arrays = batches.iter().map(|batch| Arc::clone(batch.column(column)));
            arrays.collect()
        };
        let missing = || (0..keys.len()).filter(|column| known[*column].is_none());
        if missing().any(|column| arrays(column).iter().all(|array| array.is_empty())) {
            return Ok(stored(Vec::new(), 0.0));
        }
        let bytes = missing().flat_map(arrays);
        let bytes = bytes.map(|array| array.get_array_memory_size() as u64);
        if !self.make_room(target.device, bytes.sum(), began) {
            target.lacks_some.store(true, Ordering::Relaxed);
            let all = (0..keys.len()).map(arrays).collect();
            self.put_below(keys, all, target, began).await?;
            target.has_more.store(true, Ordering::Relaxed);
            return Ok(stored(Vec::new(), 0.0));
        }
        let mut chunks = Vec::with_capacity(keys.len());
        for (column, (key, known)) in keys.iter().zip(&known).enumerate() {
            let chunk = match known {
                Some(chunk) => chunk.clone(),
                None => self.keep(arrays(column), target, column).await?,
            };
            chunks.push((key.clone(), chunk));
        }
        target.has_more.store(true, Ordering::Relaxed);
        Ok(stored(chunks, began.elapsed().as_secs_f64()))
    }

    /// Moves a morsel from below a device to it, to stay.
    async fn bring_back(
        &self,
        below: &PinnedMorsel,
        keys: Vec<ChunkKey>,
        device: &Arc<dyn PipelineDevice>,
    ) -> Result<Vec<(ChunkKey, CachedChunk)>, Stopped> {
        let mut chunks = Vec::with_capacity(keys.len());
        for (key, chunk) in keys.into_iter().zip(&below.chunks) {
            let moved = device.promote(Arc::clone(chunk.column())).await;
            let moved = moved.map_err(|_| Stopped)?;
            chunks.push((key, chunk.came_back(moved.column)));
        }
        self.spec.cache.pinned().went_back(below);
        Ok(chunks)
    }

    /// Has a device encode a morsel that it has no room for, column by column in the room that stays
    /// free, and keeps it below.
    async fn put_below(
        &self,
        keys: Vec<ChunkKey>,
        columns: Vec<Vec<ArrayRef>>,
        target: &Target<'_>,
        began: Instant,
    ) -> Result<(), Stopped> {
        let pinned = self.spec.cache.pinned();
        if pinned.limit() == 0 {
            return Err(Stopped);
        }
        let mut label = GroupLabel {
            reads: self.spec.loader.scan_key().and_then(|scan| {
                let array = scan.an_array()?;
                Some(Arc::downgrade(array))
            }),
            ..GroupLabel::of(&target.table, self.promotion.uses())
        };
        let mut chunks = Vec::with_capacity(keys.len());
        for (column, (key, arrays)) in keys.into_iter().zip(columns).enumerate() {
            let chunk = self.keep(arrays, target, column).await?;
            let bytes = chunk.stored.device_bytes();
            label.pace = began.elapsed().as_secs_f64() / bytes.max(1) as f64;
            let charge = pinned.charge(bytes, &label, false).ok_or(Stopped)?;
            let copy = target.device.demote(Arc::clone(&chunk.stored)).await;
            let copy = copy.map_err(|_| Stopped)?;
            chunks.push((key, PinnedChunk::new(copy, &chunk, charge)));
        }
        let bytes: u64 = chunks.iter().map(|(_, chunk)| chunk.column().bytes()).sum();
        label.pace = began.elapsed().as_secs_f64() / bytes.max(1) as f64;
        pinned.keep(target.group, &label, chunks);
        Ok(())
    }

    async fn load(&self, morsel: MorselId) -> Result<Vec<RecordBatch>, Stopped> {
        let (loader, handle) = (Arc::clone(&self.spec.loader), Handle::current());
        // Reading holds its thread for milliseconds.
        let load = move || handle.block_on(loader.load(morsel));
        let loaded = tokio::task::spawn_blocking(load).await;
        Ok(loaded.map_err(|_| Stopped)??)
    }

    /// Has a device keep arrays of one column.
    async fn keep(
        &self,
        arrays: Vec<ArrayRef>,
        Target { device, table, .. }: &Target<'_>,
        column: usize,
    ) -> Result<CachedChunk, Stopped> {
        let anchor = if self.spec.loader.keys_are_addresses() {
            arrays.clone()
        } else {
            Vec::new()
        };
        let (device, handle) = (Arc::clone(*device), Handle::current());
        let dictionary = Arc::clone(table.dictionary(column));
        // Encoding holds its thread for milliseconds.
        let store = move || handle.block_on(device.store(arrays, dictionary));
        let stored = tokio::task::spawn_blocking(store).await;
        let stored: Result<_, RunError> = stored.map_err(|_| Stopped)?;
        let stored = stored.map_err(|_| Stopped)?;
        Ok(CachedChunk {
            stored: Arc::new(stored),
            anchor,
        })
    }

    /// Makes room for so many bytes beside those that stay free; returns whether there is.
    fn make_room(&self, device: &Arc<dyn PipelineDevice>, bytes: u64, began: Instant) -> bool {
        let lacking = lacking(device, bytes);
        if lacking == 0 {
            return true;
        }
        let id = device.info().id;
        let seconds = began.elapsed().as_secs_f64();
        self.promotion.displace(id, lacking, seconds, bytes) >= lacking
    }
}

/// Returns whether a device has room for so many bytes beside those that stay free.
fn has_room(device: &Arc<dyn PipelineDevice>, bytes: u64) -> bool {
    lacking(device, bytes) == 0
}

/// Returns how many bytes are missing for so many more beside those that stay free.
fn lacking(device: &Arc<dyn PipelineDevice>, bytes: u64) -> u64 {
    let budget = device.budget();
    let stays_free = (budget.limit() as f64 * FREE_SHARE) as u64;
    (bytes + stays_free).saturating_sub(budget.free())
}

/// Returns whether a column's chunks are codes of its dictionary.
fn has_codes(field: &FieldRef) -> bool {
    matches!(
        field.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..)
    )
}
