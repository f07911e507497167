//! From chunks to registers, with what is known of an input held against its values.

use tidegate_pipeline::Interval;

use super::block::{Chunk, Raw, Values};
use super::declined::Declined;
use super::ops::arithmetic::Integer;
use super::simd::{self, widest_of};
use super::vector::{Held, Lane, Native, Vector, mismatch, read, write};

/// Which rows of a block are read: all, or those of a selection.
pub(super) type Selection<'a> = Option<&'a [u16]>;

/// Calls a function with the codes of a chunk as a function from row to entry.
macro_rules! by_codes {
    ($values:expr, $code:ident => $call:expr) => {
        match $values {
            Values::Codes8(codes) => {
                let $code = |row: usize| usize::from(codes[row]);
                $call
            }
            Values::Codes16(codes) => {
                let $code = |row: usize| usize::from(codes[row]);
                $call
            }
            Values::Codes32(codes) => {
                let $code = |row: usize| codes[row] as usize;
                $call
            }
            Values::Constant(code) => {
                let $code = |_: usize| code as usize;
                $call
            }
            _ => return Err(Declined::Unsupported("plain values by code".to_owned())),
        }
    };
}

/// Writes a value for each row that is read.
#[inline(always)]
fn each<T>(selection: Selection<'_>, to: &mut [T], value: impl Fn(usize) -> T) {
    match selection {
        None => {
            for (row, to) in to.iter_mut().enumerate() {
                *to = value(row);
            }
        }
        Some(rows) => {
            for (to, row) in to.iter_mut().zip(rows) {
                *to = value(usize::from(*row));
            }
        }
    }
}

fn copy<T: Copy>(values: &[T], selection: Selection<'_>, to: &mut [T]) {
    match selection {
        None => to.copy_from_slice(&values[..to.len()]),
        Some(_) => each(selection, to, |row| values[row]),
    }
}

/// Reads a table by codes.
pub(super) fn gather(
    chunk: &Chunk<'_>,
    selection: Selection<'_>,
    table: &Vector,
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let values = chunk.values;
    if let (None, Values::Codes8(codes), Vector::I32(table)) = (selection, values, table)
        && simd::gather_short(&codes[..count], table, write(to, count)?)
    {
        return Ok(());
    }
    match table.lane() {
        Lane::Bool => gather_typed::<u8>(values, selection, table, to, count),
        Lane::I32 => gather_typed::<i32>(values, selection, table, to, count),
        Lane::I64 => gather_typed::<i64>(values, selection, table, to, count),
        Lane::I128 => gather_typed::<i128>(values, selection, table, to, count),
        Lane::F32 => gather_typed::<f32>(values, selection, table, to, count),
        Lane::F64 => gather_typed::<f64>(values, selection, table, to, count),
        other @ Lane::Text => Err(mismatch(other)),
    }
}

fn gather_typed<T: Native>(
    values: Values<'_>,
    selection: Selection<'_>,
    table: &Vector,
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let (table, to) = (read::<T>(table, table.len())?, write::<T>(to, count)?);
    if let Values::Constant(code) = values {
        to.fill(table[code as usize]);
        return Ok(());
    }
    if selection.is_none() {
        match values {
            Values::Codes8(codes) => simd::gather(&codes[..count], table, to),
            Values::Codes16(codes) => simd::gather(&codes[..count], table, to),
            Values::Codes32(codes) => simd::gather(&codes[..count], table, to),
            _ => return Err(Declined::Unsupported("plain values by code".to_owned())),
        }
        return Ok(());
    }
    by_codes!(values, code => each(selection, to, |row| table[code(row)]));
    Ok(())
}

/// Returns whether one of the rows that have a value has the code of a marked entry; `false` of plain values.
pub(super) fn uses(chunk: &Chunk<'_>, rows: usize, marked: &[bool]) -> bool {
    let is_there = |row: usize| chunk.validity.is_none_or(|validity| validity[row] != 0);
    let uses =
        |code: &dyn Fn(usize) -> usize| (0..rows).any(|row| is_there(row) && marked[code(row)]);
    match chunk.values {
        Values::Codes8(codes) => uses(&|row| codes[row].into()),
        Values::Codes16(codes) => uses(&|row| codes[row].into()),
        Values::Codes32(codes) => uses(&|row| codes[row] as usize),
        Values::Constant(code) => uses(&|_| code as usize),
        _ => false,
    }
}

/// Reads which values are there.
pub(super) fn presence(chunk: &Chunk<'_>, selection: Selection<'_>, to: &mut [u8]) {
    match chunk.validity {
        None => to.fill(1),
        Some(validity) => each(selection, to, |row| validity[row]),
    }
}

/// Reads the values of an input, of which integers have to lie in an interval where they are there.
/// Returns whether they do; where a value is not there, the register has one of the interval.
pub(super) fn load(
    chunk: &Chunk<'_>,
    held: Option<&Held>,
    selection: Selection<'_>,
    interval: Interval,
    to: &mut Vector,
    count: usize,
) -> Result<bool, Declined> {
    match chunk.values {
        Values::Codes8(_) | Values::Codes16(_) | Values::Codes32(_) | Values::Constant(_) => {
            let Some(Held::Vector(table)) = held else {
                return Err(Declined::Unsupported("codes without entries".to_owned()));
            };
            // Entries were held against the interval when the group began.
            return gather(chunk, selection, table, to, count).map(|()| true);
        }
        Values::Bool(values) => copy(values, selection, write(to, count)?),
        Values::F32(values) => copy(values, selection, write(to, count)?),
        Values::F64(values) => copy(values, selection, write(to, count)?),
        _ => return integers(chunk, selection, interval, to, count),
    }
    Ok(true)
}

fn integers(
    chunk: &Chunk<'_>,
    selection: Selection<'_>,
    interval: Interval,
    to: &mut Vector,
    count: usize,
) -> Result<bool, Declined> {
    match to.lane() {
        Lane::I32 => as_integers::<i32>(chunk, selection, interval, write(to, count)?),
        Lane::I64 => as_integers::<i64>(chunk, selection, interval, write(to, count)?),
        Lane::I128 => as_integers::<i128>(chunk, selection, interval, write(to, count)?),
        other => Err(mismatch(other)),
    }
}

fn as_integers<T: Integer>(
    chunk: &Chunk<'_>,
    selection: Selection<'_>,
    interval: Interval,
    to: &mut [T],
) -> Result<bool, Declined> {
    let Chunk { values, validity } = *chunk;
    let rows = (validity, selection);
    Ok(match values {
        Values::I32(values) => within(values, |value| value, rows, interval, to),
        Values::I64(values) => within(values, |value| value, rows, interval, to),
        Values::I128(values) => within(values, |value| value, rows, interval, to),
        Values::Offset { base, factor, raw } => {
            let of = |raw: i64| base.wrapping_add(factor.wrapping_mul(raw));
            match raw {
                Raw::U8(raw) => within(raw, |raw| of(raw.into()), rows, interval, to),
                Raw::U16(raw) => within(raw, |raw| of(raw.into()), rows, interval, to),
                Raw::U32(raw) => within(raw, |raw| of(raw.into()), rows, interval, to),
            }
        }
        _ => return Err(Declined::Unsupported("integers of another kind".to_owned())),
    })
}

/// Writes integers of one width as those of another, and returns whether all lie in the interval.
fn within<R: Copy, S: Integer, T: Integer>(
    raw: &[R],
    value: impl Fn(R) -> S,
    (validity, selection): (Option<&[u8]>, Selection<'_>),
    interval: Interval,
    to: &mut [T],
) -> bool {
    let all = Interval::signed(S::BITS);
    if all.is_within(interval) {
        each(selection, to, |row| convert(value(raw[row])));
        return true;
    }
    // An interval beyond the width has no value that is allowed.
    if interval.low > all.high || interval.high < all.low {
        return false;
    }
    let allowed = interval.clamp_to(all);
    let limits: (S, S) = (S::narrow(allowed.low), S::narrow(allowed.high));
    let raw = match selection {
        None => raw.get(..to.len()).unwrap_or_default(),
        Some(_) => raw,
    };
    match (validity, selection) {
        (None, None) => widest_of(within_all, (raw, value, limits, to)),
        (Some(validity), None) => widest_of(within_valid, ((raw, validity), value, limits, to)),
        (validity, Some(rows)) => {
            let mut outside = 0;
            for (to, row) in to.iter_mut().zip(rows) {
                let row = usize::from(*row);
                let is_there = validity.map_or(1, |validity| validity[row]);
                let (value, is_outside) = limited(value(raw[row]), limits);
                outside |= is_outside & is_there;
                *to = convert(value);
            }
            outside == 0
        }
    }
}

/// Raw values, and a byte of 1 for each that is there.
type Nullable<'a, R> = (&'a [R], &'a [u8]);

/// Returns a value, or the least that is allowed, and 1 if it is outside of the limits.
#[inline(always)]
fn limited<S: Integer>(value: S, (low, high): (S, S)) -> (S, u8) {
    let is_outside = u8::from(value < low) | u8::from(value > high);
    (if is_outside != 0 { low } else { value }, is_outside)
}

#[inline(always)]
fn within_all<R: Copy, S: Integer, T: Integer>(
    (raw, value, limits, to): (&[R], impl Fn(R) -> S, (S, S), &mut [T]),
) -> bool {
    let mut outside = 0;
    for (to, raw) in to.iter_mut().zip(raw) {
        let (value, is_outside) = limited(value(*raw), limits);
        outside |= is_outside;
        *to = convert(value);
    }
    outside == 0
}

#[inline(always)]
fn within_valid<R: Copy, S: Integer, T: Integer>(
    ((raw, validity), value, limits, to): (Nullable<'_, R>, impl Fn(R) -> S, (S, S), &mut [T]),
) -> bool {
    let mut outside = 0;
    for ((to, raw), is_there) in to.iter_mut().zip(raw).zip(validity) {
        let (value, is_outside) = limited(value(*raw), limits);
        outside |= is_outside & is_there;
        *to = convert(value);
    }
    outside == 0
}

#[inline(always)]
fn convert<S: Integer, T: Integer>(value: S) -> T {
    match (S::BITS, T::BITS) {
        (128, _) | (_, 128) => T::narrow(value.wide()),
        // By 64 bits, which vector instructions have.
        _ => T::of_64(value.to_64()),
    }
}

/// Reads strings.
pub(super) fn texts<'a>(
    chunk: &Chunk<'a>,
    held: Option<&'a Held>,
    selection: Selection<'_>,
    to: &mut Vec<&'a str>,
    count: usize,
) -> Result<(), Declined> {
    let rows = 0..count;
    let row_of = |at: usize| selection.map_or(at, |rows| usize::from(rows[at]));
    let is_there = |row: usize| chunk.validity.is_none_or(|validity| validity[row] != 0);
    if let Values::Text { array, at } = chunk.values {
        to.extend(rows.map(|place| {
            let row = row_of(place);
            if is_there(row) {
                array.value(at + row)
            } else {
                ""
            }
        }));
        return Ok(());
    }
    let Some(Held::Text(entries)) = held else {
        return Err(Declined::Unsupported("strings of another kind".to_owned()));
    };
    by_codes!(chunk.values, code => to.extend(rows.map(|at| entries.value(code(row_of(at))))));
    Ok(())
}

/// Copies a part of a dictionary.
pub(super) fn entries(
    held: &Vector,
    at: usize,
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    fn copy<T: Native>(
        held: &Vector,
        at: usize,
        to: &mut Vector,
        count: usize,
    ) -> Result<(), Declined> {
        let from = &read::<T>(held, at + count)?[at..];
        write::<T>(to, count)?.copy_from_slice(from);
        Ok(())
    }
    match held.lane() {
        Lane::Bool => copy::<u8>(held, at, to, count),
        Lane::I32 => copy::<i32>(held, at, to, count),
        Lane::I64 => copy::<i64>(held, at, to, count),
        Lane::I128 => copy::<i128>(held, at, to, count),
        Lane::F32 => copy::<f32>(held, at, to, count),
        Lane::F64 => copy::<f64>(held, at, to, count),
        other @ Lane::Text => Err(mismatch(other)),
    }
}

/// Appends what a register has for entries to a table.
pub(super) fn append(table: &mut Vector, register: &Vector, count: usize) -> Result<(), Declined> {
    fn extend<T: Native>(table: &mut Vector, from: &[T]) -> Result<(), Declined> {
        let lane = table.lane();
        T::of_mut(table)
            .ok_or_else(|| mismatch(lane))?
            .extend_from_slice(from);
        Ok(())
    }
    match register.lane() {
        Lane::Bool => extend::<u8>(table, read(register, count)?),
        Lane::I32 => extend::<i32>(table, read(register, count)?),
        Lane::I64 => extend::<i64>(table, read(register, count)?),
        Lane::I128 => extend::<i128>(table, read(register, count)?),
        Lane::F32 => extend::<f32>(table, read(register, count)?),
        Lane::F64 => extend::<f64>(table, read(register, count)?),
        other @ Lane::Text => Err(mismatch(other)),
    }
}
