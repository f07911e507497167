//! Which of a scan's morsels a device holds already.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

use futures::{StreamExt, stream};
use tidegate_device::DeviceId;
use tidegate_kernels::{StoredMorsel, order_dependent_columns};
use tidegate_pipeline::Pipeline;

use crate::cache::{CachedTable, ColumnCache};
use crate::feeder::MorselLoader;
use crate::queue::{MorselId, MorselQueue};
use crate::run::RunFailure;

/// Pieces that are identified at a time.
const PIECES_AT_A_TIME: usize = 16;

/// What holds all morsels of a scan.
#[derive(Debug)]
pub(crate) struct Holder {
    /// The table.
    pub(crate) table: Arc<CachedTable>,
    /// The scan's rows.
    pub(crate) num_rows: u64,
}

/// A morsel that is on the device.
#[derive(Debug)]
pub(crate) struct ResidentMorsel {
    /// What holds it.
    pub(crate) table: Arc<CachedTable>,
    /// Its columns.
    pub(crate) stored: StoredMorsel,
    /// The numbers of its columns in the table.
    columns: Vec<usize>,
}

impl ResidentMorsel {
    /// Counts a use of each of its chunks.
    pub(crate) fn hit(&self) {
        for column in &self.columns {
            self.table.hit(*column, 1);
        }
    }
}

/// Finds resident morsels for one pipeline on one device, in the tables that were cached when it
/// was made.
#[derive(Debug)]
pub(crate) struct Residency {
    /// Automatic tables may go meanwhile.
    tables: Vec<Weak<CachedTable>>,
    /// The only table to look in, which stays.
    pinned: Option<Arc<CachedTable>>,
    loader: Arc<dyn MorselLoader>,
    pipeline: Arc<Pipeline>,
    /// Input columns of which grouped float MIN or MAX are made.
    order_dependent: OnceLock<BTreeSet<usize>>,
}

impl Residency {
    pub(crate) fn new(
        cache: &ColumnCache,
        device: DeviceId,
        loader: &Arc<dyn MorselLoader>,
        pipeline: &Arc<Pipeline>,
    ) -> Self {
        // A morsel of no columns has nothing that could be resident.
        let may_be_resident = loader.names_chunks() && !pipeline.input.fields().is_empty();
        Self {
            tables: if may_be_resident {
                cache.on_device(device).iter().map(Arc::downgrade).collect()
            } else {
                Vec::new()
            },
            pinned: None,
            loader: Arc::clone(loader),
            pipeline: Arc::clone(pipeline),
            order_dependent: OnceLock::new(),
        }
    }

    /// Returns whether nothing can be resident.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Looks only in this table from now on; in none with `None`.
    pub(crate) fn pin(&mut self, table: Option<Arc<CachedTable>>) {
        self.tables = table.iter().map(Arc::downgrade).collect();
        self.pinned = table;
    }

    /// Lists the whole scan, and returns the table that holds all of it, if one does.
    pub(crate) async fn whole_scan(
        &self,
        queue: &MorselQueue,
    ) -> Result<Option<Holder>, RunFailure> {
        if self.is_empty() {
            return Ok(None);
        }
        identify(&self.loader, queue, (0..queue.num_pieces()).collect()).await?;
        let morsels = queue.morsels();
        let rows_in = |table: &Arc<CachedTable>| {
            let found = morsels.iter().map(|morsel| self.find_in(table, morsel.id));
            let rows = found.map(|morsel| morsel.map(|morsel| morsel.stored.num_rows));
            rows.sum::<Option<u64>>()
        };
        Ok(self.tables.iter().find_map(|table| {
            let table = table.upgrade()?;
            let num_rows = rows_in(&table).filter(|rows| *rows > 0)?;
            Some(Holder { table, num_rows })
        }))
    }

    /// Finds a morsel of an identified piece.
    pub(crate) fn find(&self, morsel: MorselId) -> Option<ResidentMorsel> {
        self.tables
            .iter()
            .find_map(|table| self.find_in(&table.upgrade()?, morsel))
    }

    fn find_in(&self, table: &Arc<CachedTable>, morsel: MorselId) -> Option<ResidentMorsel> {
        let num_columns = self.pipeline.input.fields().len();
        let mut stored = Vec::with_capacity(num_columns);
        let mut columns = Vec::with_capacity(num_columns);
        for column in 0..num_columns {
            let key = self.loader.chunk_key(morsel, column)?;
            let (number, chunk) = table.get(&key)?;
            if chunk.holds_special && self.order_dependent().contains(&column) {
                return None;
            }
            stored.push(Arc::clone(&chunk.stored));
            columns.push(number);
        }
        let num_rows = stored.first()?.num_rows();
        if stored.iter().any(|column| column.num_rows() != num_rows) {
            return None;
        }
        Some(ResidentMorsel {
            table: Arc::clone(table),
            stored: StoredMorsel {
                num_rows,
                columns: stored,
            },
            columns,
        })
    }

    fn order_dependent(&self) -> &BTreeSet<usize> {
        self.order_dependent
            .get_or_init(|| order_dependent_columns(&self.pipeline))
    }
}

/// Lists and identifies pieces, several at a time.
pub(crate) async fn identify(
    loader: &Arc<dyn MorselLoader>,
    queue: &MorselQueue,
    pieces: Vec<usize>,
) -> Result<(), RunFailure> {
    let each = pieces.into_iter().map(|piece| async move {
        let sizes = loader.list(piece).await?;
        loader.identify(piece).await?;
        Ok((piece, sizes))
    });
    let mut identified = stream::iter(each).buffer_unordered(PIECES_AT_A_TIME);
    while let Some(listed) = identified.next().await {
        let (piece, sizes) = listed.map_err(RunFailure::Load)?;
        queue.list(piece, sizes);
    }
    Ok(())
}
