//! Column chunks as they lie on a device, made from Arrow arrays.
//!
//! Integers, dates, decimals, booleans and codes of strings are narrowed: `base + factor * raw` with
//! an unsigned raw value of 0, 1, 2, 4 or 8 bytes, chosen from the chunk's own least and greatest
//! value; a decimal beyond 64 bits stays plain at 16 bytes, floats stay plain. Where a value is NULL
//! the raw value is 0, so that what lies there is in the chunk's range.

mod dictionary;
mod integers;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_pipeline::interpret::evaluate;
use tidegate_pipeline::{EvalError, ExprKind, Scalar};

use crate::program::{Interval, Slot, SlotFacts, SlotKind};

pub use dictionary::Dictionary;
use integers::Integers;

/// Rows to which a chunk's values are padded, so that wide loads stay inside.
const PADDED_ROWS: usize = 32;

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
        is_valid(self.validity.as_deref(), row)
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
    let num_rows = arrays.iter().map(|array| array.len()).sum();
    let validity = validity_words(&arrays, num_rows);
    match slot.kind {
        SlotKind::Float32 => Ok(float32(&arrays, num_rows, validity)),
        SlotKind::Float64 => Ok(float64(&arrays, num_rows, validity)),
        SlotKind::Integer => {
            let integers = integers::of_arrays(&arrays, num_rows)?;
            Ok(narrowed(integers, num_rows, validity, narrowing))
        }
        SlotKind::Code => {
            let codes = dictionary.codes(&arrays, num_rows)?;
            let integers = Integers::Narrow {
                values: codes,
                unsigned: false,
            };
            Ok(narrowed(integers, num_rows, validity, Narrowing::Width))
        }
    }
}

/// Returns the validity of all arrays as words, if some value is NULL.
fn validity_words(arrays: &[ArrayRef], num_rows: usize) -> Option<Vec<u32>> {
    if arrays.iter().all(|array| array.logical_null_count() == 0) {
        return None;
    }
    let mut words = vec![0_u32; num_rows.div_ceil(PADDED_ROWS)];
    let mut row = 0;
    for array in arrays {
        let nulls = array.logical_nulls();
        for index in 0..array.len() {
            let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
            words[row / 32] |= u32::from(valid) << (row % 32);
            row += 1;
        }
    }
    Some(words)
}

fn is_valid(validity: Option<&[u32]>, row: usize) -> bool {
    validity.is_none_or(|words| (words[row / 32] >> (row % 32)) & 1 == 1)
}

fn padded(num_rows: usize) -> usize {
    num_rows.next_multiple_of(PADDED_ROWS)
}

fn float64(arrays: &[ArrayRef], num_rows: usize, validity: Option<Vec<u32>>) -> EncodedColumn {
    let mut values = Vec::with_capacity(padded(num_rows) * 8);
    let mut bound = 0.0_f64;
    let mut row = 0;
    for array in arrays {
        for value in array.as_primitive::<Float64Type>().values() {
            let value = if is_valid(validity.as_deref(), row) {
                *value
            } else {
                0.0
            };
            bound = if value.is_finite() {
                bound.max(value.abs())
            } else {
                f64::INFINITY
            };
            values.extend_from_slice(&value.to_le_bytes());
            row += 1;
        }
    }
    float_column(8, bound, values, num_rows, validity)
}

fn float32(arrays: &[ArrayRef], num_rows: usize, validity: Option<Vec<u32>>) -> EncodedColumn {
    let mut values = Vec::with_capacity(padded(num_rows) * 4);
    let mut bound = 0.0_f64;
    let mut row = 0;
    for array in arrays {
        for value in array.as_primitive::<Float32Type>().values() {
            let value = if is_valid(validity.as_deref(), row) {
                *value
            } else {
                0.0
            };
            let size = f64::from(value.abs());
            bound = if value.is_finite() {
                bound.max(size)
            } else {
                f64::INFINITY
            };
            values.extend_from_slice(&value.to_le_bytes());
            row += 1;
        }
    }
    float_column(4, bound, values, num_rows, validity)
}

fn float_column(
    width: u32,
    bound: f64,
    mut values: Vec<u8>,
    num_rows: usize,
    validity: Option<Vec<u32>>,
) -> EncodedColumn {
    values.resize(padded(num_rows) * width as usize, 0);
    let facts = SlotFacts {
        range: Interval::ALL,
        float_bound: bound,
        nullable: validity.is_some(),
        widths: vec![width],
        scaled: false,
        lookup: None,
    };
    EncodedColumn {
        num_rows,
        width,
        base: 0,
        factor: 1,
        values,
        validity,
        facts,
    }
}

/// Chooses base, factor and width from the values, and writes the raw ones.
fn narrowed(
    integers: Integers,
    num_rows: usize,
    validity: Option<Vec<u32>>,
    narrowing: Narrowing,
) -> EncodedColumn {
    let (mut values, unsigned) = match integers {
        Integers::Narrow { values, unsigned } => (values, unsigned),
        Integers::Wide(values) => return wide(&values, num_rows, validity),
    };
    let valid = validity.as_deref();
    let as_value = |word: i64| {
        if unsigned {
            i128::from(word as u64)
        } else {
            i128::from(word)
        }
    };
    let mut range: Option<Interval> = None;
    if valid.is_none() && !unsigned {
        if let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) {
            range = Some(Interval::new(i128::from(*low), i128::from(*high)));
        }
    } else {
        for (row, word) in values.iter().enumerate() {
            if is_valid(valid, row) {
                let value = Interval::of(as_value(*word));
                range = Some(range.map_or(value, |range| range.hull(value)));
            }
        }
    }
    let range = range.unwrap_or(Interval::of(0));
    // Beyond the signed integers only plain 64-bit words tell the values.
    let is_plain = i64::try_from(range.high).is_err();
    let base = if is_plain { 0 } else { range.low as i64 };
    if let Some(words) = valid {
        for (row, value) in values.iter_mut().enumerate() {
            if (words[row / 32] >> (row % 32)) & 1 == 0 {
                *value = base;
            }
        }
    }
    let distance = (range.high - range.low) as u64;
    let factor = match narrowing {
        Narrowing::Factor if !is_plain && distance > 0 => common_factor(&values, base),
        _ => 1,
    };
    let width = match distance / factor {
        _ if is_plain => 8,
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    let raw = |value: &i64| (value.wrapping_sub(base) as u64) / factor;
    let rows = padded(num_rows);
    let mut bytes: Vec<u8> = Vec::with_capacity(rows * width as usize);
    match width {
        0 => {}
        1 => bytes.extend(values.iter().map(|value| raw(value) as u8)),
        2 => write(
            &mut bytes,
            values.iter().map(|value| (raw(value) as u16).to_le_bytes()),
        ),
        4 => write(
            &mut bytes,
            values.iter().map(|value| (raw(value) as u32).to_le_bytes()),
        ),
        _ => write(
            &mut bytes,
            values.iter().map(|value| raw(value).to_le_bytes()),
        ),
    }
    bytes.resize(rows * width as usize, 0);
    let facts = SlotFacts {
        range,
        float_bound: 0.0,
        nullable: validity.is_some(),
        widths: vec![width],
        scaled: factor != 1,
        lookup: None,
    };
    EncodedColumn {
        num_rows,
        width,
        base,
        factor: factor as i64,
        values: bytes,
        validity,
        facts,
    }
}

fn write<const N: usize>(bytes: &mut Vec<u8>, values: impl Iterator<Item = [u8; N]>) {
    for value in values {
        bytes.extend_from_slice(&value);
    }
}

/// Returns the greatest common divisor of the distances from the base, at least 1.
fn common_factor(values: &[i64], base: i64) -> u64 {
    let mut factor = 0_u64;
    for value in values {
        let (mut a, mut b) = (factor, value.wrapping_sub(base) as u64);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        factor = a;
        if factor == 1 {
            return 1;
        }
    }
    factor.max(1)
}

fn wide(values: &[i128], num_rows: usize, validity: Option<Vec<u32>>) -> EncodedColumn {
    let valid = validity.as_deref();
    let mut range: Option<Interval> = None;
    let mut bytes = Vec::with_capacity(padded(num_rows) * 16);
    for (row, value) in values.iter().enumerate() {
        if is_valid(valid, row) {
            let value = Interval::of(*value);
            range = Some(range.map_or(value, |range| range.hull(value)));
        }
    }
    let range = range.unwrap_or(Interval::of(0));
    for (row, value) in values.iter().enumerate() {
        let value = if is_valid(valid, row) {
            *value
        } else {
            range.low
        };
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.resize(padded(num_rows) * 16, 0);
    let facts = SlotFacts {
        range,
        float_bound: 0.0,
        nullable: validity.is_some(),
        widths: vec![16],
        scaled: false,
        lookup: None,
    };
    EncodedColumn {
        num_rows,
        width: 16,
        base: 0,
        factor: 1,
        values: bytes,
        validity,
        facts,
    }
}

/// Says that a type cannot be held by a device.
fn unsupported(data_type: &DataType) -> EvalError {
    EvalError::Internal {
        what: format!("a chunk of {data_type} was given to a device"),
    }
}
