//! Every type goes into a column and comes back.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, LargeStringArray, StringArray,
    StringViewArray, UInt8Array,
};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::Column;
use crate::catalogue::span::Span;
use crate::interpret::EvalError;
use crate::interpret::builder::ColumnBuilder;
use crate::program::cell::Cell;

fn int<'a>(value: i128) -> Option<Cell<'a>> {
    Some(Cell::Int(value))
}

fn float<'a>(value: f64) -> Option<Cell<'a>> {
    Some(Cell::Float(value))
}

fn text(text: &str) -> Option<Cell<'_>> {
    Some(Cell::Text(text))
}

/// Builds an array cell by cell.
fn build(data_type: &DataType, values: &[Option<Cell<'_>>]) -> Result<ArrayRef, EvalError> {
    let mut builder = ColumnBuilder::new(data_type)?;
    for value in values {
        builder.push(*value)?;
    }
    builder.finish()
}

fn read(array: &ArrayRef) -> Vec<Option<Cell<'_>>> {
    let column = Column::new(array.as_ref()).unwrap();
    (0..array.len()).map(|row| column.get(row)).collect()
}

fn dictionary(key: DataType, value: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(value))
}

#[test]
fn every_type_there_and_back() {
    let ints = [int(-3), None, int(100)];
    let uints = [int(3), None, int(200)];
    let decimals = [int(-3), None, int(99_999)];
    let texts = [
        text("a"),
        None,
        text("longer than twelve bytes"),
        text("a"),
        text(""),
    ];
    let interval = |months, days, nanoseconds| int(Span::new(months, days, nanoseconds).packed());
    let units = [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ];
    let mut cases: Vec<(DataType, Vec<Option<Cell<'_>>>)> = vec![
        (
            DataType::Boolean,
            vec![int(i128::from(true)), None, int(i128::from(false))],
        ),
        (DataType::Float32, vec![float(-0.5), None]),
        (DataType::Float64, vec![float(-0.5), None]),
        (
            DataType::Interval(IntervalUnit::YearMonth),
            vec![interval(-14, 0, 0), None],
        ),
        (
            DataType::Interval(IntervalUnit::DayTime),
            vec![interval(0, -2, -3_000_000), None],
        ),
        (
            DataType::Interval(IntervalUnit::MonthDayNano),
            vec![interval(1, -2, 3), None],
        ),
    ];
    let signed = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, Some("+01:00".into())),
    ];
    let timed = units
        .into_iter()
        .flat_map(|unit| [DataType::Timestamp(unit, None), DataType::Duration(unit)]);
    cases.extend(
        signed
            .into_iter()
            .chain(timed)
            .map(|data_type| (data_type, ints.to_vec())),
    );
    let unsigned = [
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
    ];
    cases.extend(unsigned.map(|data_type| (data_type, uints.to_vec())));
    let decimal_types = [
        DataType::Decimal32(5, 2),
        DataType::Decimal64(12, 0),
        DataType::Decimal128(38, 10),
    ];
    cases.extend(decimal_types.map(|data_type| (data_type, decimals.to_vec())));
    let string_types = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int32, DataType::Utf8),
        dictionary(DataType::UInt8, DataType::LargeUtf8),
        dictionary(DataType::Int64, DataType::Utf8View),
    ];
    cases.extend(string_types.map(|data_type| (data_type, texts.to_vec())));
    for (data_type, values) in cases {
        let array = build(&data_type, &values).unwrap();
        assert_eq!(array.data_type(), &data_type);
        assert_eq!(read(&array), values, "{data_type}");
        let sliced = array.slice(1, values.len() - 1);
        assert_eq!(read(&sliced), values[1..], "{data_type} sliced");
    }
}

#[test]
fn a_dictionary_reads_as_its_strings() {
    let keys = Int32Array::from(vec![Some(1), None, Some(0), Some(2)]);
    let values = StringArray::from(vec![Some("zero"), Some("one"), None]);
    let array = DictionaryArray::<Int32Type>::new(keys, Arc::new(values));
    let array: ArrayRef = Arc::new(array);
    let expected = [text("one"), None, text("zero"), None];
    assert_eq!(read(&array), expected);
    assert_eq!(read(&array.slice(2, 2)), expected[2..]);
    let empty = DictionaryArray::<Int8Type>::new(
        vec![None, None].into(),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    let empty: ArrayRef = Arc::new(empty);
    assert_eq!(read(&empty), [None, None]);
    let views = DictionaryArray::<UInt8Type>::new(
        UInt8Array::from(vec![0]),
        Arc::new(StringViewArray::from(vec!["v"])),
    );
    let views: ArrayRef = Arc::new(views);
    assert_eq!(read(&views), [text("v")]);
}

#[test]
fn slices_do_not_share_bits() {
    let flags: ArrayRef = Arc::new(BooleanArray::from(
        (0..70)
            .map(|index| (index % 7 != 0).then_some(index % 3 == 0))
            .collect::<Vec<_>>(),
    ));
    let whole: Vec<_> = read(&flags);
    for (offset, len) in [(0, 0), (1, 8), (7, 63), (33, 32), (65, 5)] {
        let slice = flags.slice(offset, len);
        assert_eq!(read(&slice), whole[offset..offset + len]);
    }
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["x", "y", "z"]));
    assert_eq!(read(&large.slice(2, 1)), [text("z")]);
}

#[test]
fn a_builder_starts_over() {
    let mut builder = ColumnBuilder::new(&dictionary(DataType::Int8, DataType::Utf8)).unwrap();
    builder.push(text("a")).unwrap();
    assert_eq!(builder.finish().unwrap().len(), 1);
    assert_eq!(builder.finish().unwrap().len(), 0);
    builder.push(None).unwrap();
    let array = builder.finish().unwrap();
    assert_eq!(read(&array), [None]);
}

#[test]
fn what_does_not_fit() {
    let cases = [
        (DataType::Int8, int(128)),
        (DataType::UInt8, int(256)),
        (DataType::Decimal32(9, 2), int(1 << 40)),
        (DataType::Boolean, int(2)),
        (DataType::Utf8, int(1)),
        (DataType::Float64, int(1)),
    ];
    for (data_type, value) in cases {
        let error = build(&data_type, &[value]).unwrap_err();
        assert!(matches!(error, EvalError::Internal { .. }), "{error}");
        assert!(!error.is_arithmetic());
    }
    let names: Vec<String> = (0..200).map(|index| index.to_string()).collect();
    let values: Vec<_> = names.iter().map(|name| text(name)).collect();
    let error = build(&dictionary(DataType::Int8, DataType::Utf8), &values).unwrap_err();
    assert!(matches!(error, EvalError::Overflow { .. }), "{error}");
    assert!(ColumnBuilder::new(&DataType::Binary).is_err());
}
