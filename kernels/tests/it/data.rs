//! Columns of every type, random but for their seed.

use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMillisecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32SecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, LargeStringArray, PrimitiveArray, RecordBatch,
    StringArray, StringViewArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_kernels::program::Interval;
use tidegate_pipeline::types::Decimal;

/// Floats that arithmetic, comparisons and keys treat apart.
pub(crate) const SPECIAL_FLOATS: [f64; 12] = [
    0.0,
    -0.0,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1.0,
    1.5,
    -1.5,
    1e300,
    5e-324,
    0.1,
];

/// Returns a generator of this seed.
pub(crate) fn random(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Makes a batch of columns `c0`, `c1`, ….
pub(crate) fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| Field::new(format!("c{index}"), column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Cuts a batch into batches of so many rows, each at an offset in its arrays.
pub(crate) fn cut(batch: &RecordBatch, sizes: &[usize]) -> Vec<RecordBatch> {
    let mut at = 0;
    let mut parts = Vec::new();
    for size in sizes {
        let size = (*size).min(batch.num_rows() - at);
        parts.push(batch.slice(at, size));
        at += size;
    }
    parts.push(batch.slice(at, batch.num_rows() - at));
    parts
}

/// What a random column is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many of a hundred values are NULL.
    pub(crate) nulls: u32,
    /// Integers are within this, and within their type.
    pub(crate) range: Interval,
    /// Every so many values is an extreme of the range, a special float, ….
    pub(crate) special: Option<u32>,
}

impl Shape {
    pub(crate) fn within(low: i128, high: i128) -> Self {
        Self {
            nulls: 0,
            range: Interval::new(low, high),
            special: None,
        }
    }

    pub(crate) fn all() -> Self {
        Self {
            nulls: 10,
            range: Interval::ALL,
            special: Some(6),
        }
    }

    pub(crate) fn nulls(self, nulls: u32) -> Self {
        Self { nulls, ..self }
    }
}

/// Returns the integers that a type is declared to hold.
pub(crate) fn limits(data_type: &DataType) -> Interval {
    match Decimal::of(data_type) {
        Some(decimal) => {
            let most = 10_i128.pow(u32::from(decimal.precision)) - 1;
            Interval::new(-most, most)
        }
        None => Interval::of_type(data_type).unwrap_or(Interval::signed(64)),
    }
}

fn integer(random: &mut StdRng, range: Interval, special: Option<u32>) -> i128 {
    if special.is_some_and(|one_in| random.random_ratio(1, one_in)) {
        let candidates = [
            range.low,
            range.high,
            range.low + 1,
            range.high - 1,
            0,
            1,
            -1,
        ];
        let chosen = candidates[random.random_range(0..candidates.len())];
        return chosen.clamp(range.low, range.high);
    }
    if special.is_some() && random.random_ratio(1, 2) {
        let small = Interval::new(range.low.max(-100), range.high.min(100));
        if small.low <= small.high {
            return random.random_range(small.low..=small.high);
        }
    }
    random.random_range(range.low..=range.high)
}

fn float(random: &mut StdRng, shape: Shape) -> f64 {
    if shape
        .special
        .is_some_and(|one_in| random.random_ratio(1, one_in))
    {
        return SPECIAL_FLOATS[random.random_range(0..SPECIAL_FLOATS.len())];
    }
    let (low, high) = (
        shape.range.low.max(-1_000_000) as f64,
        shape.range.high.min(1_000_000) as f64,
    );
    random.random_range(low..=high)
}

const WORDS: [&str; 8] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "été",
    "Zz%_\\",
    "a longer string than a view holds",
];

/// Makes a random column.
pub(crate) fn column(
    random: &mut StdRng,
    data_type: &DataType,
    num_rows: usize,
    shape: Shape,
) -> ArrayRef {
    let limits = limits(data_type);
    let clamped = |value: i128| value.clamp(limits.low, limits.high);
    let range = Interval::new(clamped(shape.range.low), clamped(shape.range.high));
    let there: Vec<bool> = (0..num_rows)
        .map(|_| random.random_range(0..100) >= shape.nulls)
        .collect();
    if data_type.is_floating() {
        let values: Vec<Option<f64>> = there
            .iter()
            .map(|there| Some(float(random, shape)).filter(|_| *there))
            .collect();
        return floats_as(data_type, &values);
    }
    if tidegate_pipeline::types::is_string(data_type) {
        let (low, high) = (
            range.low.clamp(0, 7) as usize,
            range.high.clamp(0, 7) as usize,
        );
        let values: Vec<Option<&str>> = there
            .iter()
            .map(|there| Some(WORDS[random.random_range(low..=high)]).filter(|_| *there))
            .collect();
        return strings_as(data_type, &values);
    }
    let values: Vec<Option<i128>> = there
        .iter()
        .map(|there| Some(integer(random, range, shape.special)).filter(|_| *there))
        .collect();
    integers(data_type, &values)
}

/// Makes a column of floats of a width.
pub(crate) fn floats_as(data_type: &DataType, values: &[Option<f64>]) -> ArrayRef {
    match data_type {
        DataType::Float32 => Arc::new(PrimitiveArray::<Float32Type>::from_iter(
            values.iter().map(|value| value.map(|value| value as f32)),
        )),
        _ => Arc::new(PrimitiveArray::<Float64Type>::from_iter(
            values.iter().copied(),
        )),
    }
}

/// Makes a column of strings in a layout.
pub(crate) fn strings_as(data_type: &DataType, values: &[Option<&str>]) -> ArrayRef {
    match data_type {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from(values.to_vec())),
        DataType::Utf8View => Arc::new(StringViewArray::from(values.to_vec())),
        DataType::Dictionary(_, _) => {
            let mut builder = StringDictionaryBuilder::<Int32Type>::new();
            builder.extend(values.iter().copied());
            Arc::new(builder.finish())
        }
        _ => Arc::new(StringArray::from(values.to_vec())),
    }
}

/// Makes a column of any type that has integers beneath.
pub(crate) fn integers(data_type: &DataType, values: &[Option<i128>]) -> ArrayRef {
    use DataType as T;

    match data_type {
        T::Boolean => Arc::new(BooleanArray::from_iter(
            values.iter().map(|value| value.map(|value| value != 0)),
        )),
        T::Int8 => primitive::<Int8Type>(data_type, values, |value| value as i8),
        T::Int16 => primitive::<Int16Type>(data_type, values, |value| value as i16),
        T::Int32 => primitive::<Int32Type>(data_type, values, |value| value as i32),
        T::Int64 => primitive::<Int64Type>(data_type, values, |value| value as i64),
        T::UInt8 => primitive::<UInt8Type>(data_type, values, |value| value as u8),
        T::UInt16 => primitive::<UInt16Type>(data_type, values, |value| value as u16),
        T::UInt32 => primitive::<UInt32Type>(data_type, values, |value| value as u32),
        T::UInt64 => primitive::<UInt64Type>(data_type, values, |value| value as u64),
        T::Date32 => primitive::<Date32Type>(data_type, values, |value| value as i32),
        T::Date64 => primitive::<Date64Type>(data_type, values, |value| value as i64),
        T::Decimal32(_, _) => primitive::<Decimal32Type>(data_type, values, |value| value as i32),
        T::Decimal64(_, _) => primitive::<Decimal64Type>(data_type, values, |value| value as i64),
        T::Decimal128(_, _) => primitive::<Decimal128Type>(data_type, values, |value| value),
        T::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(data_type, values, |value| value as i32)
        }
        T::Time64(TimeUnit::Nanosecond) => {
            primitive::<Time64NanosecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Second, _) => {
            primitive::<TimestampSecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive::<TimestampNanosecondType>(data_type, values, |value| value as i64)
        }
        T::Duration(TimeUnit::Millisecond) => {
            primitive::<DurationMillisecondType>(data_type, values, |value| value as i64)
        }
        other => panic!("a column of {other}"),
    }
}

/// Under a NULL lies garbage, as it may in any array.
fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: &[Option<i128>],
    native: fn(i128) -> T::Native,
) -> ArrayRef {
    let under = |row: usize| {
        if row.is_multiple_of(2) {
            i128::MIN + 7
        } else {
            i128::MAX / 3
        }
    };
    let natives: Vec<T::Native> = values
        .iter()
        .enumerate()
        .map(|(row, value)| native(value.unwrap_or(under(row))))
        .collect();
    let nulls = values.iter().any(Option::is_none);
    let nulls = nulls.then(|| values.iter().map(Option::is_some).collect());
    let array = PrimitiveArray::<T>::new(natives.into(), nulls);
    Arc::new(array.with_data_type(data_type.clone()))
}
