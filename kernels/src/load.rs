//! Rows on their way to a device: which of them are encoded together, and where in the device's memory
//! they come to lie.
//!
//! A [`Load`] is columns of the same rows for one piece of device memory. It is filled in pieces, each of
//! which is written to a slot of host memory and arrives by one copy; any threads write them, in any order.
//! The rows that a fold takes are cut into [chunks](Load::chunks), each with all columns, so that a piece is
//! a chunk and a small morsel a single piece. A column that stays is one chunk of many pieces.
//!
//! How values are written is guessed from some of them. If others do not fit, what was written is void, and
//! a [second load](Load::refitted) is made, in which they do. `feed` has threads fill a load.

mod feed;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use arrow_array::{ArrayRef, RecordBatch};
use parking_lot::Mutex;
use tidegate_device::Threads;
use tidegate_pipeline::interpret::evaluate;
use tidegate_pipeline::{EvalError, ExprKind, Scalar};

use crate::backend::RunError;
use crate::encode::{Encoder, Narrowing, PADDED_ROWS, Reader, Seen, padded};
use crate::engine::{ResidentChunk, ResidentColumn};
use crate::program::{Slot, SlotFacts};
use crate::stored::ColumnDictionary;

pub(crate) use feed::{Clock, Dock, Filled, Order};

/// Columns of a chunk begin at multiples of this on the device.
pub(crate) const COLUMN_ALIGNMENT: usize = 256;

/// Rows of a chunk at the most: a kernel reads as many as one segment.
const CHUNK_ROWS_MAX: usize = 1 << 20;

/// Pieces into which rows are cut at least, so that several threads share one morsel, ...
const PIECES_MIN: usize = 6;

/// ... unless pieces then have fewer bytes: copies of 1 MiB reach 88 % of the rate of a PCIe 5 link, copies
/// of 4 MiB 97 %.
const PIECE_BYTES_MIN: usize = 1 << 20;

/// Threads that fill a load for whoever waits for it.
const THREADS_AT_ONCE_MAX: usize = 8;

/// Cores that are left to the device's own thread and to whoever reads the next rows: as many threads as
/// there are cores encode no faster.
const CORES_LEFT: usize = 2;

/// Makes the threads that encode for a device. Each device has its own, for they wait for its slots.
pub(crate) fn encoders() -> Threads {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Threads::new("tidegate-encode", cores.saturating_sub(CORES_LEFT))
}

/// What of a pipeline's batches is encoded for its device.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) slots: Vec<Slot>,
    pub(crate) parameters: Vec<Scalar>,
    /// The dictionary of each slot, which only strings use.
    pub(crate) dictionaries: Vec<Arc<ColumnDictionary>>,
}

impl Intake {
    /// Takes the values of a slot.
    ///
    /// # Errors
    /// What the host's evaluation of an expression over strings raises, and types without a device form.
    fn column(&self, index: usize, batches: &[RecordBatch]) -> Result<Encoder, EvalError> {
        let (slot, dictionary) = (&self.slots[index], &self.dictionaries[index]);
        let arrays = batches.iter().map(|batch| match slot.expr.kind {
            ExprKind::Column(index) => Ok(ArrayRef::clone(batch.column(index))),
            _ => evaluate(&slot.expr, &self.parameters, batch),
        });
        let arrays = arrays.collect::<Result<Vec<_>, EvalError>>()?;
        Encoder::new(slot.kind, &arrays, &dictionary.strings, Narrowing::Width)
    }

    /// Encodes batches at once, for a machine that is given `slot_bytes` at a time; returns the load and
    /// the bytes of its pieces.
    ///
    /// # Errors
    /// As [`column`](Self::column).
    pub(crate) fn encode(
        &self,
        batches: &[RecordBatch],
        slot_bytes: usize,
    ) -> Result<(Load, Vec<Vec<u8>>), RunError> {
        let columns = (0..self.slots.len()).map(|index| self.column(index, batches));
        let columns = columns.collect::<Result<Vec<_>, EvalError>>()?;
        let load = Load::of_rows(columns, rows_of(batches), slot_bytes);
        let pieces = load.fill_all();
        if load.fits() {
            return Ok((load, pieces));
        }
        let load = load.refitted();
        let pieces = load.fill_all();
        match load.fits() {
            true => Ok((load, pieces)),
            false => Err(unfit()),
        }
    }
}

/// Returns the rows of batches.
fn rows_of(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Says that values do not fit what all of them tell, which cannot be.
pub(crate) fn unfit() -> RunError {
    RunError::Eval(EvalError::Internal {
        what: "a column does not fit what all of its values say".into(),
    })
}

/// Columns of some rows, cut into pieces.
pub(crate) struct Load {
    columns: Vec<Encoder>,
    num_rows: usize,
    form: Form,
    chunks: Vec<Chunk>,
    parts: Vec<Part>,
    pieces: Vec<Piece>,
    bytes: usize,
    /// What was seen of each column.
    seen: Mutex<Vec<Seen>>,
    /// Some value does not fit.
    is_unfit: AtomicBool,
}

/// How a load is cut.
#[derive(Clone, Copy)]
struct Form {
    slot_bytes: usize,
    /// Into one chunk, however many rows there are.
    is_whole: bool,
}

/// Rows whose columns each lie in one stretch.
struct Chunk {
    num_rows: usize,
    /// Where each column's values and its validity begin.
    columns: Vec<(usize, usize)>,
}

/// Values or validity of some rows of a column, in one piece.
struct Part {
    column: usize,
    rows: Range<usize>,
    is_validity: bool,
    offset: usize,
    bytes: usize,
}

/// Parts next to each other that one slot holds.
pub(crate) struct Piece {
    parts: Range<usize>,
    /// Where it begins in the device's memory.
    pub(crate) offset: usize,
    /// How many bytes there are; 0 if all is constant, which is looked at all the same.
    pub(crate) bytes: usize,
}

impl Load {
    /// Cuts columns into chunks of rows that fit into slots.
    pub(crate) fn of_rows(columns: Vec<Encoder>, num_rows: usize, slot_bytes: usize) -> Self {
        let form = Form {
            slot_bytes,
            is_whole: false,
        };
        Self::cut(columns, num_rows, form)
    }

    /// Takes a column that is to lie in one stretch.
    pub(crate) fn of_column(column: Encoder, slot_bytes: usize) -> Self {
        let num_rows = column.num_rows();
        let form = Form {
            slot_bytes,
            is_whole: true,
        };
        Self::cut(vec![column], num_rows, form)
    }

    fn cut(columns: Vec<Encoder>, num_rows: usize, form: Form) -> Self {
        let (rows_at_once, piece_bytes) = match form.is_whole {
            true => (num_rows.max(1), form.slot_bytes),
            false => rows_of_piece(&columns, num_rows, form.slot_bytes),
        };
        let mut load = Self {
            seen: Mutex::new(vec![Seen::NOTHING; columns.len()]),
            columns,
            num_rows,
            form,
            chunks: Vec::new(),
            parts: Vec::new(),
            pieces: Vec::new(),
            bytes: 0,
            is_unfit: AtomicBool::new(false),
        };
        for start in (0..num_rows).step_by(rows_at_once) {
            load.place(start..num_rows.min(start + rows_at_once));
        }
        load.gather(piece_bytes);
        load
    }

    /// Gives all columns of some rows their places, behind those of the rows before.
    fn place(&mut self, rows: Range<usize>) {
        let places = (0..self.columns.len()).map(|column| {
            let values = self.bytes.next_multiple_of(COLUMN_ALIGNMENT);
            let width = self.columns[column].width();
            self.bytes = values + padded(rows.len()) * width;
            let at_once = match width {
                0 => rows.len(),
                _ => self.form.slot_bytes / width / PADDED_ROWS * PADDED_ROWS,
            };
            let bytes_of = |part: &Range<usize>| padded(part.len()) * width;
            put(
                &mut self.parts,
                column,
                false,
                &rows,
                (at_once, values),
                bytes_of,
            );
            let has_nulls = self.columns[column].validity().is_some();
            let validity = match has_nulls {
                true => self.bytes.next_multiple_of(COLUMN_ALIGNMENT),
                false => self.bytes,
            };
            if has_nulls {
                self.bytes = validity + words_of(rows.len()) * WORD;
                let at_once = self.form.slot_bytes / WORD * PADDED_ROWS;
                let bytes_of = |part: &Range<usize>| words_of(part.len()) * WORD;
                put(
                    &mut self.parts,
                    column,
                    true,
                    &rows,
                    (at_once, validity),
                    bytes_of,
                );
            }
            (values, validity)
        });
        let columns = places.collect();
        self.chunks.push(Chunk {
            num_rows: rows.len(),
            columns,
        });
    }

    /// Puts parts together, up to so many bytes.
    fn gather(&mut self, piece_bytes: usize) {
        for (index, part) in self.parts.iter().enumerate() {
            let end = part.offset + part.bytes;
            match self.pieces.last_mut() {
                Some(last) if end - last.offset <= piece_bytes => {
                    last.parts.end = index + 1;
                    last.bytes = end - last.offset;
                }
                _ => self.pieces.push(Piece {
                    parts: index..index + 1,
                    offset: part.offset,
                    bytes: part.bytes,
                }),
            }
        }
    }

    /// Returns the pieces, each of which is to be filled once.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns how many bytes of the device's memory there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the columns.
    pub(crate) fn columns(&self) -> &[Encoder] {
        &self.columns
    }

    /// Writes a piece to the front of a slot.
    ///
    /// # Panics
    /// If the slot is smaller than the piece.
    pub(crate) fn fill(&self, piece: &Piece, slot: &mut [u8]) {
        for part in &self.parts[piece.parts.clone()] {
            let column = &self.columns[part.column];
            let at = part.offset - piece.offset;
            let into = &mut slot[at..at + part.bytes];
            if part.is_validity {
                let words = column.validity().unwrap_or_default();
                let first = part.rows.start / PADDED_ROWS;
                for (place, word) in into.as_chunks_mut().0.iter_mut().zip(&words[first..]) {
                    *place = word.to_le_bytes();
                }
                continue;
            }
            let (values, padding) = into.split_at_mut(part.rows.len() * column.width());
            let seen = column.write(part.rows.clone(), values, Reader::Device);
            padding.fill(0);
            if !column.fits(&seen) {
                self.is_unfit.store(true, Ordering::Release);
            }
            self.seen.lock()[part.column].add(seen);
        }
    }

    /// Returns whether all values that were written so far are what they were taken for.
    pub(crate) fn fits(&self) -> bool {
        !self.is_unfit.load(Ordering::Acquire)
    }

    /// Looks at all values of the columns that do not fit; what it returns they fit.
    pub(crate) fn refitted(&self) -> Self {
        let seen = self.seen.lock();
        let columns = self.columns.iter().zip(seen.iter());
        let columns = columns.map(|(column, seen)| match column.fits(seen) {
            true => column.clone(),
            false => column.refitted(),
        });
        Self::cut(columns.collect(), self.num_rows, self.form)
    }

    /// Returns what is known of the columns' values, once all is filled.
    pub(crate) fn facts(&self) -> Vec<SlotFacts> {
        let seen = self.seen.lock();
        let columns = self.columns.iter().zip(seen.iter());
        columns.map(|(column, seen)| column.facts(seen)).collect()
    }

    /// Returns the chunks as a kernel reads them, in memory that begins at an address.
    pub(crate) fn chunks(&self, address: u64) -> Vec<ResidentChunk> {
        let chunks = self.chunks.iter().map(|chunk| {
            let columns = self.columns.iter().zip(&chunk.columns);
            let columns = columns.map(|(column, places)| resident(column, *places, address));
            ResidentChunk {
                num_rows: chunk.num_rows as u64,
                columns: columns.collect(),
            }
        });
        chunks.collect()
    }

    /// Returns the one column of a load that is one, in memory that begins at an address.
    pub(crate) fn column(&self, address: u64) -> Option<ResidentColumn> {
        let column = self.columns.first()?;
        let none = (self.bytes, self.bytes);
        let places = self.chunks.first().map_or(none, |chunk| chunk.columns[0]);
        Some(resident(column, places, address))
    }

    /// Fills all pieces, in memory of their own, by several threads if there are several.
    fn fill_all(&self) -> Vec<Vec<u8>> {
        let filled: Mutex<Vec<Vec<u8>>> = Mutex::new(vec![Vec::new(); self.pieces.len()]);
        let next = AtomicUsize::new(0);
        let fill = || {
            while let Some((number, piece)) = self.next_piece(&next) {
                let mut bytes = vec![0; piece.bytes];
                self.fill(piece, &mut bytes);
                filled.lock()[number] = bytes;
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let num_threads = cores.min(self.pieces.len()).min(THREADS_AT_ONCE_MAX);
        thread::scope(|scope| {
            for _ in 1..num_threads {
                let thread = thread::Builder::new().name("tidegate-encode".to_owned());
                // A system that gives no thread gets it done by this one.
                let _ = thread.spawn_scoped(scope, fill);
            }
            fill();
        });
        filled.into_inner()
    }

    fn next_piece(&self, next: &AtomicUsize) -> Option<(usize, &Piece)> {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let piece = self.pieces.get(number)?;
        self.fits().then_some((number, piece))
    }
}

/// Describes a column whose values and validity lie at these places behind an address.
fn resident(column: &Encoder, (values, validity): (usize, usize), address: u64) -> ResidentColumn {
    let (base, factor) = column.scale();
    ResidentColumn {
        values: address + values as u64,
        validity: match column.validity() {
            Some(_) => address + validity as u64,
            None => 0,
        },
        base,
        factor,
        width: column.width() as u32,
    }
}

/// Bytes of a word of validity.
const WORD: usize = size_of::<u32>();

/// Words of the validity of so many rows.
fn words_of(rows: usize) -> usize {
    rows.div_ceil(PADDED_ROWS)
}

/// Cuts some rows of a column into parts of `at_once` rows, which lie next to each other from an offset on.
fn put(
    parts: &mut Vec<Part>,
    column: usize,
    is_validity: bool,
    rows: &Range<usize>,
    (at_once, mut offset): (usize, usize),
    bytes_of: impl Fn(&Range<usize>) -> usize,
) {
    for start in rows.clone().step_by(at_once.max(PADDED_ROWS)) {
        let rows = start..rows.end.min(start + at_once.max(PADDED_ROWS));
        let bytes = bytes_of(&rows);
        parts.push(Part {
            column,
            rows,
            is_validity,
            offset,
            bytes,
        });
        offset += bytes;
    }
}

/// Returns how many rows are encoded together, and how many bytes these may be: all columns of them fit into
/// a slot, they are enough for a good copy, and there are some pieces of them if that can be.
fn rows_of_piece(columns: &[Encoder], num_rows: usize, slot_bytes: usize) -> (usize, usize) {
    let bits = |column: &Encoder| 8 * column.width() + usize::from(column.validity().is_some());
    let row_bits: usize = columns.iter().map(bits).sum();
    let gaps = 2 * COLUMN_ALIGNMENT * columns.len();
    let share = (num_rows * row_bits).div_ceil(8 * PIECES_MIN) + gaps;
    let bytes = share.max(PIECE_BYTES_MIN).min(slot_bytes);
    let fitting = match row_bits {
        0 => CHUNK_ROWS_MAX,
        _ => bytes.saturating_sub(gaps) * 8 / row_bits,
    };
    let most = (fitting / PADDED_ROWS * PADDED_ROWS).clamp(PADDED_ROWS, CHUNK_ROWS_MAX);
    // Pieces of one size.
    let num_pieces = num_rows.div_ceil(most).max(1);
    let rows = num_rows.div_ceil(num_pieces).max(1);
    (rows.next_multiple_of(PADDED_ROWS), bytes)
}
