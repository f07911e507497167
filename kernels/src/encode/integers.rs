//! The integers beneath Arrow's fixed-width types, narrowed.
//!
//! Two passes over the values as they lie in the arrays: the first finds the least and the greatest,
//! with a third between them if a common factor is looked for, the last writes what is left of each
//! after base and factor. Division by the factor is exact, so it is a multiplication by the inverse
//! of the factor's odd part modulo 2^64 and a shift; a product that is too great tells that a value
//! is no multiple (Warren, Hacker's Delight, 2nd edition, §10-17).

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use tidegate_pipeline::EvalError;

use super::validity::{Stretch, Validity};
use super::{EncodedColumn, Narrowing, append, append_valid, padded, unsupported};
use crate::program::{Interval, SlotFacts};

/// Values that are looked at together when a common factor is looked for.
const BLOCK: usize = 256;

/// An integer as it lies in an array.
pub(super) trait Native: Copy + Ord + 'static {
    const LEAST: Self;
    const GREATEST: Self;

    fn widened(self) -> i128;

    /// Returns the value modulo 2^64.
    fn word(self) -> u64;
}

macro_rules! native {
    ($($native:ty),*) => {$(
        impl Native for $native {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            fn widened(self) -> i128 {
                self as i128
            }

            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}

native!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// Encodes arrays of one type of integers, dates, times, decimals or booleans.
pub(super) fn encode(
    arrays: &[ArrayRef],
    validity: Validity,
    narrowing: Narrowing,
) -> Result<EncodedColumn, EvalError> {
    use DataType as T;

    let Some(first) = arrays.first() else {
        return Ok(narrowed::<i64>(&[], validity, narrowing));
    };
    Ok(match first.data_type() {
        T::Boolean => {
            let bytes: Vec<Vec<u8>> = arrays.iter().map(|array| bits(array.as_ref())).collect();
            let chunks: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
            narrowed(&chunks, validity, narrowing)
        }
        T::Int8 => of_natives::<i8>(arrays, validity, narrowing),
        T::Int16 => of_natives::<i16>(arrays, validity, narrowing),
        T::Int32 | T::Date32 | T::Time32(_) | T::Decimal32(_, _) => {
            of_natives::<i32>(arrays, validity, narrowing)
        }
        T::Int64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(_, _)
        | T::Duration(_)
        | T::Decimal64(_, _) => of_natives::<i64>(arrays, validity, narrowing),
        T::Decimal128(_, _) => of_natives::<i128>(arrays, validity, narrowing),
        T::UInt8 => of_natives::<u8>(arrays, validity, narrowing),
        T::UInt16 => of_natives::<u16>(arrays, validity, narrowing),
        T::UInt32 => of_natives::<u32>(arrays, validity, narrowing),
        T::UInt64 => of_natives::<u64>(arrays, validity, narrowing),
        other => return Err(unsupported(other)),
    })
}

fn bits(array: &dyn Array) -> Vec<u8> {
    array.as_boolean().values().iter().map(u8::from).collect()
}

fn of_natives<N: Native + ArrowNativeType>(
    arrays: &[ArrayRef],
    validity: Validity,
    narrowing: Narrowing,
) -> EncodedColumn {
    let data: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
    let chunks: Vec<&[N]> = data.iter().map(|data| data.buffer::<N>(0)).collect();
    // A buffer may go on behind its array.
    let chunks: Vec<&[N]> = chunks
        .iter()
        .zip(arrays)
        .map(|(chunk, array)| &chunk[..array.len()])
        .collect();
    narrowed(&chunks, validity, narrowing)
}

/// Chooses base, factor and width from the values, and writes what is left of each.
pub(super) fn narrowed<N: Native>(
    chunks: &[&[N]],
    validity: Validity,
    narrowing: Narrowing,
) -> EncodedColumn {
    let range = range_of(chunks, &validity);
    let is_signed_word = |value: i128| i64::try_from(value).is_ok();
    // Beyond the signed integers only plain words tell the values, of 64 bits without a sign or 128.
    let is_plain = !(is_signed_word(range.low) && is_signed_word(range.high));
    if is_plain && size_of::<N>() > 8 {
        return wide(chunks, range, validity);
    }
    let base = if is_plain { 0 } else { range.low as i64 };
    let distance = (range.high - range.low) as u64;
    let factor = match narrowing {
        Narrowing::Factor if !is_plain && distance > 0 => {
            common_factor(chunks, base as u64, &validity)
        }
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
    let base_word = base as u64;
    let scale = Divisor::new(factor);
    let values = match width {
        0 => Vec::new(),
        1 => raw_values(chunks, &validity, scale, base_word, |raw| [raw as u8]),
        2 => raw_values(chunks, &validity, scale, base_word, |raw| {
            (raw as u16).to_le_bytes()
        }),
        4 => raw_values(chunks, &validity, scale, base_word, |raw| {
            (raw as u32).to_le_bytes()
        }),
        _ => raw_values(chunks, &validity, scale, base_word, u64::to_le_bytes),
    };
    let facts = SlotFacts {
        range,
        float_bound: 0.0,
        nullable: validity.has_nulls(),
        widths: vec![width],
        scaled: factor != 1,
        lookup: None,
    };
    EncodedColumn {
        num_rows: validity.num_rows(),
        width,
        base,
        factor: factor as i64,
        values,
        validity: validity.into_words(),
        facts,
    }
}

/// Returns the least and the greatest value, 0 if there is none.
fn range_of<N: Native>(chunks: &[&[N]], validity: &Validity) -> Interval {
    let (mut low, mut high) = (N::GREATEST, N::LEAST);
    let mut first = 0;
    for chunk in chunks {
        for stretch in validity.stretches(first, chunk.len()) {
            match stretch {
                Stretch::Valid(rows) => {
                    for value in &chunk[rows] {
                        low = low.min(*value);
                        high = high.max(*value);
                    }
                }
                Stretch::Mixed(rows, bits) => {
                    for (index, value) in chunk[rows].iter().enumerate() {
                        // Without a branch: it would be taken at random.
                        let is_valid = (bits >> index) & 1 == 1;
                        low = low.min(if is_valid { *value } else { N::GREATEST });
                        high = high.max(if is_valid { *value } else { N::LEAST });
                    }
                }
            }
        }
        first += chunk.len();
    }
    if low > high {
        return Interval::of(0);
    }
    Interval::new(low.widened(), high.widened())
}

/// Divides multiples of a number exactly.
#[derive(Clone, Copy)]
struct Divisor {
    /// The inverse of the odd part.
    inverse: u64,
    /// How often 2 divides.
    shift: u32,
    /// The greatest quotient.
    limit: u64,
}

impl Divisor {
    fn new(divisor: u64) -> Self {
        let shift = divisor.trailing_zeros();
        let odd = divisor >> shift;
        // Each of Newton's steps doubles the bits that are right, from three on.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Self {
            inverse,
            shift,
            limit: u64::MAX / divisor,
        }
    }

    /// Returns the quotient of a multiple; of another number, something beyond the limit.
    fn quotient(self, value: u64) -> u64 {
        value.wrapping_mul(self.inverse).rotate_right(self.shift)
    }
}

/// Returns the greatest common divisor of the distances from the base, at least 1.
fn common_factor<N: Native>(chunks: &[&[N]], base: u64, validity: &Validity) -> u64 {
    let mut factor = 0_u64;
    let mut first = 0;
    for chunk in chunks {
        for stretch in validity.stretches(first, chunk.len()) {
            match stretch {
                Stretch::Valid(rows) => {
                    for block in chunk[rows].chunks(BLOCK) {
                        factor = joint_factor(factor, block, base);
                    }
                }
                Stretch::Mixed(rows, bits) => {
                    for (index, value) in chunk[rows].iter().enumerate() {
                        if (bits >> index) & 1 == 1 {
                            factor = gcd(factor, value.word().wrapping_sub(base));
                        }
                    }
                }
            }
            if factor == 1 {
                return 1;
            }
        }
        first += chunk.len();
    }
    factor.max(1)
}

fn joint_factor<N: Native>(factor: u64, block: &[N], base: u64) -> u64 {
    if factor == 1 {
        return 1;
    }
    if factor > 1 {
        let divisor = Divisor::new(factor);
        let quotients = block
            .iter()
            .map(|value| divisor.quotient(value.word().wrapping_sub(base)));
        if quotients.fold(true, |all, quotient| all & (quotient <= divisor.limit)) {
            return factor;
        }
    }
    block.iter().fold(factor, |factor, value| {
        gcd(factor, value.word().wrapping_sub(base))
    })
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Writes what is left of each value after base and factor; 0 for a NULL.
fn raw_values<N: Native, const WIDTH: usize>(
    chunks: &[&[N]],
    validity: &Validity,
    divisor: Divisor,
    base: u64,
    bytes_of: impl Fn(u64) -> [u8; WIDTH],
) -> Vec<u8> {
    if divisor.limit == u64::MAX {
        let raw = |value: N| bytes_of(value.word().wrapping_sub(base));
        return written(chunks, validity, raw);
    }
    let raw = |value: N| bytes_of(divisor.quotient(value.word().wrapping_sub(base)));
    written(chunks, validity, raw)
}

fn written<N: Native, const WIDTH: usize>(
    chunks: &[&[N]],
    validity: &Validity,
    raw: impl Fn(N) -> [u8; WIDTH],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(padded(validity.num_rows()) * WIDTH);
    let mut first = 0;
    for chunk in chunks {
        for stretch in validity.stretches(first, chunk.len()) {
            match stretch {
                Stretch::Valid(rows) => append(&mut bytes, &chunk[rows], &raw),
                Stretch::Mixed(rows, bits) => append_valid(&mut bytes, &chunk[rows], bits, &raw),
            }
        }
        first += chunk.len();
    }
    bytes.resize(padded(validity.num_rows()) * WIDTH, 0);
    bytes
}

/// Keeps values beyond 64 bits plain; a NULL is the least of them.
fn wide<N: Native>(chunks: &[&[N]], range: Interval, validity: Validity) -> EncodedColumn {
    let low = range.low.to_le_bytes();
    let mut bytes = Vec::with_capacity(padded(validity.num_rows()) * 16);
    let mut first = 0;
    for chunk in chunks {
        for stretch in validity.stretches(first, chunk.len()) {
            let (rows, bits) = match stretch {
                Stretch::Valid(rows) => (rows, None),
                Stretch::Mixed(rows, bits) => (rows, Some(bits)),
            };
            for (index, value) in chunk[rows].iter().enumerate() {
                let is_valid = bits.is_none_or(|bits| (bits >> index) & 1 == 1);
                let value = if is_valid {
                    value.widened().to_le_bytes()
                } else {
                    low
                };
                bytes.extend_from_slice(&value);
            }
        }
        first += chunk.len();
    }
    bytes.resize(padded(validity.num_rows()) * 16, 0);
    let facts = SlotFacts {
        range,
        float_bound: 0.0,
        nullable: validity.has_nulls(),
        widths: vec![16],
        scaled: false,
        lookup: None,
    };
    EncodedColumn {
        num_rows: validity.num_rows(),
        width: 16,
        base: 0,
        factor: 1,
        values: bytes,
        validity: validity.into_words(),
        facts,
    }
}
