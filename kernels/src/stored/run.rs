//! Morsels that one launch takes together, and what is found out about them once.
//!
//! A run of a whole table is folded by one query after the other. What is known of its values, and
//! where its columns lie, does not change: it is gathered at the first fold and kept here.

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::{ColumnDictionary, Moving, Payload, StoredMorsel};
use crate::engine::{ResidentChunk, ResidentColumn, Segments};
use crate::program::{DeviceProgram, SlotFacts};

/// Descriptors of so many selections of columns are kept.
const SELECTIONS_MAX: usize = 16;

/// Resident morsels, all with the same columns in the same order.
pub struct StoredRun {
    morsels: Vec<StoredMorsel>,
    num_rows: u64,
    columns: Vec<OnceLock<Result<RunColumn, NotOneColumn>>>,
    selections: Mutex<Vec<Selection>>,
    /// How its columns came to the device, if they came for this run.
    moving: Vec<Moving>,
}

/// One column of all morsels.
pub(crate) struct RunColumn {
    /// What is known of the values of all chunks.
    pub(crate) facts: SlotFacts,
    /// The dictionary of the chunks' codes, if they are strings.
    pub(crate) dictionary: Option<Arc<ColumnDictionary>>,
    places: Vec<ResidentColumn>,
}

/// Why the chunks cannot be read as one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOneColumn {
    /// A chunk is not in the memory of a GPU, or there is none.
    Elsewhere,
    /// Chunks have codes of several dictionaries.
    SeveralDictionaries,
}

/// Descriptors of some columns, cut for tiles of some size.
struct Selection {
    columns: Vec<usize>,
    tile_rows: u32,
    segments: Arc<Segments>,
}

impl StoredRun {
    /// Makes a run of morsels.
    pub fn new(morsels: Vec<StoredMorsel>) -> Arc<Self> {
        Self::moved(morsels, Vec::new())
    }

    /// Makes a run of morsels whose columns came to the device for it; its fold counts what that took as
    /// [`upload`](crate::Phases::upload).
    pub fn moved(morsels: Vec<StoredMorsel>, moving: Vec<Moving>) -> Arc<Self> {
        let num_columns = morsels.first().map_or(0, |morsel| morsel.columns.len());
        Arc::new(Self {
            num_rows: morsels.iter().map(|morsel| morsel.num_rows).sum(),
            columns: (0..num_columns).map(|_| OnceLock::new()).collect(),
            morsels,
            selections: Mutex::default(),
            moving,
        })
    }

    /// Returns the morsels.
    pub fn morsels(&self) -> &[StoredMorsel] {
        &self.morsels
    }

    /// Returns how its columns came to the device, if they came for this run.
    pub(crate) fn moving(&self) -> &[Moving] {
        &self.moving
    }

    /// Returns how many rows there are.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns a column of all morsels.
    pub(crate) fn column(&self, column: usize) -> Result<&RunColumn, NotOneColumn> {
        let Some(known) = self.columns.get(column) else {
            return Err(NotOneColumn::Elsewhere);
        };
        let gathered = known.get_or_init(|| self.gather(column));
        gathered.as_ref().map_err(|why| *why)
    }

    fn gather(&self, column: usize) -> Result<RunColumn, NotOneColumn> {
        let mut gathered: Option<RunColumn> = None;
        for morsel in &self.morsels {
            let stored = morsel.columns.get(column).ok_or(NotOneColumn::Elsewhere)?;
            let Payload::Cuda {
                column: place,
                facts,
                ..
            } = &stored.payload
            else {
                return Err(NotOneColumn::Elsewhere);
            };
            let Some(so_far) = &mut gathered else {
                let mut places = Vec::with_capacity(self.morsels.len());
                places.push(*place);
                gathered = Some(RunColumn {
                    facts: facts.clone(),
                    dictionary: stored.dictionary.clone(),
                    places,
                });
                continue;
            };
            so_far.facts = so_far.facts.join(facts);
            so_far.places.push(*place);
            match (&so_far.dictionary, &stored.dictionary) {
                (Some(known), Some(of_chunk)) if !Arc::ptr_eq(known, of_chunk) => {
                    return Err(NotOneColumn::SeveralDictionaries);
                }
                (None, Some(of_chunk)) => so_far.dictionary = Some(Arc::clone(of_chunk)),
                _ => {}
            }
        }
        gathered.ok_or(NotOneColumn::Elsewhere)
    }

    /// Returns the run's segments for a program whose slots read these columns, in order.
    pub(crate) fn segments(
        &self,
        program: &DeviceProgram,
        columns: &[usize],
    ) -> Result<Arc<Segments>, NotOneColumn> {
        let mut selections = self.selections.lock();
        let known = selections.iter().position(|selection| {
            selection.columns == columns && selection.tile_rows == program.tile_rows
        });
        if let Some(known) = known {
            return Ok(Arc::clone(&selections[known].segments));
        }
        let places = columns.iter().map(|&column| self.column(column));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let chunk = |(index, morsel): (usize, &StoredMorsel)| ResidentChunk {
            num_rows: morsel.num_rows,
            columns: places.iter().map(|column| column.places[index]).collect(),
        };
        let chunks: Vec<ResidentChunk> = self.morsels.iter().enumerate().map(chunk).collect();
        let segments = Arc::new(Segments::of(program, &chunks).kept());
        if selections.len() == SELECTIONS_MAX {
            selections.remove(0);
        }
        selections.push(Selection {
            columns: columns.to_vec(),
            tile_rows: program.tile_rows,
            segments: Arc::clone(&segments),
        });
        Ok(segments)
    }
}

impl fmt::Debug for StoredRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRun")
            .field("morsels", &self.morsels.len())
            .field("num_rows", &self.num_rows)
            .finish_non_exhaustive()
    }
}
