//! Reads a scan's morsels, several at a time, and has a device keep their columns.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use tidegate_device::DeviceError;
use tidegate_kernels::{ColumnDictionary, PipelineDevice, RunError, StoredColumn};
use tidegate_scheduler::{
    CachedChunk, CachedTable, ChunkKey, ColumnCache, Evict, MorselId, MorselLoader, RunFailure,
};
use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind};
use crate::region::failure;

/// A table on its way to a device.
pub(super) struct Filling {
    pub(super) device: Arc<dyn PipelineDevice>,
    pub(super) loader: Arc<dyn MorselLoader>,
    /// The columns that the loader gives.
    pub(super) schema: SchemaRef,
    pub(super) num_pieces: usize,
    /// What came to the device by itself makes room.
    pub(super) cache: Arc<ColumnCache>,
}

/// What every morsel's task needs.
struct Shared {
    device: Arc<dyn PipelineDevice>,
    loader: Arc<dyn MorselLoader>,
    schema: SchemaRef,
    dictionaries: Vec<Arc<ColumnDictionary>>,
    table: String,
    cache: Arc<ColumnCache>,
}

/// A morsel's chunks with their keys, by column.
struct StoredChunks {
    num_rows: u64,
    chunks: Vec<(ChunkKey, CachedChunk)>,
}

impl Filling {
    /// Fills the table; returns it with the number of its rows. If something does not go well,
    /// nothing stays on the device.
    pub(super) async fn fill(self, mut table: CachedTable) -> Result<(CachedTable, u64), Error> {
        let num_columns = self.schema.fields().len();
        let listing = named_morsels(&self.loader, self.num_pieces, num_columns, table.name());
        let morsels = listing.await?;
        let columns = self.schema.fields().iter();
        let shared = Arc::new(Shared {
            device: self.device,
            loader: self.loader,
            dictionaries: columns.map(|_| ColumnDictionary::new()).collect(),
            schema: self.schema,
            table: table.name().to_string(),
            cache: self.cache,
        });
        // A few more than there are cores: some wait until their last columns are copied.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_a_time = cores + cores.div_ceil(4);
        let tasks = morsels.into_iter().map(|(morsel, keys)| {
            let (shared, handle) = (Arc::clone(&shared), Handle::current());
            async move {
                // Reading and encoding hold their thread for milliseconds.
                let task = move || handle.block_on(shared.store(morsel, keys));
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
            let StoredChunks {
                num_rows: rows,
                chunks,
            } = done.map_err(|error| shared.explain(error, &table))?;
            num_rows += rows;
            if rows > 0 {
                table.insert_morsel(chunks);
            }
        }
        if let Some(scan) = shared.loader.scan_key()
            && shared.loader.is_as_planned().await.map_err(unreadable)?
        {
            table.holds_all_of(scan);
        }
        Ok((table, num_rows))
    }
}

/// Lists a scan's morsels with the keys of their columns.
pub(super) async fn named_morsels(
    loader: &Arc<dyn MorselLoader>,
    num_pieces: usize,
    num_columns: usize,
    table: &str,
) -> Result<Vec<(MorselId, Vec<ChunkKey>)>, Error> {
    let mut morsels = Vec::new();
    for piece in 0..num_pieces {
        let sizes = loader.list(piece).await.map_err(unreadable)?;
        loader.identify(piece).await.map_err(unreadable)?;
        for index in 0..sizes.len() {
            let morsel = MorselId { piece, index };
            let keys = (0..num_columns)
                .map(|column| loader.chunk_key(morsel, column))
                .collect::<Option<Vec<_>>>();
            let Some(keys) = keys else {
                let message = format!("a file of table '{table}' is being changed; try again");
                return Err(Error::new(ErrorKind::Io, message));
            };
            morsels.push((morsel, keys));
        }
    }
    Ok(morsels)
}

/// Why a morsel could not be stored.
enum StoreError {
    Load(Error),
    Device {
        /// The column's name and type.
        column: String,
        error: RunError,
    },
}

impl Shared {
    async fn store(
        &self,
        morsel: MorselId,
        keys: Vec<ChunkKey>,
    ) -> Result<StoredChunks, StoreError> {
        let loaded = self.loader.load(morsel).await;
        let batches = loaded.map_err(|error| StoreError::Load(unreadable(error)))?;
        let num_rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if num_rows == 0 {
            let chunks = Vec::new();
            return Ok(StoredChunks { num_rows, chunks });
        }
        // While one column is copied the next is encoded.
        let stored = (0..keys.len()).map(|column| {
            let arrays = batches.iter().map(|batch| Arc::clone(batch.column(column)));
            self.store_column(column, arrays.collect())
        });
        let stored = try_join_all(stored).await?;
        let chunks = keys.into_iter().zip(stored).collect();
        Ok(StoredChunks { num_rows, chunks })
    }

    async fn store_column(
        &self,
        column: usize,
        arrays: Vec<ArrayRef>,
    ) -> Result<CachedChunk, StoreError> {
        let anchor = if self.loader.keys_are_addresses() {
            arrays.clone()
        } else {
            Vec::new()
        };
        let stored = self.keep(arrays, column).await;
        let stored = stored.map_err(|error| {
            let field = self.schema.field(column);
            let column = format!("'{}' of type {}", field.name(), field.data_type());
            StoreError::Device { column, error }
        })?;
        Ok(CachedChunk {
            holds_special: stored.has_special(),
            stored: Arc::new(stored),
            anchor,
        })
    }

    /// Has the device keep arrays, in place of what came there by itself if there is no room.
    async fn keep(&self, arrays: Vec<ArrayRef>, column: usize) -> Result<StoredColumn, RunError> {
        let dictionary = &self.dictionaries[column];
        let first = self.device.store(arrays.clone(), Arc::clone(dictionary));
        let shortage = match first.await {
            Err(RunError::Device(error @ DeviceError::OutOfMemory { .. })) => error,
            other => return other,
        };
        let lacking = match &shortage {
            DeviceError::OutOfMemory { wanted, free, .. } => wanted.saturating_sub(*free),
            _ => 0,
        };
        if self.cache.evict(self.device.info().id, lacking.max(1)) == 0 {
            return Err(RunError::Device(shortage));
        }
        self.device.store(arrays, Arc::clone(dictionary)).await
    }

    /// Describes a failure to whoever asked for the table.
    fn explain(&self, error: StoreError, so_far: &CachedTable) -> Error {
        let (column, error) = match error {
            StoreError::Load(error) => return error,
            StoreError::Device { column, error } => (column, error),
        };
        let table = &self.table;
        let device = self.device.info().id;
        match &error {
            RunError::Device(DeviceError::OutOfMemory {
                wanted,
                free,
                limit,
                ..
            }) => {
                let stored = so_far.device_bytes();
                let message = format!(
                    "table '{table}' does not fit on {device}: after {stored} bytes, a chunk of \
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
