//! Reads a scan's morsels, several at a time, and has devices keep their columns: each as many rows as
//! it has memory free, for whoever else there is.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use tidegate_device::{DeviceError, DeviceId};
use tidegate_kernels::{ColumnDictionary, PipelineDevice, RunError, StoredColumn};
use tidegate_scheduler::{
    CachedChunk, CachedTable, ChunkKey, ColumnCache, Evict, MorselId, MorselLoader, RunFailure,
};
use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind};
use crate::region::failure;
use crate::region::spread::{Dealer, say_what_is_held};

/// A table on its way to devices.
pub(super) struct Filling {
    /// What it is called.
    pub(super) table: String,
    /// At least one.
    pub(super) devices: Vec<Arc<dyn PipelineDevice>>,
    pub(super) loader: Arc<dyn MorselLoader>,
    /// The columns that the loader gives.
    pub(super) schema: SchemaRef,
    pub(super) num_pieces: usize,
    /// What came to the devices by itself makes room.
    pub(super) cache: Arc<ColumnCache>,
}

/// What every morsel's task needs.
struct Shared {
    targets: Vec<Target>,
    loader: Arc<dyn MorselLoader>,
    schema: SchemaRef,
    table: String,
    cache: Arc<ColumnCache>,
}

/// A device that keeps some of the morsels, with a dictionary for each column.
struct Target {
    device: Arc<dyn PipelineDevice>,
    dictionaries: Vec<Arc<ColumnDictionary>>,
}

/// A morsel's chunks with their keys, by column.
struct StoredChunks {
    /// The number of the device that has them.
    target: usize,
    num_rows: u64,
    chunks: Vec<(ChunkKey, CachedChunk)>,
}

impl Filling {
    /// Fills a table on each device that gets a part; returns them with the number of all rows. If
    /// something does not go well, nothing stays on a device.
    pub(super) async fn fill(self) -> Result<(Vec<CachedTable>, u64), Error> {
        let num_columns = self.schema.fields().len();
        let listing = named_morsels(&self.loader, self.num_pieces, num_columns, &self.table);
        let morsels = listing.await?;
        let columns = self.schema.fields().iter();
        let columns: Vec<String> = columns.map(|field| field.name().clone()).collect();
        let empty = |device: &Arc<dyn PipelineDevice>| {
            CachedTable::new(&self.table, device.info().id, columns.iter().cloned())
        };
        let mut tables: Vec<CachedTable> = self.devices.iter().map(empty).collect();
        let mut dealer = Dealer::new(&self.devices);
        let targets = self.devices.into_iter().zip(&tables);
        let shared = Arc::new(Shared {
            targets: targets
                .map(|(device, table)| Target {
                    device,
                    dictionaries: (0..num_columns)
                        .map(|column| Arc::clone(table.dictionary(column)))
                        .collect(),
                })
                .collect(),
            loader: self.loader,
            schema: self.schema,
            table: self.table,
            cache: self.cache,
        });
        // A few more than there are cores: some wait until their last columns are copied.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_a_time = cores + cores.div_ceil(4);
        let tasks = morsels
            .into_iter()
            .map(|NamedMorsel { id, num_rows, keys }| {
                let (shared, handle) = (Arc::clone(&shared), Handle::current());
                let target = dealer.deal(num_rows);
                async move {
                    // Reading and encoding hold their thread for milliseconds.
                    let task = move || handle.block_on(shared.store(id, keys, target));
                    tokio::task::spawn_blocking(task).await
                }
            });
        let mut stored = stream::iter(tasks).buffer_unordered(at_a_time);
        let mut num_rows = 0;
        while let Some(done) = stored.next().await {
            let done = done.map_err(|error| {
                let message = "a task of CACHE TABLE stopped";
                Error::with_source(ErrorKind::Internal, message, error)
            })?;
            let stored = done.map_err(|error| shared.explain(error, &tables))?;
            num_rows += stored.num_rows;
            if stored.num_rows > 0 {
                tables[stored.target].insert_morsel(stored.chunks);
            }
        }
        // A table of no rows is on the first device.
        let mut number = 0;
        tables.retain(|table| {
            number += 1;
            table.device_bytes() > 0 || (num_rows == 0 && number == 1)
        });
        if shared.loader.is_as_planned().await.map_err(unreadable)? {
            say_what_is_held(&shared.loader, &mut tables);
        }
        Ok((tables, num_rows))
    }
}

/// A morsel with the keys of its columns.
pub(super) struct NamedMorsel {
    pub(super) id: MorselId,
    /// The source's estimate.
    pub(super) num_rows: u64,
    pub(super) keys: Vec<ChunkKey>,
}

/// Lists a scan's morsels with the keys of their columns.
pub(super) async fn named_morsels(
    loader: &Arc<dyn MorselLoader>,
    num_pieces: usize,
    num_columns: usize,
    table: &str,
) -> Result<Vec<NamedMorsel>, Error> {
    let mut morsels = Vec::new();
    for piece in 0..num_pieces {
        let sizes = loader.list(piece).await.map_err(unreadable)?;
        loader.identify(piece).await.map_err(unreadable)?;
        for (index, size) in sizes.iter().enumerate() {
            let id = MorselId { piece, index };
            let keys = (0..num_columns)
                .map(|column| loader.chunk_key(id, column))
                .collect::<Option<Vec<_>>>();
            let Some(keys) = keys else {
                let message = format!("a file of table '{table}' is being changed; try again");
                return Err(Error::new(ErrorKind::Io, message));
            };
            let num_rows = size.num_rows;
            morsels.push(NamedMorsel { id, num_rows, keys });
        }
    }
    Ok(morsels)
}

/// Why a morsel could not be stored.
enum StoreError {
    Load(Error),
    Device {
        device: DeviceId,
        /// The column's name and type.
        column: String,
        error: RunError,
    },
}

impl StoreError {
    /// Returns whether the device has no room for it.
    fn is_shortage(&self) -> bool {
        matches!(
            self,
            Self::Device {
                error: RunError::Device(DeviceError::OutOfMemory { .. }),
                ..
            }
        )
    }
}

impl Shared {
    /// Reads a morsel and has device number `first` keep it, or another if that one has no room.
    async fn store(
        &self,
        morsel: MorselId,
        keys: Vec<ChunkKey>,
        first: usize,
    ) -> Result<StoredChunks, StoreError> {
        let loaded = self.loader.load(morsel).await;
        let batches = loaded.map_err(|error| StoreError::Load(unreadable(error)))?;
        let num_rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if num_rows == 0 {
            return Ok(StoredChunks {
                target: first,
                num_rows,
                chunks: Vec::new(),
            });
        }
        let mut target = first;
        let stored = loop {
            // While one column is copied the next is encoded.
            let stored = (0..keys.len()).map(|column| {
                let arrays = batches.iter().map(|batch| Arc::clone(batch.column(column)));
                self.store_column(&self.targets[target], column, arrays.collect())
            });
            let next = (target + 1) % self.targets.len();
            match try_join_all(stored).await {
                Err(error) if error.is_shortage() && next != first => target = next,
                stored => break stored?,
            }
        };
        let chunks = keys.into_iter().zip(stored).collect();
        Ok(StoredChunks {
            target,
            num_rows,
            chunks,
        })
    }

    async fn store_column(
        &self,
        target: &Target,
        column: usize,
        arrays: Vec<ArrayRef>,
    ) -> Result<CachedChunk, StoreError> {
        let anchor = if self.loader.keys_are_addresses() {
            arrays.clone()
        } else {
            Vec::new()
        };
        let stored = self.keep(target, arrays, column).await;
        let stored = stored.map_err(|error| {
            let field = self.schema.field(column);
            StoreError::Device {
                device: target.device.info().id,
                column: format!("'{}' of type {}", field.name(), field.data_type()),
                error,
            }
        })?;
        Ok(CachedChunk {
            stored: Arc::new(stored),
            anchor,
        })
    }

    /// Has the device keep arrays, in place of what came there by itself if there is no room.
    async fn keep(
        &self,
        Target {
            device,
            dictionaries,
        }: &Target,
        arrays: Vec<ArrayRef>,
        column: usize,
    ) -> Result<StoredColumn, RunError> {
        let dictionary = &dictionaries[column];
        let first = device.store(arrays.clone(), Arc::clone(dictionary));
        let shortage = match first.await {
            Err(RunError::Device(error @ DeviceError::OutOfMemory { .. })) => error,
            other => return other,
        };
        let lacking = match &shortage {
            DeviceError::OutOfMemory { wanted, free, .. } => wanted.saturating_sub(*free),
            _ => 0,
        };
        if self.cache.evict(device.info().id, lacking.max(1)) == 0 {
            return Err(RunError::Device(shortage));
        }
        device.store(arrays, Arc::clone(dictionary)).await
    }

    /// Describes a failure to whoever asked for the table.
    fn explain(&self, error: StoreError, so_far: &[CachedTable]) -> Error {
        let (device, column, error) = match error {
            StoreError::Load(error) => return error,
            StoreError::Device {
                device,
                column,
                error,
            } => (device, column, error),
        };
        let table = &self.table;
        match &error {
            RunError::Device(DeviceError::OutOfMemory {
                wanted,
                free,
                limit,
                ..
            }) => {
                let stored: u64 = so_far.iter().map(CachedTable::device_bytes).sum();
                let on = match self.targets.len() {
                    1 => device.to_string(),
                    devices => format!("the {devices} devices"),
                };
                let message = format!(
                    "table '{table}' does not fit on {on}: after {stored} bytes, a chunk of \
                     column {column} wanted {wanted} more, and {free} of the limit of {limit} were \
                     free; nothing of it stays cached: name fewer columns, UNCACHE another table, \
                     or raise the device memory limit"
                );
                Error::with_source(ErrorKind::ResourcesExhausted, message, error)
            }
            RunError::Eval(why) => {
                let message = format!(
                    "column {column} of table '{table}' cannot be kept on {device}: {why}; name \
                     the columns to cache: CACHE TABLE {table} (column, ...) ON DEVICE"
                );
                Error::with_source(ErrorKind::NotSupported, message, error)
            }
            _ => {
                let message = format!("caching table '{table}' on {device}: {error}");
                Error::with_source(ErrorKind::Device, message, error)
            }
        }
    }
}

pub(super) fn unreadable(error: tidegate_scheduler::LoadError) -> Error {
    Error::from(failure(RunFailure::Load(error)))
}
