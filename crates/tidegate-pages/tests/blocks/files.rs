//! Files with columns of each type.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, LargeStringArray, PrimitiveArray,
    RecordBatch, StringArray, StringViewArray,
};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rand::Rng;
use rand::rngs::StdRng;

/// Which rows are NULL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nulls {
    None,
    Some,
    Runs,
    All,
}

impl Nulls {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Some, Self::Runs, Self::All];

    /// Returns for each row whether it has a value.
    pub(crate) fn validity(self, num_rows: usize, random: &mut StdRng) -> Vec<bool> {
        match self {
            Self::None => vec![true; num_rows],
            Self::All => vec![false; num_rows],
            Self::Some => (0..num_rows).map(|_| random.random_bool(0.7)).collect(),
            Self::Runs => {
                let mut rows = Vec::new();
                while rows.len() < num_rows {
                    let run = random.random_range(1..700.min(num_rows + 1));
                    let is_valid = random.random_bool(0.5);
                    rows.extend(std::iter::repeat_n(is_valid, run));
                }
                rows.truncate(num_rows);
                rows
            }
        }
    }
}

/// How values are distributed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// Few different ones, some in runs.
    Few,
    /// Many different ones.
    Many,
    /// One.
    One,
}

impl Values {
    fn numbers(self, num_rows: usize, random: &mut StdRng) -> Vec<i64> {
        let mut numbers = Vec::new();
        while numbers.len() < num_rows {
            let (number, run) = match self {
                Self::One => (-7, num_rows),
                Self::Many => (random.random::<i64>() >> random.random_range(0..64), 1),
                Self::Few => {
                    let run = [1, 1, 1, 40, 3_000][random.random_range(0..5)];
                    (random.random_range(-20..20), run)
                }
            };
            numbers.extend(std::iter::repeat_n(number, run));
        }
        numbers.truncate(num_rows);
        numbers
    }
}

fn primitive<T: ArrowPrimitiveType>(
    numbers: &[Option<i64>],
    value: impl Fn(i64) -> T::Native,
) -> PrimitiveArray<T> {
    numbers.iter().map(|number| number.map(&value)).collect()
}

fn arc(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

/// Makes a column of each type that Arrow's writer has, by name.
pub(crate) fn columns(
    num_rows: usize,
    nulls: Nulls,
    values: Values,
    random: &mut StdRng,
) -> Vec<(&'static str, ArrayRef)> {
    let mut numbers = || -> Vec<Option<i64>> {
        let validity = nulls.validity(num_rows, random);
        let numbers = values.numbers(num_rows, random);
        let rows = numbers.into_iter().zip(validity);
        rows.map(|(number, is_valid)| is_valid.then_some(number))
            .collect()
    };
    macro_rules! column {
        ($type:ty, $value:expr) => {
            Arc::new(primitive::<$type>(&numbers(), $value)) as ArrayRef
        };
    }
    let wide = |value: i64| i128::from(value) * 1_000_000_007_000_000_009 % 10_i128.pow(38);
    let text = |value: i64| match value % 5 {
        0 => String::new(),
        1 | -1 => format!("ä{value}"),
        2 => format!("a string that is too long for a view: {value}"),
        _ => format!("{value}"),
    };
    let texts = |numbers: Vec<Option<i64>>| -> Vec<Option<String>> {
        numbers.into_iter().map(|value| value.map(text)).collect()
    };
    let decimal128 = |array: PrimitiveArray<Decimal128Type>, precision, scale| -> ArrayRef {
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    vec![
        (
            "bool",
            arc(numbers()
                .iter()
                .map(|v| v.map(|v| v & 1 == 1))
                .collect::<BooleanArray>()),
        ),
        ("i8", column!(Int8Type, |v| v as i8)),
        ("i16", column!(Int16Type, |v| v as i16)),
        ("i32", column!(Int32Type, |v| v as i32)),
        ("i64", column!(Int64Type, |v| v)),
        ("u8", column!(UInt8Type, |v| v as u8)),
        ("u16", column!(UInt16Type, |v| v as u16)),
        ("u32", column!(UInt32Type, |v| v as u32)),
        ("u64", column!(UInt64Type, |v| v as u64)),
        ("f32", column!(Float32Type, |v| f32::from_bits(v as u32))),
        ("f64", column!(Float64Type, |v| v as f64 / 3.0)),
        ("date32", column!(Date32Type, |v| v as i32)),
        ("date64", column!(Date64Type, |v| (v >> 32) * 86_400_000)),
        (
            "time32_s",
            column!(Time32SecondType, |v| (v as i32).rem_euclid(86_400)),
        ),
        (
            "time32_ms",
            column!(Time32MillisecondType, |v| (v as i32).rem_euclid(86_400_000)),
        ),
        (
            "time64_us",
            column!(Time64MicrosecondType, |v| v.rem_euclid(86_400_000_000)),
        ),
        (
            "time64_ns",
            column!(Time64NanosecondType, |v| v.rem_euclid(86_400_000_000_000)),
        ),
        ("timestamp_s", column!(TimestampSecondType, |v| v)),
        ("timestamp_ms", column!(TimestampMillisecondType, |v| v)),
        ("timestamp_us", column!(TimestampMicrosecondType, |v| v)),
        ("timestamp_ns", column!(TimestampNanosecondType, |v| v)),
        ("timestamp_zone", {
            let array = primitive::<TimestampMicrosecondType>(&numbers(), |v| v);
            arc(array.with_timezone("+02:00"))
        }),
        ("duration", column!(DurationMicrosecondType, |v| v)),
        ("decimal32", {
            let array = primitive::<Decimal32Type>(&numbers(), |v| (v % 1_000_000_000) as i32);
            arc(array.with_precision_and_scale(9, 2).unwrap())
        }),
        ("decimal64", {
            let array = primitive::<Decimal64Type>(&numbers(), |v| v % 1_000_000_000_000_000_000);
            arc(array.with_precision_and_scale(18, 3).unwrap())
        }),
        (
            "decimal9",
            decimal128(primitive(&numbers(), |v| (v % 1_000_000_000).into()), 9, 2),
        ),
        (
            "decimal18",
            decimal128(
                primitive(&numbers(), |v| (v % 10_i64.pow(18)).into()),
                18,
                2,
            ),
        ),
        (
            "decimal22",
            decimal128(primitive(&numbers(), |v| i128::from(v) * 97), 22, 5),
        ),
        ("decimal38", decimal128(primitive(&numbers(), wide), 38, 10)),
        ("text", arc(StringArray::from(texts(numbers())))),
        ("large_text", arc(LargeStringArray::from(texts(numbers())))),
        ("text_view", arc(StringViewArray::from(texts(numbers())))),
    ]
}

/// Writes a file of columns.
pub(crate) fn written(
    columns: Vec<(&'static str, ArrayRef)>,
    properties: WriterProperties,
) -> Bytes {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    written_batch(&batch, properties)
}

pub(crate) fn written_batch(batch: &RecordBatch, properties: WriterProperties) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}
