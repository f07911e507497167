//! Values of one type: those of a block, or the entries of a dictionary.

use arrow_array::StringViewArray;
use arrow_schema::TimeUnit;
use parquet::data_type::Int96;
use tidegate_kernels::host::{Entries, Values};

use crate::error::{PageError, Result};
use crate::kind::{Kind, Narrow};
use crate::slices::Slices;
use crate::unpack::Code;

/// Values of a type, other than strings.
#[derive(Debug)]
pub(crate) enum Typed {
    Bool(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Strings are not kept here.
    None,
}

/// Calls something with whichever values there are.
macro_rules! with_values {
    ($typed:expr, $values:ident => $body:expr) => {
        match $typed {
            Typed::Bool($values) => $body,
            Typed::I32($values) => $body,
            Typed::I64($values) => $body,
            Typed::I128($values) => $body,
            Typed::F32($values) => $body,
            Typed::F64($values) => $body,
            Typed::None => {}
        }
    };
}

impl Typed {
    /// Makes room for values of a kind.
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Bool => Self::Bool(Vec::new()),
            Kind::Int32(_) => Self::I32(Vec::new()),
            Kind::Unsigned32 | Kind::Widened32 | Kind::Int64 | Kind::Int96(_) => {
                Self::I64(Vec::new())
            }
            Kind::Unsigned64 => Self::I128(Vec::new()),
            Kind::Float => Self::F32(Vec::new()),
            Kind::Double => Self::F64(Vec::new()),
            Kind::FixedDecimal { is_wide, .. } | Kind::BytesDecimal { is_wide } => match is_wide {
                true => Self::I128(Vec::new()),
                false => Self::I64(Vec::new()),
            },
            Kind::Text => Self::None,
        }
    }

    /// Returns whether both have values of one type.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Makes room for values.
    pub(crate) fn resize(&mut self, len: usize) {
        with_values!(self, values => values.resize(len, Default::default()));
    }

    /// Returns the bytes of the values.
    pub(crate) fn num_bytes(&self) -> usize {
        let mut bytes = 0;
        with_values!(self, values => bytes = size_of_val(values.as_slice()));
        bytes
    }

    /// Sets values to zero.
    pub(crate) fn clear(&mut self, from: usize, len: usize) {
        with_values!(self, values => values[from..from + len].fill(Default::default()));
    }

    /// Moves the `present` values from a place on to the rows that have one.
    pub(crate) fn spread(&mut self, from: usize, validity: &[u8], present: usize) {
        with_values!(self, values => spread(&mut values[from..], validity, present));
    }

    pub(crate) fn values(&self) -> Option<Values<'_>> {
        Some(match self {
            Self::Bool(values) => Values::Bool(values),
            Self::I32(values) => Values::I32(values),
            Self::I64(values) => Values::I64(values),
            Self::I128(values) => Values::I128(values),
            Self::F32(values) => Values::F32(values),
            Self::F64(values) => Values::F64(values),
            Self::None => return None,
        })
    }

    pub(crate) fn into_entries(self) -> Option<Entries> {
        Some(match self {
            Self::I32(values) => Entries::I32(values),
            Self::I64(values) => Entries::I64(values),
            Self::I128(values) => Entries::I128(values),
            Self::F32(values) => Entries::F32(values),
            Self::F64(values) => Entries::F64(values),
            Self::Bool(_) | Self::None => return None,
        })
    }

    /// Takes the memory of entries that are no longer needed.
    pub(crate) fn from_entries(entries: Entries) -> Self {
        match entries {
            Entries::I32(values) => Self::I32(values),
            Entries::I64(values) => Self::I64(values),
            Entries::I128(values) => Self::I128(values),
            Entries::F32(values) => Self::F32(values),
            Entries::F64(values) => Self::F64(values),
            Entries::Text(_) => Self::None,
        }
    }

    /// Writes the entries of codes to the rows from a place on.
    pub(crate) fn gather<C: Code>(&mut self, from: usize, entries: &Entries, codes: &[C]) {
        match (self, entries) {
            (Self::I32(out), Entries::I32(entries)) => gather(&mut out[from..], entries, codes),
            (Self::I64(out), Entries::I64(entries)) => gather(&mut out[from..], entries, codes),
            (Self::I128(out), Entries::I128(entries)) => gather(&mut out[from..], entries, codes),
            (Self::F32(out), Entries::F32(entries)) => gather(&mut out[from..], entries, codes),
            (Self::F64(out), Entries::F64(entries)) => gather(&mut out[from..], entries, codes),
            _ => {}
        }
    }

    /// Reads `len` values as `PLAIN` has them. There must be as many.
    pub(crate) fn read_plain(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        from: usize,
        len: usize,
    ) -> Result<()> {
        match self {
            Self::I32(out) => {
                let out = &mut out[from..from + len];
                match kind {
                    Kind::Int32(Narrow::I8) => {
                        each::<4, _>(bytes, out, |b| i32::from(b[0] as i8));
                    }
                    Kind::Int32(Narrow::I16) => {
                        each::<4, _>(bytes, out, |b| i32::from(i16::from_le_bytes([b[0], b[1]])));
                    }
                    Kind::Int32(Narrow::U8) => each::<4, _>(bytes, out, |b| i32::from(b[0])),
                    Kind::Int32(Narrow::U16) => {
                        each::<4, _>(bytes, out, |b| i32::from(u16::from_le_bytes([b[0], b[1]])));
                    }
                    _ => each(bytes, out, i32::from_le_bytes),
                }
            }
            Self::I64(out) => {
                let out = &mut out[from..from + len];
                match kind {
                    Kind::Unsigned32 => {
                        each(bytes, out, |b| i64::from(u32::from_le_bytes(b)));
                    }
                    Kind::Widened32 => each(bytes, out, |b| i64::from(i32::from_le_bytes(b))),
                    Kind::Int96(unit) => each(bytes, out, |b| time_of(b, unit)),
                    Kind::FixedDecimal { width, .. } => return narrow_fixed(bytes, width, out),
                    _ => each(bytes, out, i64::from_le_bytes),
                }
            }
            Self::I128(out) => {
                let out = &mut out[from..from + len];
                match kind {
                    Kind::FixedDecimal { width, .. } => wide_fixed(bytes, width, out),
                    _ => each(bytes, out, |b| i128::from(u64::from_le_bytes(b))),
                }
            }
            Self::F32(out) => each(bytes, &mut out[from..from + len], f32::from_le_bytes),
            Self::F64(out) => each(bytes, &mut out[from..from + len], f64::from_le_bytes),
            Self::Bool(_) | Self::None => {}
        }
        Ok(())
    }

    /// Writes integers that were read as differences.
    pub(crate) fn write_integers(&mut self, kind: Kind, integers: &[i64], from: usize) {
        let len = integers.len();
        match self {
            Self::I32(out) => {
                let out = out[from..from + len].iter_mut().zip(integers);
                match kind {
                    Kind::Int32(Narrow::I8) => out.for_each(|(o, v)| *o = i32::from(*v as i8)),
                    Kind::Int32(Narrow::I16) => out.for_each(|(o, v)| *o = i32::from(*v as i16)),
                    Kind::Int32(Narrow::U8) => out.for_each(|(o, v)| *o = i32::from(*v as u8)),
                    Kind::Int32(Narrow::U16) => out.for_each(|(o, v)| *o = i32::from(*v as u16)),
                    _ => out.for_each(|(o, v)| *o = *v as i32),
                }
            }
            Self::I64(out) => {
                let out = out[from..from + len].iter_mut().zip(integers);
                match kind {
                    Kind::Unsigned32 => out.for_each(|(o, v)| *o = i64::from(*v as u32)),
                    Kind::Widened32 => out.for_each(|(o, v)| *o = i64::from(*v as i32)),
                    _ => out.for_each(|(o, v)| *o = *v),
                }
            }
            Self::I128(out) => {
                let out = out[from..from + len].iter_mut().zip(integers);
                out.for_each(|(o, v)| *o = i128::from(*v as u64));
            }
            _ => {}
        }
    }

    /// Writes decimals that were byte arrays.
    pub(crate) fn write_decimals(&mut self, decimals: &[i128], from: usize) -> Result<()> {
        match self {
            Self::I128(out) => out[from..from + decimals.len()].copy_from_slice(decimals),
            Self::I64(out) => {
                for (out, decimal) in out[from..].iter_mut().zip(decimals) {
                    *out = i64::try_from(*decimal).map_err(|_| too_many_digits())?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Moves the `present` values at the beginning to the rows that have one. A row without one gets the
/// value before it, or the first; the default if there is none.
pub(crate) fn spread<T: Copy + Default>(values: &mut [T], validity: &[u8], present: usize) {
    let values = &mut values[..validity.len()];
    if present == 0 {
        values.fill(T::default());
        return;
    }
    let mut left = present;
    for row in (0..validity.len()).rev() {
        // Never behind the row itself, and written over only for later rows.
        values[row] = values[left.saturating_sub(1)];
        left -= usize::from(validity[row]).min(left);
    }
}

fn gather<T: Copy, C: Code>(out: &mut [T], entries: &[T], codes: &[C]) {
    for (out, code) in out.iter_mut().zip(codes) {
        if let Some(entry) = entries.get(code.widened() as usize) {
            *out = *entry;
        }
    }
}

fn each<const WIDTH: usize, T>(bytes: &[u8], out: &mut [T], value: impl Fn([u8; WIDTH]) -> T) {
    let (stored, _) = bytes.as_chunks::<WIDTH>();
    for (out, stored) in out.iter_mut().zip(stored) {
        *out = value(*stored);
    }
}

/// Returns a time as the `parquet` crate does.
fn time_of(bytes: [u8; 12], unit: TimeUnit) -> i64 {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let mut stored = Int96::new();
    stored.set_data(word(0), word(4), word(8));
    match unit {
        TimeUnit::Second => stored.to_seconds(),
        TimeUnit::Millisecond => stored.to_millis(),
        TimeUnit::Microsecond => stored.to_micros(),
        TimeUnit::Nanosecond => stored.to_nanos(),
    }
}

/// Returns an integer of up to 16 bytes, highest first, with a sign.
fn big_endian<const WIDTH: usize>(bytes: [u8; WIDTH]) -> i128 {
    let sign = match bytes[0] {
        0x80.. => 0xff,
        _ => 0,
    };
    let mut wide = [sign; 16];
    wide[16 - WIDTH..].copy_from_slice(&bytes);
    i128::from_be_bytes(wide)
}

fn big_endian_64<const WIDTH: usize>(bytes: [u8; WIDTH]) -> i64 {
    let mut word = [0; 8];
    word[..WIDTH].copy_from_slice(&bytes);
    i64::from_be_bytes(word) >> (64 - 8 * WIDTH as u32)
}

macro_rules! by_bytes {
    ($width:expr, $out:expr, $bytes:expr, $value:ident, $($each:literal)*) => {
        match $width {
            $($each => each::<$each, _>($bytes, $out, $value),)*
            _ => {}
        }
    };
}

fn wide_fixed(bytes: &[u8], width: usize, out: &mut [i128]) {
    by_bytes!(width, out, bytes, big_endian, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

fn narrow_fixed(bytes: &[u8], width: usize, out: &mut [i64]) -> Result<()> {
    if width <= 8 {
        by_bytes!(width, out, bytes, big_endian_64, 1 2 3 4 5 6 7 8);
        return Ok(());
    }
    let mut wide = [0_i128; 64];
    for (part, out) in out.chunks_mut(wide.len()).enumerate() {
        let wide = &mut wide[..out.len()];
        let bytes = bytes.get(part * 64 * width..).unwrap_or_default();
        wide_fixed(bytes, width, wide);
        let mut beyond = 0;
        for (out, value) in out.iter_mut().zip(wide) {
            *out = *value as i64;
            beyond |= *value ^ i128::from(*out);
        }
        if beyond != 0 {
            return Err(too_many_digits());
        }
    }
    Ok(())
}

/// Reads decimals out of byte arrays; `width` is the length that each must have, if there is one.
pub(crate) fn read_decimals(
    slices: &Slices,
    width: Option<usize>,
    decimals: &mut Vec<i128>,
) -> Result<()> {
    decimals.clear();
    decimals.reserve(slices.places.len());
    for place in &slices.places {
        let bytes = slices.get(*place);
        let decimal = decimal_of(bytes).filter(|_| width.is_none_or(|width| width == bytes.len()));
        decimals.push(decimal.ok_or_else(|| {
            PageError::unsupported(format!("a decimal of {} bytes", bytes.len()))
        })?);
    }
    Ok(())
}

/// Returns an integer of 1 to 16 bytes, highest first, with a sign.
pub(crate) fn decimal_of(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    let mut wide = [if first < 0x80 { 0 } else { 0xff }; 16];
    wide.get_mut(16_usize.checked_sub(bytes.len())?..)?
        .copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

fn too_many_digits() -> PageError {
    PageError::unsupported("a decimal has more digits than its type")
}

/// Returns entries with at least one, so that there is a code for rows without a value.
pub(crate) fn at_least_one(entries: Entries) -> Entries {
    match entries {
        Entries::I32(values) if values.is_empty() => Entries::I32(vec![0]),
        Entries::I64(values) if values.is_empty() => Entries::I64(vec![0]),
        Entries::I128(values) if values.is_empty() => Entries::I128(vec![0]),
        Entries::F32(values) if values.is_empty() => Entries::F32(vec![0.0]),
        Entries::F64(values) if values.is_empty() => Entries::F64(vec![0.0]),
        Entries::Text(values) if arrow_array::Array::is_empty(&values) => {
            Entries::Text(StringViewArray::from(vec![""]))
        }
        entries => entries,
    }
}

#[cfg(test)]
mod tests;
