//! Wrapping, division, overflow and nulls, for each kind of number and of time.

use std::sync::Arc;

use arrow_array::types::{Decimal32Type, Decimal128Type};
use arrow_array::{
    ArrayRef, Date32Array, Date64Array, Decimal32Array, Decimal128Array, DurationSecondArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, PrimitiveArray, TimestampSecondArray,
    UInt8Array, UInt64Array,
};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano};
use arrow_schema::DataType;

use crate::expr::{ArithmeticOp, Expr};
use crate::interpret::EvalError;
use crate::tests::building::{col, eval};

use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};

/// Computes `left op right` with the type that the checks ask for.
fn compute(op: ArithmeticOp, left: ArrayRef, right: ArrayRef) -> Result<ArrayRef, EvalError> {
    let (l, r) = (left.data_type().clone(), right.data_type().clone());
    let build = |data_type| Expr::arithmetic(op, col(0, &l), col(1, &r), data_type);
    // The refusal of a wrong type names the right one; try those that the kernels can give.
    let candidates = [l.clone(), r.clone(), DataType::Int64];
    let durations = [DataType::Duration(arrow_schema::TimeUnit::Second)];
    let expr = candidates
        .into_iter()
        .chain(durations)
        .find_map(|data_type| build(data_type).ok());
    eval(&expr.unwrap(), vec![left, right])
}

fn check(op: ArithmeticOp, left: impl Into<ArrayRef>, right: ArrayRef, expected: ArrayRef) {
    let left = left.into();
    let shown = format!("{left:?} {op} {right:?}");
    assert_eq!(&compute(op, left, right).unwrap(), &expected, "{shown}");
}

fn int8(values: &[i8]) -> ArrayRef {
    Arc::new(Int8Array::from(values.to_vec()))
}

fn int64(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn double(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn decimal(precision: u8, scale: i8, values: &[i128]) -> ArrayRef {
    let array = PrimitiveArray::<Decimal128Type>::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn integers_wrap() {
    check(Add, int8(&[127, -128]), int8(&[1, -1]), int8(&[-128, 127]));
    check(Subtract, int8(&[-128]), int8(&[1]), int8(&[127]));
    check(Multiply, int8(&[100]), int8(&[100]), int8(&[16]));
    check(Multiply, int64(&[i64::MAX]), int64(&[2]), int64(&[-2]));
    let unsigned = |value: u8| -> ArrayRef { Arc::new(UInt8Array::from(vec![value])) };
    check(Subtract, unsigned(0), unsigned(1), unsigned(255));
    check(Multiply, unsigned(200), unsigned(2), unsigned(144));
    let wide = |value: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![value])) };
    check(Add, wide(u64::MAX), wide(2), wide(1));
}

#[test]
fn integer_division() {
    check(Divide, int64(&[7, -7]), int64(&[2, 2]), int64(&[3, -3]));
    check(Modulo, int64(&[7, -7]), int64(&[-2, 2]), int64(&[1, -1]));
    check(Modulo, int8(&[-128]), int8(&[-1]), int8(&[0]));
    check(Modulo, int64(&[i64::MIN]), int64(&[-1]), int64(&[0]));
    for op in [Divide, Modulo] {
        let error = compute(op, int64(&[1]), int64(&[0])).unwrap_err();
        assert_eq!(error.to_string(), "division by zero");
        assert!(error.is_arithmetic());
    }
    for (low, minus_one) in [
        (int8(&[-128]), int8(&[-1])),
        (int64(&[i64::MIN]), int64(&[-1])),
    ] {
        let name = low.data_type().to_string();
        let error = compute(Divide, low, minus_one).unwrap_err();
        let expected = format!("arithmetic overflow: {name} / {name}");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn null_in_null_out() {
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None]));
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), None, None]));
    let all_null: ArrayRef = Arc::new(Int64Array::from(vec![None; 3]));
    check(Divide, nulls, zeros, all_null);
}

#[test]
fn floats_follow_ieee() {
    let nan = f64::NAN;
    check(
        Divide,
        double(&[1.0, -1.0]),
        double(&[0.0, 0.0]),
        double(&[f64::INFINITY, f64::NEG_INFINITY]),
    );
    check(Modulo, double(&[5.5]), double(&[2.0]), double(&[1.5]));
    check(Multiply, double(&[-0.0]), double(&[1.0]), double(&[-0.0]));
    check(Add, double(&[nan]), double(&[1.0]), double(&[nan]));
    let single = |value: f32| -> ArrayRef { Arc::new(Float32Array::from(vec![value])) };
    check(Add, single(16_777_216.0), single(1.0), single(16_777_216.0));
}

#[test]
fn decimals() {
    let result = |op, data_type, left: ArrayRef, right: ArrayRef| {
        let (l, r) = (left.data_type().clone(), right.data_type().clone());
        let expr = Expr::arithmetic(op, col(0, &l), col(1, &r), data_type).unwrap();
        eval(&expr, vec![left, right])
    };
    let cases = [
        // 1.25 + 0.125
        (
            Add,
            decimal(5, 2, &[125]),
            decimal(5, 3, &[125]),
            decimal(7, 3, &[1375]),
        ),
        (
            Subtract,
            decimal(5, 2, &[0]),
            decimal(5, 2, &[-5]),
            decimal(6, 2, &[5]),
        ),
        // 0.05 * 0.05
        (
            Multiply,
            decimal(5, 2, &[5]),
            decimal(5, 2, &[5]),
            decimal(11, 4, &[25]),
        ),
        // 1.00 / 3.00, four more digits, towards zero
        (
            Divide,
            decimal(5, 2, &[100, -200]),
            decimal(5, 2, &[300, 300]),
            decimal(11, 6, &[333_333, -666_666]),
        ),
        (
            Modulo,
            decimal(5, 2, &[-525]),
            decimal(5, 1, &[20]),
            decimal(5, 2, &[-125]),
        ),
        // Nothing is held against the precision: 38 digits and one more.
        (
            Add,
            decimal(38, 0, &[10_i128.pow(38) - 1]),
            decimal(38, 0, &[1]),
            decimal(38, 0, &[10_i128.pow(38)]),
        ),
    ];
    for (op, left, right, expected) in cases {
        let data_type = expected.data_type().clone();
        assert_eq!(&result(op, data_type, left, right).unwrap(), &expected);
    }
    let wide = DataType::Decimal128(38, 0);
    let overflow = [
        (Add, decimal(38, 0, &[i128::MAX]), decimal(38, 0, &[1])),
        (Multiply, decimal(38, 0, &[i128::MAX]), decimal(38, 0, &[2])),
        (Modulo, decimal(38, 0, &[i128::MIN]), decimal(38, 0, &[-1])),
    ];
    for (op, left, right) in overflow {
        let error = result(op, wide.clone(), left, right).unwrap_err();
        let expected = format!("arithmetic overflow: Decimal128(38, 0) {op} Decimal128(38, 0)");
        assert_eq!(error.to_string(), expected);
    }
    for op in [Divide, Modulo] {
        let data_type = match op {
            Divide => DataType::Decimal128(38, 4),
            _ => wide.clone(),
        };
        let error = result(op, data_type, decimal(38, 0, &[1]), decimal(38, 0, &[0]));
        assert!(matches!(error, Err(EvalError::DivideByZero)));
    }
}

#[test]
fn narrow_decimals_overflow_their_integer() {
    let narrow = |value: i32, scale| -> ArrayRef {
        let array = PrimitiveArray::<Decimal32Type>::from(vec![value]);
        Arc::new(array.with_precision_and_scale(9, scale).unwrap()) as Arc<Decimal32Array>
    };
    let error = compute(Add, narrow(i32::MAX, 0), narrow(1, 0)).unwrap_err();
    assert!(error.to_string().contains("overflow"), "{error}");
    // The sum is 0, but bringing 3,000,000 to four digits after the point does not fit 32 bits.
    let error = compute(Subtract, narrow(3_000_000, 0), narrow(3_000_000, 4)).unwrap_err();
    assert!(error.to_string().contains("overflow"), "{error}");
}

#[test]
fn dates_and_times() {
    let days = |values: &[i32]| -> ArrayRef { Arc::new(Date32Array::from(values.to_vec())) };
    let millis = |values: &[i64]| -> ArrayRef { Arc::new(Date64Array::from(values.to_vec())) };
    check(Subtract, days(&[10, -10]), days(&[3, 3]), int64(&[7, -13]));
    check(
        Subtract,
        days(&[i32::MAX]),
        days(&[i32::MIN]),
        int64(&[4_294_967_295]),
    );
    check(
        Subtract,
        millis(&[86_400_000, -1]),
        millis(&[0, 0]),
        int64(&[1, 0]),
    );
    let stamp = |value: i64| -> ArrayRef { Arc::new(TimestampSecondArray::from(vec![value])) };
    let duration = |value: i64| -> ArrayRef { Arc::new(DurationSecondArray::from(vec![value])) };
    check(Subtract, stamp(5), stamp(8), duration(-3));
    check(Add, duration(3), stamp(5), stamp(8));
    check(Subtract, stamp(5), duration(3), stamp(2));
    check(Add, duration(3), duration(5), duration(8));
    for (left, right) in [
        (stamp(i64::MAX), duration(1)),
        (duration(i64::MAX), duration(1)),
    ] {
        let error = compute(Add, left, right).unwrap_err();
        assert!(matches!(error, EvalError::Overflow { .. }));
    }
}

#[test]
fn intervals() {
    let months = |value: i32| -> ArrayRef { Arc::new(IntervalYearMonthArray::from(vec![value])) };
    let hours = |days, milliseconds| -> ArrayRef {
        let value = IntervalDayTime::new(days, milliseconds);
        Arc::new(IntervalDayTimeArray::from(vec![value]))
    };
    let full = |months, days, nanoseconds| -> ArrayRef {
        let value = IntervalMonthDayNano::new(months, days, nanoseconds);
        Arc::new(IntervalMonthDayNanoArray::from(vec![value]))
    };
    check(Add, months(3), months(-5), months(-2));
    check(Subtract, hours(1, 500), hours(2, 700), hours(-1, -200));
    check(Add, full(1, 2, 3), full(10, 20, 30), full(11, 22, 33));
    let overflows = [
        (months(i32::MAX), months(1)),
        (hours(0, i32::MAX), hours(0, 1)),
        (full(0, i32::MAX, 0), full(0, 1, 0)),
        (full(0, 0, i64::MAX), full(0, 0, 1)),
    ];
    for (left, right) in overflows {
        let error = compute(Add, left, right).unwrap_err();
        assert!(matches!(error, EvalError::Overflow { .. }));
    }
}

#[test]
fn negation() {
    let negate = |array: ArrayRef| {
        let expr = Expr::negate(col(0, array.data_type())).unwrap();
        eval(&expr, vec![array])
    };
    assert_eq!(&negate(int8(&[5, -128])).unwrap(), &int8(&[-5, -128]));
    assert_eq!(
        &negate(double(&[0.0, 1.5])).unwrap(),
        &double(&[-0.0, -1.5])
    );
    let negated = negate(decimal(5, 2, &[125])).unwrap();
    assert_eq!(&negated, &decimal(5, 2, &[-125]));
    let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(1)]));
    let expected: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(-1)]));
    assert_eq!(&negate(nulls).unwrap(), &expected);
    let lowest: [ArrayRef; 3] = [
        Arc::new(DurationSecondArray::from(vec![i64::MIN])),
        Arc::new(IntervalYearMonthArray::from(vec![i32::MIN])),
        Arc::new(Decimal128Array::from(vec![i128::MIN])),
    ];
    for array in lowest {
        let expected = format!("arithmetic overflow: - {}", array.data_type());
        assert_eq!(negate(array).unwrap_err().to_string(), expected);
    }
}
