//! Column chunks as they lie on a device, made from Arrow arrays.
//!
//! Integers, dates, decimals, booleans and codes of strings are narrowed: `base + factor * raw` with
//! an unsigned raw value of 0, 1, 2, 4 or 8 bytes, as few as the chunk's values need; a decimal beyond
//! 64 bits stays plain at 16 bytes, floats stay plain. Where a value is NULL lies one of the chunk's
//! values, of a float 0, so that what lies there is in the chunk's range.
//!
//! `layout` chooses base, factor and width, `survey` looks at values for that, `write` writes them, `lines`
//! writes words past the caches, `fill` leaves no NULL among them, `encoder` has all of it done for a chunk,
//! `strings` turns strings into codes.

mod column;
mod encoder;
mod fill;
mod layout;
mod lines;
mod native;
mod strings;
mod survey;
mod validity;
mod write;

#[cfg(test)]
mod tests;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parking_lot::RwLock;
use tidegate_pipeline::interpret::evaluate;
use tidegate_pipeline::{EvalError, ExprKind, Scalar};

use crate::program::{Slot, SlotFacts};
use crate::strings::Dictionary;

pub(crate) use encoder::Encoder;
pub(crate) use survey::Divisor;
pub(crate) use write::{Reader, Seen};

/// Rows to which a chunk's values are padded, so that wide loads stay inside.
pub(crate) const PADDED_ROWS: usize = 32;

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
    let strings = RwLock::new(std::mem::take(dictionary));
    let encoder = Encoder::new(slot.kind, &arrays, &strings, narrowing);
    *dictionary = strings.into_inner();
    Ok(written(encoder?))
}

/// Writes all of a chunk into memory of its own.
fn written(mut encoder: Encoder) -> EncodedColumn {
    let num_rows = encoder.num_rows();
    let write = |encoder: &Encoder| {
        let width = encoder.width();
        let mut values = vec![0; padded(num_rows) * width];
        let seen = encoder.write(0..num_rows, &mut values[..num_rows * width], Reader::Host);
        (values, seen)
    };
    let (mut values, mut seen) = write(&encoder);
    if !encoder.fits(&seen) {
        encoder = encoder.refitted();
        (values, seen) = write(&encoder);
    }
    let (base, factor) = encoder.scale();
    EncodedColumn {
        num_rows,
        width: encoder.width() as u32,
        base,
        factor,
        values,
        facts: encoder.facts(&seen),
        validity: encoder.validity().map(<[u32]>::to_vec),
    }
}

/// Returns the rows that a chunk has with its padding.
pub(crate) fn padded(num_rows: usize) -> usize {
    num_rows.next_multiple_of(PADDED_ROWS)
}

/// Says that a type cannot be held by a device.
fn unsupported(data_type: &DataType) -> EvalError {
    EvalError::Internal {
        what: format!("a chunk of {data_type} was given to a device"),
    }
}
