//! Rows of one column, encoded as far as reading them stays fast.
//!
//! A segment stores integers, dates, times and decimals as differences from their least value, in
//! 0, 1, 2 or 4 bytes, and strings of few values as codes of one byte. Both cost about a nanosecond
//! per value each way, which is less than moving the plain values from memory. What comes from pages
//! as codes stays codes. Everything else is stored as it is.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use tidegate_kernels::host::arrow::array_of;
use tidegate_kernels::host::{BLOCK, Entries, Raw, Values};

/// Codes of a batch of strings.
const CODES_MAX: usize = 256;

/// Places of the table in which a batch's values find their codes.
const CODE_PLACES: usize = 1024;

/// Differences of a block all of whose values are one.
static NO_DIFFERENCES: [u8; BLOCK] = [0; BLOCK];

/// Rows of one column.
#[derive(Debug)]
pub struct Segment {
    data_type: DataType,
    num_rows: usize,
    nulls: Option<NullBuffer>,
    stored: Stored,
}

#[derive(Debug)]
enum Stored {
    /// As they came, nulls included.
    Plain(ArrayRef),
    /// Differences from `base`; none if all values are that.
    Narrowed { base: i64, by: Option<Codes> },
    /// Positions among entries.
    Codes { codes: Codes, of: Arc<Entries> },
}

/// Codes, or differences, as wide as they must be.
#[derive(Debug)]
pub(super) enum Codes {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
}

impl Codes {
    /// Returns the bytes that are taken.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::One(codes) => codes.capacity(),
            Self::Two(codes) => codes.capacity() * 2,
            Self::Four(codes) => codes.capacity() * 4,
        }
    }

    /// Gives back what is not used.
    pub(super) fn shrink(&mut self) {
        match self {
            Self::One(codes) => codes.shrink_to_fit(),
            Self::Two(codes) => codes.shrink_to_fit(),
            Self::Four(codes) => codes.shrink_to_fit(),
        }
    }
}

impl Segment {
    /// Keeps an array.
    pub(super) fn encode(array: &ArrayRef) -> Self {
        let stored = narrow(array).or_else(|| code(array));
        Self {
            data_type: array.data_type().clone(),
            num_rows: array.len(),
            // A plain array keeps its own.
            nulls: stored.as_ref().and_then(|_| array.nulls().cloned()),
            stored: stored.unwrap_or_else(|| Stored::Plain(Arc::clone(array))),
        }
    }

    /// Keeps codes, each of which is below the number of entries.
    pub(super) fn of_codes(
        data_type: &DataType,
        num_rows: usize,
        codes: Codes,
        of: &Arc<Entries>,
        nulls: Option<NullBuffer>,
    ) -> Self {
        let of = Arc::clone(of);
        Self {
            data_type: data_type.clone(),
            num_rows,
            nulls,
            stored: Stored::Codes { codes, of },
        }
    }

    /// Keeps differences from a value.
    pub(super) fn of_differences(
        data_type: &DataType,
        num_rows: usize,
        base: i64,
        by: Codes,
        nulls: Option<NullBuffer>,
    ) -> Self {
        Self {
            data_type: data_type.clone(),
            num_rows,
            nulls,
            stored: Stored::Narrowed { base, by: Some(by) },
        }
    }

    /// Restores some of the rows as an array.
    ///
    /// # Errors
    /// None but by a defect: what was kept was an array, or becomes one.
    pub(super) fn decode(&self, rows: Range<usize>) -> Result<ArrayRef, ArrowError> {
        let (at, num_rows) = (rows.start, rows.len());
        let nulls = self.nulls.as_ref().map(|nulls| nulls.slice(at, num_rows));
        let data_type = &self.data_type;
        let array = match &self.stored {
            Stored::Plain(array) => return Ok(array.slice(at, num_rows)),
            Stored::Narrowed { base, by: None } => {
                let values = vec![*base; num_rows];
                array_of(&Values::I64(&values), None, num_rows, nulls, data_type)
            }
            _ => {
                let values = self.values(rows);
                values.and_then(|values| {
                    array_of(&values, self.entries(), num_rows, nulls, data_type)
                })
            }
        };
        array.ok_or_else(|| {
            let message = format!("{data_type} is not kept encoded");
            ArrowError::InvalidArgumentError(message)
        })
    }

    /// Returns how many rows there are.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns which rows have a value; `None` if all have, or if a plain array says so.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// Returns the rows, if they are kept as an array.
    pub fn plain(&self) -> Option<&ArrayRef> {
        match &self.stored {
            Stored::Plain(array) => Some(array),
            _ => None,
        }
    }

    /// Returns what codes are of, if rows are kept as codes.
    pub fn entries(&self) -> Option<&Entries> {
        match &self.stored {
            Stored::Codes { of, .. } => Some(of),
            _ => None,
        }
    }

    /// Returns rows that are not kept as an array: codes, or differences from a value. `None` for others, for
    /// rows that there are not, and for more than a block of rows that all have one value.
    pub fn values(&self, rows: Range<usize>) -> Option<Values<'_>> {
        let num_rows = rows.len();
        Some(match &self.stored {
            Stored::Plain(_) => return None,
            Stored::Codes { codes, .. } => match codes {
                Codes::One(codes) => Values::Codes8(codes.get(rows)?),
                Codes::Two(codes) => Values::Codes16(codes.get(rows)?),
                Codes::Four(codes) => Values::Codes32(codes.get(rows)?),
            },
            Stored::Narrowed { base, by } => Values::Offset {
                base: *base,
                factor: 1,
                raw: match by {
                    None => Raw::U8(NO_DIFFERENCES.get(..num_rows)?),
                    Some(Codes::One(by)) => Raw::U8(by.get(rows)?),
                    Some(Codes::Two(by)) => Raw::U16(by.get(rows)?),
                    Some(Codes::Four(by)) => Raw::U32(by.get(rows)?),
                },
            },
        })
    }

    /// Returns how the values are kept.
    pub(super) fn encoding(&self) -> &'static str {
        match &self.stored {
            Stored::Plain(_) => "plain",
            Stored::Narrowed { by: None, .. } => "constant",
            Stored::Narrowed { .. } => "narrowed",
            Stored::Codes { .. } => "dictionary",
        }
    }

    /// Returns the bytes that are kept, without buffers that are `counted` already; segments share
    /// buffers and entries.
    pub(super) fn bytes(&self, counted: &mut HashSet<usize>) -> usize {
        let values = match &self.stored {
            Stored::Plain(array) => fresh_bytes(&array.to_data(), counted),
            Stored::Narrowed { by, .. } => by.as_ref().map_or(0, Codes::bytes),
            Stored::Codes { codes, of } => {
                let is_new = counted.insert(Arc::as_ptr(of) as usize);
                codes.bytes() + if is_new { of.size().1 } else { 0 }
            }
        };
        let nulls = self.nulls.as_ref().map_or(0, |nulls| nulls.len() / 8);
        size_of::<Self>() + values + nulls
    }
}

/// Sums the capacities of an array's buffers that were not counted before.
fn fresh_bytes(data: &ArrayData, counted: &mut HashSet<usize>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let buffers = data.buffers().iter().chain(nulls);
    let mut fresh = |buffer: &Buffer| {
        let place = buffer.data_ptr().as_ptr() as usize;
        counted.insert(place).then(|| buffer.capacity())
    };
    let own: usize = buffers.filter_map(&mut fresh).sum();
    let below = data.child_data().iter();
    own + below.map(|data| fresh_bytes(data, counted)).sum::<usize>()
}

/// How wide the values of a type are that may be narrowed.
enum Width {
    I32,
    I64,
    I128,
}

fn width(data_type: &DataType) -> Option<Width> {
    match data_type {
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => {
            Some(Width::I32)
        }
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal64(..) => Some(Width::I64),
        DataType::Decimal128(..) => Some(Width::I128),
        _ => None,
    }
}

/// An integer of which the low 64 bits may say all.
trait Integer: ArrowNativeType {
    /// Returns the low 64 bits.
    fn low(self) -> i64;
    /// Returns 0 if the low 64 bits, as a signed number, are the value.
    fn lost(self) -> i64;
}

impl Integer for i32 {
    fn low(self) -> i64 {
        i64::from(self)
    }

    fn lost(self) -> i64 {
        0
    }
}

impl Integer for i64 {
    fn low(self) -> i64 {
        self
    }

    fn lost(self) -> i64 {
        0
    }
}

impl Integer for i128 {
    fn low(self) -> i64 {
        self as i64
    }

    fn lost(self) -> i64 {
        (self >> 64) as i64 ^ (self as i64 >> 63)
    }
}

fn narrow(array: &ArrayRef) -> Option<Stored> {
    let narrowed = match width(array.data_type())? {
        Width::I32 => differences::<i32>(array),
        Width::I64 => differences::<i64>(array),
        Width::I128 => differences::<i128>(array),
    };
    let (base, by) = narrowed?;
    Some(Stored::Narrowed { base, by })
}

fn differences<T: Integer>(array: &ArrayRef) -> Option<(i64, Option<Codes>)> {
    let data = array.to_data();
    if data.is_empty() {
        return None;
    }
    let values = &data.buffer::<T>(0)[..data.len()];
    let (mut least, mut most, mut lost) = (i64::MAX, i64::MIN, 0);
    // Without a branch, for most columns fit.
    for value in values {
        least = least.min(value.low());
        most = most.max(value.low());
        lost |= value.lost();
    }
    if lost != 0 {
        return None;
    }
    let (spread, base) = (most.wrapping_sub(least) as u64, least);
    let from_base = |value: &T| value.low().wrapping_sub(base);
    let by = if spread == 0 {
        return Some((base, None));
    } else if spread <= u64::from(u8::MAX) {
        Codes::One(values.iter().map(|value| from_base(value) as u8).collect())
    } else if spread <= u64::from(u16::MAX) {
        Codes::Two(values.iter().map(|value| from_base(value) as u16).collect())
    } else if spread <= u64::from(u32::MAX) && size_of::<T>() > 4 {
        Codes::Four(values.iter().map(|value| from_base(value) as u32).collect())
    } else {
        return None;
    };
    Some((base, Some(by)))
}

/// Gives each view that differs a code. Equal values may have two codes if they lie in two places.
fn code(array: &ArrayRef) -> Option<Stored> {
    let array = array.as_string_view_opt()?;
    let mut places = [u16::MAX; CODE_PLACES];
    let mut distinct: Vec<u128> = Vec::new();
    let mut codes = Vec::with_capacity(array.len());
    for &view in array.views().iter() {
        let mixed = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut place = mixed as usize >> 54;
        let code = loop {
            let code = usize::from(places[place]);
            match distinct.get(code) {
                Some(&known) if known == view => break code,
                Some(_) => place = (place + 1) % CODE_PLACES,
                None if distinct.len() == CODES_MAX => return None,
                None => {
                    places[place] = distinct.len() as u16;
                    distinct.push(view);
                    break distinct.len() - 1;
                }
            }
        };
        codes.push(code as u8);
    }
    // Collected, the values let go of the pages that they were read from.
    let buffers = array.data_buffers().to_vec();
    let of = StringViewArray::try_new(distinct.into(), buffers, None);
    Some(Stored::Codes {
        codes: Codes::One(codes),
        of: Arc::new(Entries::Text(of.ok()?.gc())),
    })
}
