//! Which morsels of a scan a device already has: it holds or generates them, or they are in pinned
//! memory and are moved without being read.

use std::sync::{Arc, Weak};

use futures::{StreamExt, stream};
use tidegate_kernels::program::Generated;
use tidegate_kernels::random::Part;
use tidegate_kernels::{PipelineDevice, Sample, StoredMorsel, StoredRun};
use tidegate_pipeline::Pipeline;

use crate::cache::pinned::{PinnedMorsel, PinnedTier};
use crate::cache::{CachedTable, ChunkKey, ColumnCache};
use crate::feeder::MorselLoader;
use crate::place::{Reason, Rest};
use crate::queue::{MorselId, MorselQueue};
use crate::run::RunFailure;

/// Pieces that are identified at a time.
const PIECES_AT_A_TIME: usize = 16;

/// A scan whose morsels are parts of an array, so that a device can make them itself.
#[derive(Clone, Debug)]
pub struct ArrayScan {
    /// The array, and what of it the columns are that are read.
    pub source: Arc<Generated>,
    /// The parts, in the order of the morsels of the one piece that there is.
    pub parts: Arc<[Part]>,
}

/// Where morsels come from that a device need not be given.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// It holds them.
    Table(Arc<CachedTable>),
    /// It makes them.
    Array(Arc<ArrayScan>),
    /// They come from pinned memory, with the [`codes`](PinnedMorsel::codes) of this number.
    Pinned(u64),
}

impl Origin {
    /// Returns whether it is the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Table(table), Self::Table(other)) => Arc::ptr_eq(table, other),
            (Self::Array(array), Self::Array(other)) => Arc::ptr_eq(array, other),
            (Self::Pinned(codes), Self::Pinned(other)) => codes == other,
            _ => false,
        }
    }

    /// Returns why a device takes all of a scan from there.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Table(_) => Reason::Resident,
            Self::Array(_) => Reason::Generated,
            Self::Pinned(_) => Reason::EarliestFinish,
        }
    }
}

/// A place to look in.
#[derive(Debug)]
enum Known {
    /// Automatic tables may go meanwhile.
    Table(Weak<CachedTable>),
    Array(Arc<ArrayScan>),
}

impl Known {
    fn of(origin: &Origin) -> Option<Self> {
        match origin {
            Origin::Table(table) => Some(Self::Table(Arc::downgrade(table))),
            Origin::Array(array) => Some(Self::Array(Arc::clone(array))),
            Origin::Pinned(_) => None,
        }
    }

    /// Returns the place if it is still there.
    fn origin(&self) -> Option<Origin> {
        match self {
            Self::Table(table) => table.upgrade().map(Origin::Table),
            Self::Array(array) => Some(Origin::Array(Arc::clone(array))),
        }
    }
}

/// Where all morsels of a scan come from.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Where.
    pub(crate) origin: Origin,
    /// The scan's rows.
    pub(crate) num_rows: u64,
}

/// What a scan is of which nothing must be read: each of its morsels is on a device or below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AtHand {
    /// All of its rows.
    pub(crate) num_rows: u64,
    /// Those that lie below the device, with the bytes that move for them.
    pub(crate) below: Rest,
}

/// A morsel that a device need not be given.
#[derive(Debug)]
pub(crate) struct ResidentMorsel {
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// What it is there.
    pub(crate) rows: ResidentRows,
    /// The numbers of its columns in the table.
    columns: Vec<usize>,
}

/// Rows that a device need not be given.
#[derive(Debug)]
pub(crate) enum ResidentRows {
    /// Columns of a table.
    Stored(StoredMorsel),
    /// A part of an array.
    Part(Part),
}

impl ResidentRows {
    /// Returns how many there are.
    pub(crate) fn num_rows(&self) -> u64 {
        match self {
            Self::Stored(stored) => stored.num_rows,
            Self::Part(part) => part.num_values(),
        }
    }
}

impl ResidentMorsel {
    /// Counts a use of each of its chunks.
    pub(crate) fn hit(&self) {
        if let Origin::Table(table) = &self.origin {
            for column in &self.columns {
                table.hit(*column, 1);
            }
        }
    }
}

/// Finds resident morsels for one pipeline on one device, in the tables that were cached when it
/// was made, else in the array that the device makes.
#[derive(Debug)]
pub(crate) struct Residency {
    known: Vec<Known>,
    /// The only place to look in, which stays.
    pinned: Option<Origin>,
    /// What lies below the devices, if anything does.
    below: Option<Arc<PinnedTier>>,
    loader: Arc<dyn MorselLoader>,
    pipeline: Arc<Pipeline>,
}

impl Residency {
    pub(crate) fn new(
        cache: &ColumnCache,
        device: &Arc<dyn PipelineDevice>,
        loader: &Arc<dyn MorselLoader>,
        pipeline: &Arc<Pipeline>,
    ) -> Self {
        // A morsel of no columns has nothing that could be resident.
        let may_be_resident = loader.names_chunks() && !pipeline.input.fields().is_empty();
        let mut known = Vec::new();
        if may_be_resident {
            let tables = cache.on_device(device.info().id);
            known.extend(tables.iter().map(Arc::downgrade).map(Known::Table));
        }
        let below = may_be_resident && !cache.pinned().is_empty();
        let below = below.then(|| Arc::clone(cache.pinned()));
        let array = loader.array();
        let array = array.filter(|array| device.generates(pipeline, &array.source));
        known.extend(array.map(Known::Array));
        Self {
            known,
            pinned: None,
            below,
            loader: Arc::clone(loader),
            pipeline: Arc::clone(pipeline),
        }
    }

    /// Returns whether every morsel must be loaded.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.below.is_none()
    }

    /// Returns whether there may be something below the device.
    pub(crate) fn looks_below(&self) -> bool {
        self.below.is_some()
    }

    /// Looks only there from now on; nowhere with `None`.
    pub(crate) fn pin(&mut self, origin: Option<Origin>) {
        self.known = origin.iter().filter_map(Known::of).collect();
        self.below = None;
        self.pinned = origin;
    }

    /// Returns whether tables may hold some of it.
    pub(crate) fn has_tables(&self) -> bool {
        let is_table = |known: &Known| matches!(known, Known::Table(_));
        self.known.iter().any(is_table)
    }

    /// Returns how many rows a morsel of an identified piece has, if a table holds it.
    pub(crate) fn rows_held(&self, morsel: MorselId) -> Option<u64> {
        let found = self.find(morsel)?;
        matches!(found.origin, Origin::Table(_)).then(|| found.rows.num_rows())
    }

    /// Lists the whole scan, and returns where all of it comes from, if there is such a place.
    pub(crate) async fn whole_scan(
        &self,
        queue: &MorselQueue,
    ) -> Result<Option<Holder>, RunFailure> {
        if self.known.is_empty() {
            return Ok(None);
        }
        identify(&self.loader, queue, (0..queue.num_pieces()).collect()).await?;
        let morsels = queue.morsels();
        let rows_in = |origin: &Origin| match origin {
            Origin::Array(array) => Some(array.parts.iter().map(Part::num_values).sum()),
            Origin::Table(table) => {
                let found = morsels
                    .iter()
                    .map(|morsel| self.find_in_table(table, morsel.id));
                let rows = found.map(|morsel| morsel.map(|morsel| morsel.rows.num_rows()));
                rows.sum::<Option<u64>>()
            }
            Origin::Pinned(_) => None,
        };
        Ok(self.known.iter().find_map(|known| {
            let origin = known.origin()?;
            let num_rows = rows_in(&origin).filter(|rows| *rows > 0)?;
            Some(Holder { origin, num_rows })
        }))
    }

    /// Returns what a listed and identified scan is, if nothing of it must be read and some of it lies
    /// below the device.
    pub(crate) fn all_at_hand(&self, queue: &MorselQueue) -> Option<AtHand> {
        let mut all = AtHand::default();
        for morsel in queue.morsels() {
            if let Some(found) = self.find(morsel.id) {
                all.num_rows += found.rows.num_rows();
                continue;
            }
            let size = self.find_below(morsel.id)?.size();
            all.num_rows += size.num_rows;
            all.below.add(size);
        }
        (all.below.num_morsels > 0).then_some(all)
    }

    /// Finds a morsel of an identified piece.
    pub(crate) fn find(&self, morsel: MorselId) -> Option<ResidentMorsel> {
        let mut known = self.known.iter();
        known.find_map(|known| self.find_in(&known.origin()?, morsel))
    }

    fn find_in(&self, origin: &Origin, morsel: MorselId) -> Option<ResidentMorsel> {
        match origin {
            Origin::Table(table) => self.find_in_table(table, morsel),
            Origin::Array(array) => Some(ResidentMorsel {
                origin: origin.clone(),
                rows: ResidentRows::Part(array.parts.get(morsel.index)?.clone()),
                columns: Vec::new(),
            }),
            Origin::Pinned(_) => None,
        }
    }

    /// Returns what tells a device which kernels it needs for a resident morsel and all others of the
    /// same origin, as far as they are known.
    pub(crate) fn sample(&self, found: ResidentMorsel, queue: &MorselQueue) -> Option<Sample> {
        let table = match &found.origin {
            Origin::Array(array) => return Some(Sample::Generated(Arc::clone(&array.source))),
            Origin::Table(table) => table,
            Origin::Pinned(_) => return None,
        };
        let morsels = queue.morsels();
        let stored = morsels.iter().filter_map(|morsel| {
            let found = self.find_in_table(table, morsel.id)?;
            match found.rows {
                ResidentRows::Stored(stored) => Some(stored),
                ResidentRows::Part(_) => None,
            }
        });
        Some(Sample::Stored(StoredRun::new(stored.collect())))
    }

    /// Finds a morsel of an identified piece below the devices.
    pub(crate) fn find_below(&self, morsel: MorselId) -> Option<PinnedMorsel> {
        let below = self.below.as_ref()?;
        let columns = 0..self.pipeline.input.fields().len();
        let keys = columns.map(|column| self.loader.chunk_key(morsel, column));
        let keys: Vec<ChunkKey> = keys.collect::<Option<_>>()?;
        let found = below.find(&keys)?;
        let num_rows = found.num_rows();
        let mut chunks = found.chunks.iter();
        let is_even = chunks.all(|chunk| chunk.column().num_rows() == num_rows);
        is_even.then_some(found)
    }

    fn find_in_table(&self, table: &Arc<CachedTable>, morsel: MorselId) -> Option<ResidentMorsel> {
        let num_columns = self.pipeline.input.fields().len();
        let mut stored = Vec::with_capacity(num_columns);
        let mut columns = Vec::with_capacity(num_columns);
        for column in 0..num_columns {
            let key = self.loader.chunk_key(morsel, column)?;
            let (number, chunk) = table.get(&key)?;
            stored.push(Arc::clone(&chunk.stored));
            columns.push(number);
        }
        let num_rows = stored.first()?.num_rows();
        if stored.iter().any(|column| column.num_rows() != num_rows) {
            return None;
        }
        Some(ResidentMorsel {
            origin: Origin::Table(Arc::clone(table)),
            rows: ResidentRows::Stored(StoredMorsel {
                num_rows,
                columns: stored,
            }),
            columns,
        })
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
