//! A memory table's morsels: batches put together, or slices of large ones.
//!
//! The batches of a scan come dealt out to partitions one way or another, so their order here is that
//! of their addresses: two scans of one table are cut alike. Cutting is left until somebody needs it.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayData, ArrayRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSource;
use datafusion::error::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_scheduler::{
    ChunkKey, LoadError, MorselId, MorselLoader, MorselSize, ScanKey, ScanRows,
};

use super::Pieces;
use crate::leaf::LeafOptions;
use crate::sources::Batches;

/// Morsels for each of the host's partitions, if the table has rows enough.
const MORSELS_PER_PARTITION: usize = 4;

/// Fewer rows make no morsel of their own, unless `tidegate.morsel_rows` says so.
const MORSEL_ROWS_MIN: usize = 65_536;

/// A memory table: one piece that every partition reads from.
#[derive(Debug)]
pub(super) struct Memory {
    /// A [`MemorySourceConfig`].
    planned: Arc<dyn DataSource>,
    options: LeafOptions,
    cut: OnceLock<Cut>,
}

/// The table's rows, projected and cut.
#[derive(Debug)]
struct Cut {
    sizes: Vec<MorselSize>,
    /// The batches or slices of each morsel.
    morsels: Vec<Vec<RecordBatch>>,
}

impl Memory {
    /// Makes the morsels of a scan whose source is a [`MemorySourceConfig`].
    pub(super) fn new(planned: &Arc<dyn DataSource>, options: LeafOptions) -> Self {
        Self {
            planned: Arc::clone(planned),
            options,
            cut: OnceLock::new(),
        }
    }

    fn source(&self) -> Option<&MemorySourceConfig> {
        self.planned.downcast_ref::<MemorySourceConfig>()
    }

    /// Returns the table's batches, all columns of them.
    fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        let partitions = self.source().map(MemorySourceConfig::partitions);
        let batches = partitions.into_iter().flatten().flatten();
        batches.filter(|batch| batch.num_rows() > 0)
    }

    /// Returns the numbers of the columns that are read.
    fn columns(&self) -> Vec<usize> {
        let Some(source) = self.source() else {
            return Vec::new();
        };
        match source.projection() {
            Some(columns) => columns.clone(),
            None => (0..source.original_schema().fields().len()).collect(),
        }
    }

    fn cut(&self) -> &Cut {
        self.cut.get_or_init(|| {
            let mut batches: Vec<&RecordBatch> = self.batches().collect();
            batches.sort_by_key(|batch| batch.columns().first().map(address));
            let projection = self.source().and_then(|source| source.projection().clone());
            let project = |batch: &RecordBatch| match &projection {
                // The columns were checked when the scan was planned.
                Some(columns) => batch.project(columns).unwrap_or_else(|_| batch.clone()),
                None => batch.clone(),
            };
            let num_rows = batches.iter().map(|batch| batch.num_rows()).sum();
            let morsel_rows = self.morsel_rows(num_rows);
            let morsels = gather(batches.into_iter().map(project), morsel_rows);
            let sizes = morsels.iter().map(|morsel| size(morsel)).collect();
            Cut { sizes, morsels }
        })
    }

    /// Chooses how many rows a morsel has: as many as the setting allows, if there is something for
    /// every partition then.
    fn morsel_rows(&self, num_rows: usize) -> usize {
        let most = self.options.morsel_rows;
        let share = num_rows / (self.options.target_partitions * MORSELS_PER_PARTITION).max(1);
        share.clamp(MORSEL_ROWS_MIN.min(most), most)
    }
}

impl Pieces for Memory {
    fn sizes(&self) -> &[MorselSize] {
        &self.cut().sizes
    }

    fn batches(&self, morsel: MorselId, batch_size: usize) -> Result<Batches> {
        let batches = self.cut().morsels[morsel.index].clone();
        Ok(Box::new(batches.into_iter().flat_map(move |batch| {
            let num_rows = batch.num_rows();
            let starts = (0..num_rows).step_by(batch_size.max(1));
            starts.map(move |start| Ok(batch.slice(start, batch_size.min(num_rows - start))))
        })))
    }

    fn what(&self) -> Option<(u64, String)> {
        let mut hash = DefaultHasher::new();
        for batch in self.batches() {
            batch.columns().first().map(address).hash(&mut hash);
        }
        self.columns().hash(&mut hash);
        Some((hash.finish(), "a memory table".into()))
    }
}

impl MorselLoader for Memory {
    fn list(&self, _: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>> {
        futures::future::ready(Ok(self.sizes().to_vec())).boxed()
    }

    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>> {
        let batches = Pieces::batches(self, morsel, self.options.batch_size);
        async move { Ok(batches?.collect::<Result<_>>()?) }.boxed()
    }

    fn names_chunks(&self) -> bool {
        true
    }

    fn chunk_key(&self, morsel: MorselId, column: usize) -> Option<ChunkKey> {
        let batches = &self.cut().morsels[morsel.index];
        let schema = batches.first()?.schema();
        let mut identity = format!("{}: ", schema.field(column).name());
        for batch in batches {
            write_identity(&batch.column(column).to_data(), &mut identity).ok()?;
            identity.push(';');
        }
        Some(ChunkKey {
            source: "memory".into(),
            column: identity.into(),
            part: 0,
        })
    }

    fn scan_key(&self) -> Option<ScanKey> {
        let batches: Vec<RecordBatch> = self.batches().cloned().collect();
        let rows = ScanRows::Batches(batches.into());
        Some(ScanKey::new(rows, self.columns()))
    }

    fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        let columns = self.columns();
        let positions = scan.positions(&columns)?;
        scan.has_batches(self.batches(), &columns)
            .then_some(positions)
    }

    fn keys_are_addresses(&self) -> bool {
        true
    }
}

/// Puts batches together to morsels of at most so many rows; larger ones are sliced.
fn gather(batches: impl Iterator<Item = RecordBatch>, morsel_rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut morsels: Vec<Vec<RecordBatch>> = Vec::new();
    let mut room = 0;
    for batch in batches {
        let num_rows = batch.num_rows();
        for start in (0..num_rows).step_by(morsel_rows) {
            let slice = batch.slice(start, morsel_rows.min(num_rows - start));
            let rows = slice.num_rows();
            match morsels.last_mut() {
                Some(morsel) if rows <= room => morsel.push(slice),
                _ => {
                    morsels.push(vec![slice]);
                    room = morsel_rows;
                }
            }
            room -= rows;
        }
    }
    morsels
}

fn size(morsel: &[RecordBatch]) -> MorselSize {
    MorselSize {
        num_rows: morsel.iter().map(|batch| batch.num_rows() as u64).sum(),
        num_bytes: morsel.iter().map(slice_bytes).sum(),
    }
}

fn address(array: &ArrayRef) -> usize {
    Arc::as_ptr(array).cast::<()>().addr()
}

/// Writes where an array lies: its type, and the address, offset and length of all that it is made
/// of. While it is alive no other array has the same.
fn write_identity(data: &ArrayData, text: &mut String) -> fmt::Result {
    write!(
        text,
        "{} {}+{}",
        data.data_type(),
        data.offset(),
        data.len()
    )?;
    for buffer in data.buffers() {
        write!(text, " {:x}", buffer.as_ptr().addr())?;
    }
    if let Some(nulls) = data.nulls() {
        let (bits, offset) = (nulls.validity().as_ptr().addr(), nulls.offset());
        write!(text, " nulls {bits:x}+{offset}")?;
    }
    for child in data.child_data() {
        text.write_str(" (")?;
        write_identity(child, text)?;
        text.write_str(")")?;
    }
    Ok(())
}

/// Estimates the bytes of a slice: what its arrays hold, in proportion.
fn slice_bytes(batch: &RecordBatch) -> u64 {
    let bytes =
        |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default() as u64;
    batch.columns().iter().map(bytes).sum()
}
