//! Floats stay as they are; a NULL is 0. What is learned of them is a bound of their size.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};

use super::validity::{Stretch, Validity};
use super::{EncodedColumn, append, append_valid, padded};
use crate::program::{Interval, SlotFacts};

/// Running maxima, so that one does not wait for the other.
const LANES: usize = 8;

pub(super) fn float64(arrays: &[ArrayRef], validity: Validity) -> EncodedColumn {
    let chunks = arrays
        .iter()
        .map(|array| &**array.as_primitive::<Float64Type>().values());
    // Bits without the sign are ordered as the sizes are, with the infinities and NaN above.
    let size = |value: f64| value.to_bits() << 1 >> 1;
    let (values, greatest) = copied(chunks, &validity, f64::to_le_bytes, size);
    column(8, bound(f64::from_bits(greatest)), values, validity)
}

pub(super) fn float32(arrays: &[ArrayRef], validity: Validity) -> EncodedColumn {
    let chunks = arrays
        .iter()
        .map(|array| &**array.as_primitive::<Float32Type>().values());
    let size = |value: f32| value.to_bits() << 1 >> 1;
    let (values, greatest) = copied(chunks, &validity, f32::to_le_bytes, size);
    let greatest = f64::from(f32::from_bits(greatest));
    column(4, bound(greatest), values, validity)
}

/// Copies the values, and returns the greatest of their sizes.
fn copied<'a, T, S, const WIDTH: usize>(
    chunks: impl Iterator<Item = &'a [T]>,
    validity: &Validity,
    bytes_of: impl Fn(T) -> [u8; WIDTH],
    size: impl Fn(T) -> S,
) -> (Vec<u8>, S)
where
    T: Copy + 'static,
    S: Copy + Ord + Default,
{
    let mut bytes = Vec::with_capacity(padded(validity.num_rows()) * WIDTH);
    let mut greatest = [S::default(); LANES];
    let mut first = 0;
    for chunk in chunks {
        for stretch in validity.stretches(first, chunk.len()) {
            match stretch {
                Stretch::Valid(rows) => {
                    let values = &chunk[rows];
                    append(&mut bytes, values, &bytes_of);
                    let (blocks, rest) = values.as_chunks::<LANES>();
                    for block in blocks {
                        for (greatest, value) in greatest.iter_mut().zip(block) {
                            *greatest = (*greatest).max(size(*value));
                        }
                    }
                    for value in rest {
                        greatest[0] = greatest[0].max(size(*value));
                    }
                }
                Stretch::Mixed(rows, bits) => {
                    append_valid(&mut bytes, &chunk[rows.clone()], bits, &bytes_of);
                    for (index, value) in chunk[rows].iter().enumerate() {
                        let is_valid = (bits >> index) & 1 == 1;
                        let size = if is_valid { size(*value) } else { S::default() };
                        greatest[index % LANES] = greatest[index % LANES].max(size);
                    }
                }
            }
        }
        first += chunk.len();
    }
    bytes.resize(padded(validity.num_rows()) * WIDTH, 0);
    let greatest = greatest.into_iter().max().unwrap_or_default();
    (bytes, greatest)
}

/// Returns the greatest size, infinity if a value is not finite.
fn bound(greatest: f64) -> f64 {
    if greatest.is_finite() {
        greatest
    } else {
        f64::INFINITY
    }
}

fn column(width: u32, bound: f64, values: Vec<u8>, validity: Validity) -> EncodedColumn {
    let facts = SlotFacts {
        range: Interval::ALL,
        float_bound: bound,
        nullable: validity.has_nulls(),
        widths: vec![width],
        scaled: false,
        lookup: None,
    };
    EncodedColumn {
        num_rows: validity.num_rows(),
        width,
        base: 0,
        factor: 1,
        values,
        validity: validity.into_words(),
        facts,
    }
}
