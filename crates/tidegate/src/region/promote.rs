//! What regions read often comes to the devices to stay, in the background.
//!
//! A region that has ended says what it read. The column cache counts, and says when it is worth
//! bringing there; then a task of its own reads the same morsels through the same loader, behind the
//! host tier, and has the devices that gain by it keep their columns. It uses a quarter of the host's
//! cores at the most, leaves a part of each device's memory free, takes the place of what saves much less, and gives
//! up as soon as a query lacks memory. Nobody waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_kernels::{PipelineDevice, RunError};
use tidegate_scheduler::{
    CachedChunk, CachedTable, ChunkKey, Kept, LoadError, MorselId, Promotion, Reason,
    RegionCounters, ResidentScan, RunSpec, ScanKey,
};
use tokio::runtime::Handle;

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

/// Runs the region once over what a device now holds of it as a whole, for nobody: its kernels are
/// compiled, and how fast they are is known, before a query asks.
async fn rehearse(spec: &RunSpec, device: &Arc<dyn PipelineDevice>) {
    let reads_all_of = |scan: &ScanKey| spec.loader.reads_all_of(scan);
    let id = device.info().id;
    let Some(scan) = ResidentScan::find(&spec.cache, id, &spec.pipeline, &reads_all_of) else {
        return;
    };
    let (pipeline, rates) = (Arc::clone(&spec.pipeline), spec.dispatch.rates());
    let counters = RegionCounters::default();
    let rows = scan.answer(device, pipeline, rates, &counters, Reason::Resident);
    // If it fails, a query will say so.
    drop(rows.await);
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
}

/// A morsel's chunks, and what reading and storing them took.
struct Stored {
    /// The number of the device that has them.
    target: usize,
    chunks: Vec<(ChunkKey, CachedChunk)>,
    took: Duration,
}

impl Filling {
    async fn run(self) {
        let filled = self.fill().await;
        let Ok(promotion) = Arc::try_unwrap(self.promotion) else {
            return;
        };
        match filled {
            Ok(tables) => promotion.keep(tables),
            Err(Stopped) => return promotion.give_up(),
        }
        for device in self.devices.iter().filter(|device| device.compiles()) {
            rehearse(&self.spec, device).await;
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
                let number = only.unwrap_or_else(|| dealer.deal(named.num_rows));
                self.store(named, number, &targets_ref[number])
            })
            .buffer_unordered((cores / 4).max(1));
        let stored: Vec<Stored> = stored.try_collect().await?;
        let tables = targets.into_iter().map(|target| target.table);
        let mut tables: Vec<CachedTable> = tables.collect();
        let mut took = vec![Duration::ZERO; tables.len()];
        for stored in stored {
            took[stored.target] += stored.took;
            if !stored.chunks.is_empty() {
                tables[stored.target].insert_morsel(stored.chunks);
            }
        }
        for (table, took) in tables.iter_mut().zip(took) {
            table.keep(Kept::Automatic {
                what: self.promotion.what(),
                seconds: took.as_secs_f64(),
            });
        }
        tables.retain(|table| table.device_bytes() > 0);
        say_what_is_held(&self.spec.loader, &mut tables);
        Ok(tables)
    }

    /// Makes an empty table on a device.
    fn target<'a>(&self, device: &'a Arc<dyn PipelineDevice>, morsels: &[Named]) -> Target<'a> {
        let fields = self.spec.pipeline.input.fields();
        let columns = fields.iter().map(|field| field.name().clone());
        let mut table = CachedTable::new(&self.name, device.info().id, columns);
        let shared = (0..fields.len()).map(|column| self.shared(device, morsels, column));
        let shared: Vec<Shared> = shared.collect();
        for (column, shared) in shared.iter().enumerate() {
            if let Some((of, number)) = shared {
                table.adopt(column, Arc::clone(of.dictionary(*number)));
            }
        }
        Target {
            device,
            table,
            shared,
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

    /// Reads a morsel and has the device keep those of its columns that are not there.
    async fn store(
        &self,
        Named { morsel, keys, .. }: Named,
        number: usize,
        target: &Target<'_>,
    ) -> Result<Stored, Stopped> {
        if !self.promotion.may_go_on() {
            return Err(Stopped);
        }
        let began = Instant::now();
        let mut batches = None;
        let mut chunks = Vec::with_capacity(keys.len());
        for (column, key) in keys.into_iter().enumerate() {
            let known = target.shared[column]
                .as_ref()
                .and_then(|(of, _)| of.get(&key));
            if let Some((_, chunk)) = known {
                chunks.push((key, chunk.clone()));
                continue;
            }
            if batches.is_none() {
                batches = Some(self.load(morsel).await?);
            }
            let batches = batches.as_deref().unwrap_or_default();
            let arrays = batches.iter().map(|batch| Arc::clone(batch.column(column)));
            let arrays: Vec<ArrayRef> = arrays.collect();
            if arrays.iter().all(|array| array.is_empty()) {
                break;
            }
            let chunk = self.keep(arrays, target, column, began).await?;
            chunks.push((key, chunk));
        }
        let took = began.elapsed();
        Ok(Stored {
            target: number,
            chunks,
            took,
        })
    }

    async fn load(&self, morsel: MorselId) -> Result<Vec<RecordBatch>, Stopped> {
        let (loader, handle) = (Arc::clone(&self.spec.loader), Handle::current());
        // Reading holds its thread for milliseconds.
        let load = move || handle.block_on(loader.load(morsel));
        let loaded = tokio::task::spawn_blocking(load).await;
        Ok(loaded.map_err(|_| Stopped)??)
    }

    /// Has a device keep arrays of one column, if that leaves queries room enough.
    async fn keep(
        &self,
        arrays: Vec<ArrayRef>,
        Target { device, table, .. }: &Target<'_>,
        column: usize,
        began: Instant,
    ) -> Result<CachedChunk, Stopped> {
        let bytes = arrays
            .iter()
            .map(|array| array.get_array_memory_size() as u64);
        self.make_room(device, bytes.sum(), began)?;
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
            holds_special: stored.has_special(),
            stored: Arc::new(stored),
            anchor,
        })
    }

    /// Makes room for so many bytes beside those that stay free.
    fn make_room(
        &self,
        device: &Arc<dyn PipelineDevice>,
        bytes: u64,
        began: Instant,
    ) -> Result<(), Stopped> {
        let budget = device.budget();
        let stays_free = (budget.limit() as f64 * FREE_SHARE) as u64;
        let lacking = (bytes + stays_free).saturating_sub(budget.free());
        if lacking == 0 {
            return Ok(());
        }
        let id = device.info().id;
        let seconds = began.elapsed().as_secs_f64();
        let freed = self.promotion.displace(id, lacking, seconds, bytes);
        if freed < lacking {
            return Err(Stopped);
        }
        Ok(())
    }
}
