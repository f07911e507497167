//! One batch of one column, encoded as far as decoding stays fast.
//!
//! A segment stores integers, dates, times and decimals as differences from their least value, in
//! 0, 1, 2 or 4 bytes, and strings of few values as codes of one byte. Both cost about a nanosecond
//! per value each way, which is less than moving the plain values from memory. Everything else is
//! stored as it is.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteViewArray, UInt8Array, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, DataType};

/// Codes of a segment.
const CODES_MAX: usize = 256;

/// Places of the table in which a segment's values find their codes.
const CODE_PLACES: usize = 1024;

/// A segment's values as they lie.
#[derive(Clone, Copy, Debug)]
pub enum SegmentValues<'a> {
    /// An array, with its nulls.
    Plain(&'a ArrayRef),
    /// Differences from `base`, integers whatever the type.
    Narrowed {
        /// The least value.
        base: i64,
        /// What is added to it.
        differences: DifferencesView<'a>,
    },
    /// Positions in an array of strings.
    Codes {
        /// A position for each row.
        codes: &'a [u8],
        /// The strings.
        of: &'a ArrayRef,
    },
}

/// Differences, one for each row.
#[derive(Clone, Copy, Debug)]
pub enum DifferencesView<'a> {
    /// All are 0.
    None,
    /// In one byte.
    One(&'a [u8]),
    /// In two.
    Two(&'a [u16]),
    /// In four.
    Four(&'a [u32]),
}

/// The values of one batch of one column.
#[derive(Debug)]
pub struct Segment {
    data_type: DataType,
    num_rows: usize,
    nulls: Option<NullBuffer>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    /// As they came, nulls included.
    Plain(ArrayRef),
    /// Differences from `base`.
    Narrowed { base: i64, differences: Differences },
    /// Positions in an array of the column's type.
    Codes {
        codes: ScalarBuffer<u8>,
        of: ArrayRef,
    },
}

#[derive(Debug)]
enum Differences {
    None,
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
}

impl Segment {
    /// Keeps an array.
    pub(super) fn encode(array: &ArrayRef) -> Self {
        let values = narrow(array).or_else(|| code(array));
        Self {
            data_type: array.data_type().clone(),
            num_rows: array.len(),
            // A plain array keeps its own.
            nulls: values.as_ref().and_then(|_| array.nulls().cloned()),
            values: values.unwrap_or_else(|| Values::Plain(Arc::clone(array))),
        }
    }

    /// Restores the array.
    ///
    /// # Errors
    /// None but by a defect: what was kept was an array.
    pub(super) fn decode(&self) -> Result<ArrayRef, ArrowError> {
        match &self.values {
            Values::Plain(array) => Ok(Arc::clone(array)),
            Values::Narrowed { base, differences } => {
                let values = match width(&self.data_type) {
                    Some(Width::I32) => widen::<i32>(*base, differences, self.num_rows),
                    Some(Width::I64) => widen::<i64>(*base, differences, self.num_rows),
                    Some(Width::I128) => widen::<i128>(*base, differences, self.num_rows),
                    None => {
                        let message = format!("{} is not kept narrowed", self.data_type);
                        return Err(ArrowError::InvalidArgumentError(message));
                    }
                };
                let data = ArrayDataBuilder::new(self.data_type.clone())
                    .len(self.num_rows)
                    .nulls(self.nulls.clone())
                    .add_buffer(values);
                Ok(make_array(data.build()?))
            }
            Values::Codes { codes, of } => {
                let codes = UInt8Array::try_new(codes.clone(), self.nulls.clone())?;
                arrow_select::take::take(of, &codes, None)
            }
        }
    }

    /// Returns how many rows there are.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns which rows have a value; `None` if all have, or if a plain array says so.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// Returns the values as they lie.
    pub fn values(&self) -> SegmentValues<'_> {
        match &self.values {
            Values::Plain(array) => SegmentValues::Plain(array),
            Values::Narrowed { base, differences } => SegmentValues::Narrowed {
                base: *base,
                differences: match differences {
                    Differences::None => DifferencesView::None,
                    Differences::One(by) => DifferencesView::One(by),
                    Differences::Two(by) => DifferencesView::Two(by),
                    Differences::Four(by) => DifferencesView::Four(by),
                },
            },
            Values::Codes { codes, of } => SegmentValues::Codes { codes, of },
        }
    }

    /// Returns how the values are kept.
    pub(super) fn encoding(&self) -> &'static str {
        match &self.values {
            Values::Plain(_) => "plain",
            Values::Narrowed {
                differences: Differences::None,
                ..
            } => "constant",
            Values::Narrowed { .. } => "narrowed",
            Values::Codes { .. } => "dictionary",
        }
    }

    /// Returns the bytes that are kept, without buffers that are `counted` already; plain arrays
    /// share buffers.
    pub(super) fn bytes(&self, counted: &mut HashSet<usize>) -> usize {
        let mut fresh = |array: &ArrayRef| fresh_bytes(&array.to_data(), counted);
        let values = match &self.values {
            Values::Plain(array) => fresh(array),
            Values::Narrowed { differences, .. } => match differences {
                Differences::None => 0,
                Differences::One(values) => values.capacity(),
                Differences::Two(values) => values.capacity() * 2,
                Differences::Four(values) => values.capacity() * 4,
            },
            Values::Codes { codes, of } => codes.len() + fresh(of),
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
    fn of_low(value: i64) -> Self;
}

impl Integer for i32 {
    fn low(self) -> i64 {
        i64::from(self)
    }

    fn lost(self) -> i64 {
        0
    }

    fn of_low(value: i64) -> Self {
        value as i32
    }
}

impl Integer for i64 {
    fn low(self) -> i64 {
        self
    }

    fn lost(self) -> i64 {
        0
    }

    fn of_low(value: i64) -> Self {
        value
    }
}

impl Integer for i128 {
    fn low(self) -> i64 {
        self as i64
    }

    fn lost(self) -> i64 {
        (self >> 64) as i64 ^ (self as i64 >> 63)
    }

    fn of_low(value: i64) -> Self {
        i128::from(value)
    }
}

fn narrow(array: &ArrayRef) -> Option<Values> {
    let narrowed = match width(array.data_type())? {
        Width::I32 => differences::<i32>(array),
        Width::I64 => differences::<i64>(array),
        Width::I128 => differences::<i128>(array),
    };
    let (base, differences) = narrowed?;
    Some(Values::Narrowed { base, differences })
}

fn differences<T: Integer>(array: &ArrayRef) -> Option<(i64, Differences)> {
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
    let differences = if spread == 0 {
        Differences::None
    } else if spread <= u64::from(u8::MAX) {
        Differences::One(values.iter().map(|value| from_base(value) as u8).collect())
    } else if spread <= u64::from(u16::MAX) {
        Differences::Two(values.iter().map(|value| from_base(value) as u16).collect())
    } else if spread <= u64::from(u32::MAX) && size_of::<T>() > 4 {
        Differences::Four(values.iter().map(|value| from_base(value) as u32).collect())
    } else {
        return None;
    };
    Some((base, differences))
}

fn widen<T: Integer>(base: i64, differences: &Differences, num_rows: usize) -> Buffer {
    let restore = |difference: i64| T::of_low(base.wrapping_add(difference));
    let values: Vec<T> = match differences {
        Differences::None => vec![restore(0); num_rows],
        Differences::One(of) => of.iter().map(|&by| restore(i64::from(by))).collect(),
        Differences::Two(of) => of.iter().map(|&by| restore(i64::from(by))).collect(),
        Differences::Four(of) => of.iter().map(|&by| restore(i64::from(by))).collect(),
    };
    Buffer::from_vec(values)
}

fn code(array: &ArrayRef) -> Option<Values> {
    match array.data_type() {
        DataType::Utf8View => code_views::<StringViewType>(array.as_byte_view_opt()?),
        DataType::BinaryView => code_views::<BinaryViewType>(array.as_byte_view_opt()?),
        _ => None,
    }
}

/// Gives each view that differs a code. Equal values may have two codes if they lie in two places.
fn code_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<Values>
where
    GenericByteViewArray<T>: Array + 'static,
{
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
    let of = GenericByteViewArray::<T>::try_new(distinct.into(), buffers, None);
    let of = of.ok()?.gc();
    Some(Values::Codes {
        codes: codes.into(),
        of: Arc::new(of),
    })
}
