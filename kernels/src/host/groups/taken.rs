//! What accumulators take in of a block: values with the rows that count, as columns of 64 bits.

use super::super::block::BLOCK;
use super::super::declined::Declined;
use super::super::simd::widest;
use super::super::vector::{Lane, Vector, mismatch, read};
use crate::strings::Texts;

/// What an accumulator takes in of a block.
#[derive(Clone, Copy)]
pub(in super::super) struct Taken<'s, 'a> {
    pub(in super::super) value: Option<&'s Vector>,
    pub(in super::super) texts: &'s Texts<'a>,
    /// Which rows count; all if there is nothing.
    pub(in super::super) rows: Option<&'s [u8]>,
}

/// Returns integers of 64 bits, and `neutral` where rows do not count; without a value, each row's is 1.
pub(super) fn integers_of<'s>(
    taken: Taken<'s, '_>,
    neutral: i64,
    count: usize,
    scratch: &'s mut Vec<i64>,
) -> Result<&'s [i64], Declined> {
    static ONES: [i64; BLOCK] = [1; BLOCK];
    scratch.resize(BLOCK, 0);
    let values = match taken.value {
        None => &ONES[..count],
        Some(value) if value.lane() == Lane::I128 => {
            let wide = read::<i128>(value, count)?.iter();
            let narrow = scratch.iter_mut().zip(wide);
            narrow.for_each(|(to, value)| *to = *value as i64);
            if let Some(rows) = taken.rows {
                let values = scratch.iter_mut().zip(rows);
                values
                    .filter(|(_, row)| **row == 0)
                    .for_each(|(value, _)| *value = neutral);
            }
            return Ok(&scratch[..count]);
        }
        Some(value) => read::<i64>(value, count)?,
    };
    let Some(rows) = taken.rows else {
        return Ok(values);
    };
    let counted = &mut scratch[..count];
    widest(|| {
        for ((to, value), row) in counted.iter_mut().zip(values).zip(rows) {
            *to = if *row != 0 { *value } else { neutral };
        }
    });
    Ok(counted)
}

/// Returns doubles, and −0.0, which changes no sum, where rows do not count.
pub(super) fn floats_of<'s>(
    taken: Taken<'s, '_>,
    count: usize,
    scratch: &'s mut Vec<f64>,
) -> Result<&'s [f64], Declined> {
    let Some(value) = taken.value else {
        return Err(mismatch(Lane::F64));
    };
    let values = read::<f64>(value, count)?;
    let Some(rows) = taken.rows else {
        return Ok(values);
    };
    scratch.resize(BLOCK, 0.0);
    let counted = &mut scratch[..count];
    widest(|| {
        for ((to, value), row) in counted.iter_mut().zip(values).zip(rows) {
            *to = if *row != 0 { *value } else { -0.0 };
        }
    });
    Ok(counted)
}
