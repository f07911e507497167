//! Column chunks as they lie on a device, made from Arrow arrays.
//!
//! Integers, dates, decimals, booleans and codes of strings are narrowed: `base + factor * raw` with
//! an unsigned raw value of 0, 1, 2, 4 or 8 bytes, chosen from the chunk's own least and greatest
//! value; a decimal beyond 64 bits stays plain at 16 bytes, floats stay plain. Where a value is NULL
//! the raw value is 0, so that what lies there is in the chunk's range.

mod dictionary;
mod floats;
mod integers;
mod validity;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parking_lot::Mutex;
use tidegate_pipeline::interpret::evaluate;
use tidegate_pipeline::{EvalError, ExprKind, Scalar};

use crate::program::{Slot, SlotFacts, SlotKind};

use dictionary::ChunkStrings;
pub use dictionary::Dictionary;
use validity::Validity;

/// Rows to which a chunk's values are padded, so that wide loads stay inside.
const PADDED_ROWS: usize = 32;

/// Values that are written together.
const APPENDED_AT_ONCE: usize = 2048;

/// One column of one chunk, ready to be copied to a device.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedColumn {
    /// Rows, without padding.
    pub num_rows: usize,
    /// Bytes of a raw value; 0 for a constant.
    pub width: u32,
    /// What is added to a scaled raw value; of a constant the value.
    pub base: i64,
    /// What a raw value is multiplied by.
    pub factor: i64,
    /// The raw values, padded to whole groups of 32 rows.
    pub values: Vec<u8>,
    /// Arrow's validity as words of 32 rows, if some value is NULL.
    pub validity: Option<Vec<u32>>,
    /// What is known of the chunk's values.
    pub facts: SlotFacts,
}

impl EncodedColumn {
    /// Returns the bytes that the chunk takes on a device.
    pub fn device_bytes(&self) -> u64 {
        let validity = self.validity.as_ref().map_or(0, |words| words.len() * 4);
        (self.values.len() + validity) as u64
    }
}

impl EncodedColumn {
    /// Returns every value as a word of 64 bits: integers sign-extended, the bits of floats.
    pub fn words(&self) -> Vec<i64> {
        let width = self.width as usize;
        let raw = |row: usize| {
            let mut bytes = [0; 8];
            let from = row * width;
            let taken = width.min(8);
            bytes[..taken].copy_from_slice(&self.values[from..from + taken]);
            i64::from_le_bytes(bytes)
        };
        let value = |row: usize| raw(row).wrapping_mul(self.factor).wrapping_add(self.base);
        (0..self.num_rows).map(value).collect()
    }

    /// Returns whether a row has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        validity::is_valid(self.validity.as_deref(), row)
    }
}

/// How far a chunk is narrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowing {
    /// To the least width for the distance between its least and its greatest value.
    Width,
    /// The same, after dividing by the greatest common factor.
    Factor,
}

/// Encodes one slot of a chunk.
///
/// `dictionary` is the growing dictionary of the slot's column, used only by strings.
///
/// # Errors
/// What the host's evaluation of an expression over strings raises, and types without a device form.
pub fn encode(
    slot: &Slot,
    parameters: &[Scalar],
    batches: &[RecordBatch],
    dictionary: &mut Dictionary,
    narrowing: Narrowing,
) -> Result<EncodedColumn, EvalError> {
    let arrays = batches
        .iter()
        .map(|batch| match slot.expr.kind {
            ExprKind::Column(index) => Ok(ArrayRef::clone(batch.column(index))),
            _ => evaluate(&slot.expr, parameters, batch),
        })
        .collect::<Result<Vec<_>, EvalError>>()?;
    encode_arrays(slot.kind, &arrays, dictionary, narrowing)
}

/// Encodes a column of one chunk. The dictionary, which only strings use, is locked for as long as
/// it takes to ask for each string of the chunk once.
pub(crate) fn encode_column(
    kind: SlotKind,
    arrays: &[ArrayRef],
    dictionary: &Mutex<Dictionary>,
    narrowing: Narrowing,
) -> Result<EncodedColumn, EvalError> {
    if kind != SlotKind::Code {
        return encode_arrays(kind, arrays, &mut Dictionary::default(), narrowing);
    }
    let strings = ChunkStrings::of(arrays)?;
    let codes = dictionary.lock().adopt(&strings);
    let validity = Validity::of(arrays);
    Ok(integers::narrowed(&[&codes], validity, Narrowing::Width))
}

/// Encodes the arrays of one chunk, as [`encode`] does.
fn encode_arrays(
    kind: SlotKind,
    arrays: &[ArrayRef],
    dictionary: &mut Dictionary,
    narrowing: Narrowing,
) -> Result<EncodedColumn, EvalError> {
    let validity = Validity::of(arrays);
    match kind {
        SlotKind::Float32 => Ok(floats::float32(arrays, validity)),
        SlotKind::Float64 => Ok(floats::float64(arrays, validity)),
        SlotKind::Integer => integers::encode(arrays, validity, narrowing),
        SlotKind::Code => {
            let codes = dictionary.adopt(&ChunkStrings::of(arrays)?);
            Ok(integers::narrowed(&[&codes], validity, Narrowing::Width))
        }
    }
}

fn padded(num_rows: usize) -> usize {
    num_rows.next_multiple_of(PADDED_ROWS)
}

/// Appends the bytes of each value, a stretch of them at a time so that they stay in a near cache.
fn append<T: Copy, const WIDTH: usize>(
    bytes: &mut Vec<u8>,
    values: &[T],
    bytes_of: &impl Fn(T) -> [u8; WIDTH],
) {
    for values in values.chunks(APPENDED_AT_ONCE) {
        let from = bytes.len();
        bytes.resize(from + values.len() * WIDTH, 0);
        let (places, _) = bytes[from..].as_chunks_mut::<WIDTH>();
        for (place, value) in places.iter_mut().zip(values) {
            *place = bytes_of(*value);
        }
    }
}

/// Appends the bytes of each value whose bit is set, and zeroes for the others.
fn append_valid<T: Copy, const WIDTH: usize>(
    bytes: &mut Vec<u8>,
    values: &[T],
    bits: u32,
    bytes_of: &impl Fn(T) -> [u8; WIDTH],
) {
    let from = bytes.len();
    append(bytes, values, bytes_of);
    let (places, _) = bytes[from..].as_chunks_mut::<WIDTH>();
    for (index, place) in places.iter_mut().enumerate() {
        // Without a branch: it would be taken at random.
        let mask = (((bits >> index) & 1) as u8).wrapping_neg();
        for byte in place {
            *byte &= mask;
        }
    }
}

/// Says that a type cannot be held by a device.
fn unsupported(data_type: &DataType) -> EvalError {
    EvalError::Internal {
        what: format!("a chunk of {data_type} was given to a device"),
    }
}
