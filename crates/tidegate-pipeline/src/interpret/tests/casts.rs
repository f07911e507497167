//! Every cast of the matrix, at its limits and beyond.

use std::sync::Arc;

use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Date64Array, DurationMillisecondArray,
    DurationSecondArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, PrimitiveArray, StringViewArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt64Array,
};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::DataType;

use crate::expr::{CastFailure, Expr};
use crate::interpret::EvalError;
use crate::tests::building::{col, eval, strings};

fn cast(array: ArrayRef, to: &DataType, on_failure: CastFailure) -> Result<ArrayRef, EvalError> {
    let expr = Expr::cast(col(0, array.data_type()), to.clone(), on_failure).unwrap();
    eval(&expr, vec![array])
}

/// Checks that CAST gives this, and TRY_CAST the same.
fn gives(from: ArrayRef, expected: ArrayRef) {
    let to = expected.data_type();
    for on_failure in [CastFailure::Raise, CastFailure::Null] {
        let Ok(found) = cast(Arc::clone(&from), to, on_failure) else {
            panic!("cast {from:?} to {to}");
        };
        assert_eq!(&found, &expected, "{from:?} to {to}");
    }
}

/// Checks that CAST raises, and TRY_CAST gives NULL.
fn fails(from: ArrayRef, to: &DataType) {
    let error = cast(Arc::clone(&from), to, CastFailure::Raise).unwrap_err();
    assert!(matches!(error, EvalError::CastFailed { .. }), "{error}");
    assert!(error.is_arithmetic());
    assert!(
        error
            .to_string()
            .ends_with(&format!(" to {to}: out of range")),
        "{error}"
    );
    let nulls = cast(from, to, CastFailure::Null).unwrap();
    assert_eq!((nulls.len(), nulls.null_count()), (1, 1));
}

fn int(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn double(value: f64) -> ArrayRef {
    Arc::new(Float64Array::from(vec![value]))
}

fn decimal(precision: u8, scale: i8, values: &[i128]) -> ArrayRef {
    let array = PrimitiveArray::<Decimal128Type>::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

fn narrow(precision: u8, scale: i8, value: i32) -> ArrayRef {
    let array = PrimitiveArray::<Decimal32Type>::from(vec![value]);
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

fn middle(precision: u8, scale: i8, value: i64) -> ArrayRef {
    let array = PrimitiveArray::<Decimal64Type>::from(vec![value]);
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn integers_and_floats() {
    gives(int(-5), Arc::new(Int8Array::from(vec![-5])));
    gives(int(5), Arc::new(UInt64Array::from(vec![5])));
    gives(int(i64::MAX), double(i64::MAX as f64));
    gives(double(-2.9), int(-2));
    gives(double(255.9), Arc::new(UInt8Array::from(vec![255])));
    gives(double(-0.9), Arc::new(UInt8Array::from(vec![0])));
    gives(
        double(1e300),
        Arc::new(Float32Array::from(vec![f32::INFINITY])),
    );
    gives(
        double(f64::NAN),
        Arc::new(Float32Array::from(vec![f32::NAN])),
    );
    fails(int(128), &DataType::Int8);
    fails(int(-1), &DataType::UInt64);
    fails(double(256.0), &DataType::UInt8);
    fails(double(9_223_372_036_854_775_808.0), &DataType::Int64);
    fails(double(f64::NAN), &DataType::Int64);
    fails(double(f64::INFINITY), &DataType::Int64);
}

#[test]
fn booleans() {
    let flags = |values: &[bool]| -> ArrayRef { Arc::new(BooleanArray::from(values.to_vec())) };
    gives(
        flags(&[true, false]),
        Arc::new(Int64Array::from(vec![1, 0])),
    );
    gives(flags(&[true]), double(1.0));
    gives(int(-3), flags(&[true]));
    gives(double(-0.0), flags(&[false]));
    gives(double(f64::NAN), flags(&[true]));
}

#[test]
fn integers_and_decimals() {
    gives(int(12), decimal(5, 2, &[1200]));
    fails(int(1000), &DataType::Decimal128(5, 2).clone());
    // Reduced to 32 bits before anything else: 2^32 + 7 is 7.
    gives(int((1 << 32) + 7), narrow(9, 2, 700));
    gives(
        decimal(5, 2, &[199, -199]),
        Arc::new(Int64Array::from(vec![1, -1])),
    );
    fails(decimal(38, 0, &[1 << 70]), &DataType::Int64);
    fails(decimal(5, 0, &[-1]), &DataType::UInt8);
}

#[test]
fn floats_and_decimals() {
    gives(double(0.125), decimal(5, 2, &[13]));
    gives(double(-0.125), decimal(5, 2, &[-13]));
    gives(double(1.005), decimal(5, 2, &[100]));
    fails(double(1000.0), &DataType::Decimal128(5, 2));
    fails(double(f64::NAN), &DataType::Decimal128(5, 2));
    fails(double(1e10), &DataType::Decimal32(9, 0));
    gives(decimal(5, 2, &[125]), double(1.25));
    gives(decimal(5, 1, &[1]), Arc::new(Float32Array::from(vec![0.1])));
}

#[test]
fn decimals_rescale_half_away_from_zero() {
    gives(
        decimal(5, 3, &[1245, 1244, -1245]),
        decimal(5, 2, &[125, 124, -125]),
    );
    gives(decimal(5, 2, &[125]), decimal(7, 4, &[12500]));
    gives(decimal(5, 2, &[125]), narrow(9, 2, 125));
    gives(narrow(9, 2, 125), middle(12, 3, 1250));
    gives(narrow(9, 9, 999_999_999), narrow(1, 0, 1));
    fails(decimal(5, 0, &[99999]), &DataType::Decimal128(6, 2));
    fails(decimal(5, 3, &[99999]), &DataType::Decimal128(2, 0));
    fails(decimal(38, 0, &[1 << 40]), &DataType::Decimal32(9, 0));
    // The same scale and no fewer digits: nothing is looked at.
    gives(decimal(3, 0, &[123_456]), decimal(4, 0, &[123_456]));
    // Fewer digits: everything is.
    fails(decimal(4, 0, &[1234]), &DataType::Decimal128(3, 0));
    // So many digits fewer that nothing is left.
    gives(narrow(9, 9, 999_999_999), decimal(38, 0, &[1]));
    gives(narrow(5, 5, 99_999), middle(5, 0, 1));
}

#[test]
fn dates_and_timestamps() {
    let days = |value: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![value])) };
    let millis = |value: i64| -> ArrayRef { Arc::new(Date64Array::from(vec![value])) };
    let seconds = |value: i64| -> ArrayRef { Arc::new(TimestampSecondArray::from(vec![value])) };
    gives(days(-1), int(-1));
    gives(int(-1), days(-1));
    gives(days(2), Arc::new(Int32Array::from(vec![2])));
    gives(days(2), millis(172_800_000));
    gives(Arc::new(Int32Array::from(vec![2])), millis(172_800_000));
    // Towards zero here, but to the day before from a timestamp.
    gives(millis(-1), days(0));
    gives(seconds(-1), days(-1));
    gives(seconds(86_400), days(1));
    gives(days(1), seconds(86_400));
    gives(
        days(1),
        Arc::new(TimestampNanosecondArray::from(vec![86_400_000_000_000])),
    );
    gives(seconds(-3), millis(-3_000));
    gives(millis(1_999), seconds(1));
    gives(
        Arc::new(TimestampMillisecondArray::from(vec![-1_999])),
        seconds(-1),
    );
    gives(seconds(5), double(5.0));
    gives(double(5.9), seconds(5));
    gives(seconds(5), decimal(5, 2, &[500]));
    fails(int(1 << 40), &DataType::Date32);
    fails(
        days(i32::MAX),
        &DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, None),
    );
    fails(
        seconds(i64::MAX),
        &DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None),
    );
    let beyond = cast(seconds(i64::MAX), &DataType::Date32, CastFailure::Null);
    assert!(matches!(beyond, Err(EvalError::CastFailed { .. })));
}

#[test]
fn durations_and_intervals() {
    let seconds = |value: i64| -> ArrayRef { Arc::new(DurationSecondArray::from(vec![value])) };
    gives(
        seconds(-2),
        Arc::new(DurationMillisecondArray::from(vec![-2_000])),
    );
    gives(
        Arc::new(DurationMillisecondArray::from(vec![-1_999])),
        seconds(-1),
    );
    gives(seconds(7), int(7));
    gives(int(7), seconds(7));
    let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![14]));
    let full = IntervalMonthDayNano::new(14, 0, 0);
    gives(
        months,
        Arc::new(IntervalMonthDayNanoArray::from(vec![full])),
    );
}

#[test]
fn nulls_and_layouts() {
    let none: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    gives(none, Arc::new(Int8Array::from(vec![None])));
    let views = StringViewArray::from(vec![Some("a string beyond the inline length"), None]);
    let plain = strings(&[Some("a string beyond the inline length"), None]);
    gives(plain, Arc::new(views));
}
