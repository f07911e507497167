//! A column of a record batch, block by block.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, StringViewArray};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::super::Declined;
use super::super::block::{BLOCK, Chunk, Entries, Raw, Values};
use super::super::compile::span;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// A column of a batch.
#[derive(Debug)]
pub struct BatchColumn {
    cells: Cells,
    validity: Validity,
    entries: Option<Entries>,
    /// A block's values where they are widened.
    bytes: Vec<u8>,
    i32s: Vec<i32>,
    i128s: Vec<i128>,
    /// A block's validity.
    valid: Vec<u8>,
    /// The rows of the block at hand.
    block: Range<usize>,
    /// Whether one of them has no value.
    has_nulls: bool,
}

#[derive(Debug)]
enum Cells {
    Bool(BooleanBuffer),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    I128(ScalarBuffer<i128>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    Text(StringViewArray),
    /// SQL's intervals as row programs have them.
    Spans(Vec<i128>),
    Codes(Vec<u32>),
}

#[derive(Debug)]
enum Validity {
    All,
    Bits(BooleanBuffer),
    Bytes(Vec<u8>),
}

impl BatchColumn {
    /// Prepares an array.
    ///
    /// # Errors
    /// Its type has no blocks.
    pub fn new(array: &dyn Array) -> Result<Self, Declined> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut validity = match nulls {
            None => Validity::All,
            Some(nulls) => Validity::Bits(nulls.inner().clone()),
        };
        let mut entries = None;
        let cells = match array.data_type() {
            DataType::Dictionary(..) => {
                let coded = Coded::new(array)?;
                if let Some(bytes) = coded.validity {
                    validity = Validity::Bytes(bytes);
                }
                entries = coded.entries.map(Entries::Text);
                coded.cells
            }
            _ => cells_of(array).ok_or_else(|| refused(array.data_type()))?,
        };
        Ok(Self {
            cells,
            validity,
            entries,
            bytes: Vec::new(),
            i32s: Vec::new(),
            i128s: Vec::new(),
            valid: Vec::new(),
            block: 0..0,
            has_nulls: false,
        })
    }

    /// Returns its dictionary.
    pub fn entries(&self) -> Option<&Entries> {
        self.entries.as_ref()
    }

    /// Makes rows the block at hand: widens what does not lie as blocks have it.
    pub fn begin_block(&mut self, at: usize, rows: usize) {
        let range = at..at + rows;
        self.block = range.clone();
        match &self.cells {
            Cells::Bool(bits) => unpack(bits, at, rows, &mut self.bytes),
            Cells::I8(values) => widen(&values[range], &mut self.i32s),
            Cells::I16(values) => widen(&values[range], &mut self.i32s),
            Cells::U64(values) => widen(&values[range], &mut self.i128s),
            _ => {}
        }
        self.has_nulls = match &self.validity {
            Validity::All => false,
            Validity::Bytes(bytes) => bytes[at..at + rows].contains(&0),
            Validity::Bits(bits) => {
                unpack(bits, at, rows, &mut self.valid);
                self.valid.contains(&0)
            }
        };
    }

    /// Returns the block at hand.
    pub fn block(&self) -> Chunk<'_> {
        let range = self.block.clone();
        let raw = |raw| Values::Offset {
            base: 0,
            factor: 1,
            raw,
        };
        let values = match &self.cells {
            Cells::Bool(_) => Values::Bool(&self.bytes),
            Cells::I8(_) | Cells::I16(_) => Values::I32(&self.i32s),
            Cells::U64(_) => Values::I128(&self.i128s),
            Cells::U8(values) => raw(Raw::U8(&values[range])),
            Cells::U16(values) => raw(Raw::U16(&values[range])),
            Cells::U32(values) => raw(Raw::U32(&values[range])),
            Cells::I32(values) => Values::I32(&values[range]),
            Cells::I64(values) => Values::I64(&values[range]),
            Cells::I128(values) => Values::I128(&values[range]),
            Cells::F32(values) => Values::F32(&values[range]),
            Cells::F64(values) => Values::F64(&values[range]),
            Cells::Spans(values) => Values::I128(&values[range]),
            Cells::Codes(codes) => Values::Codes32(&codes[range]),
            Cells::Text(array) => Values::Text {
                array,
                at: range.start,
            },
        };
        let validity: &[u8] = match &self.validity {
            Validity::All => &[],
            Validity::Bytes(bytes) => &bytes[self.block.clone()],
            Validity::Bits(_) => &self.valid,
        };
        Chunk {
            values,
            validity: self.has_nulls.then_some(validity),
        }
    }
}

/// Writes values as wider ones.
fn widen<T: Copy, W: From<T>>(from: &[T], to: &mut Vec<W>) {
    to.clear();
    to.extend(from.iter().map(|value| W::from(*value)));
}

/// Writes bits as bytes of 0 and 1.
fn unpack(bits: &BooleanBuffer, at: usize, rows: usize, to: &mut Vec<u8>) {
    to.clear();
    to.reserve(BLOCK + 64);
    for word in bits.slice(at, rows).bit_chunks().iter_padded() {
        let mut bytes = [0; 64];
        for (bit, byte) in bytes.iter_mut().enumerate() {
            *byte = (word >> bit & 1) as u8;
        }
        to.extend_from_slice(&bytes);
    }
    to.truncate(rows);
}

fn refused(data_type: &DataType) -> Declined {
    Declined::Unsupported(format!("a column of {data_type}"))
}

fn native<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<ScalarBuffer<T::Native>> {
    Some(array.as_primitive_opt::<T>()?.values().clone())
}

fn cells_of(array: &dyn Array) -> Option<Cells> {
    use DataType as T;

    Some(match array.data_type() {
        T::Boolean => Cells::Bool(array.as_boolean_opt()?.values().clone()),
        T::Int8 => Cells::I8(native::<Int8Type>(array)?),
        T::Int16 => Cells::I16(native::<Int16Type>(array)?),
        T::UInt8 => Cells::U8(native::<UInt8Type>(array)?),
        T::UInt16 => Cells::U16(native::<UInt16Type>(array)?),
        T::UInt32 => Cells::U32(native::<UInt32Type>(array)?),
        T::UInt64 => Cells::U64(native::<UInt64Type>(array)?),
        T::Int32 => Cells::I32(native::<Int32Type>(array)?),
        T::Date32 => Cells::I32(native::<Date32Type>(array)?),
        T::Time32(TimeUnit::Second) => Cells::I32(native::<Time32SecondType>(array)?),
        T::Time32(_) => Cells::I32(native::<Time32MillisecondType>(array)?),
        T::Decimal32(..) => Cells::I32(native::<Decimal32Type>(array)?),
        T::Decimal64(..) => Cells::I64(native::<Decimal64Type>(array)?),
        T::Decimal128(..) => Cells::I128(native::<Decimal128Type>(array)?),
        T::Float32 => Cells::F32(native::<Float32Type>(array)?),
        T::Float64 => Cells::F64(native::<Float64Type>(array)?),
        T::Interval(unit) => Cells::Spans(spans(array, *unit)?),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Cells::Text(views(array)?),
        _ => Cells::I64(int64(array)?),
    })
}

fn int64(array: &dyn Array) -> Option<ScalarBuffer<i64>> {
    use DataType as T;

    match array.data_type() {
        T::Int64 => native::<Int64Type>(array),
        T::Date64 => native::<Date64Type>(array),
        T::Time64(TimeUnit::Nanosecond) => native::<Time64NanosecondType>(array),
        T::Time64(_) => native::<Time64MicrosecondType>(array),
        T::Timestamp(TimeUnit::Second, _) => native::<TimestampSecondType>(array),
        T::Timestamp(TimeUnit::Millisecond, _) => native::<TimestampMillisecondType>(array),
        T::Timestamp(TimeUnit::Microsecond, _) => native::<TimestampMicrosecondType>(array),
        T::Timestamp(TimeUnit::Nanosecond, _) => native::<TimestampNanosecondType>(array),
        T::Duration(TimeUnit::Second) => native::<DurationSecondType>(array),
        T::Duration(TimeUnit::Millisecond) => native::<DurationMillisecondType>(array),
        T::Duration(TimeUnit::Microsecond) => native::<DurationMicrosecondType>(array),
        T::Duration(TimeUnit::Nanosecond) => native::<DurationNanosecondType>(array),
        _ => None,
    }
}

fn spans(array: &dyn Array, unit: IntervalUnit) -> Option<Vec<i128>> {
    Some(match unit {
        IntervalUnit::YearMonth => {
            let months = native::<IntervalYearMonthType>(array)?;
            months.iter().map(|months| span(*months, 0, 0)).collect()
        }
        IntervalUnit::DayTime => {
            let values = native::<IntervalDayTimeType>(array)?;
            let nanoseconds =
                |milliseconds: i32| i64::from(milliseconds) * NANOSECONDS_PER_MILLISECOND;
            let spans = values.iter();
            spans
                .map(|value| span(0, value.days, nanoseconds(value.milliseconds)))
                .collect()
        }
        IntervalUnit::MonthDayNano => {
            let values = native::<IntervalMonthDayNanoType>(array)?;
            let spans = values.iter();
            spans
                .map(|value| span(value.months, value.days, value.nanoseconds))
                .collect()
        }
    })
}

/// Returns strings as views, which share the bytes of the array.
fn views(array: &dyn Array) -> Option<StringViewArray> {
    match array.data_type() {
        DataType::Utf8 => Some(StringViewArray::from(array.as_string_opt::<i32>()?)),
        DataType::LargeUtf8 => Some(StringViewArray::from(array.as_string_opt::<i64>()?)),
        _ => Some(array.as_string_view_opt()?.clone()),
    }
}

/// A dictionary array: codes and entries.
struct Coded {
    cells: Cells,
    entries: Option<StringViewArray>,
    validity: Option<Vec<u8>>,
}

impl Coded {
    fn new(array: &dyn Array) -> Result<Self, Declined> {
        let refuse = || refused(array.data_type());
        let dictionary = array.as_any_dictionary_opt().ok_or_else(refuse)?;
        let values = dictionary.values();
        let entries = views(values.as_ref()).ok_or_else(refuse)?;
        let rows = array.len();
        if entries.is_empty() {
            // Every row is NULL, and there is no code that one could have.
            return Ok(Self {
                cells: Cells::Text(StringViewArray::from(vec![""; rows])),
                entries: None,
                validity: None,
            });
        }
        // Keys of NULLs are cut to some entry as well.
        let codes: Vec<u32> = dictionary
            .normalized_keys()
            .iter()
            .map(|key| *key as u32)
            .collect();
        let validity = (values.null_count() > 0).then(|| {
            let is_there = |(row, code): (usize, &u32)| {
                (!array.is_null(row) && !values.is_null(*code as usize)).into()
            };
            codes.iter().enumerate().map(is_there).collect()
        });
        Ok(Self {
            cells: Cells::Codes(codes),
            entries: Some(entries),
            validity,
        })
    }
}
