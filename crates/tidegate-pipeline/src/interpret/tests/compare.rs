//! The order of values, and where it is not that of their bits: nulls, NaN and zeros.

use std::cmp::Ordering;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, IntervalUnit};

use crate::expr::{CompareOp, Expr};
use crate::interpret::builder::ColumnBuilder;
use crate::interpret::column::Column;
use crate::interpret::value::Value;
use crate::testing::{col, eval};

use CompareOp::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
use Value::{Boolean, Decimal, Float32, Float64, Int, Null, UInt, Utf8};

const ALL: [CompareOp; 6] = [Eq, NotEq, Lt, LtEq, Gt, GtEq];

fn answers(order: Ordering) -> [bool; 6] {
    [
        order.is_eq(),
        order.is_ne(),
        order.is_lt(),
        order.is_le(),
        order.is_gt(),
        order.is_ge(),
    ]
}

fn one(data_type: &DataType, value: Value<'_>) -> ArrayRef {
    let mut column = ColumnBuilder::new(data_type).unwrap();
    column.push(value).unwrap();
    column.finish().unwrap()
}

/// Returns what `left op right` gives; `None` for NULL.
fn compare(op: CompareOp, of: &DataType, left: Value<'_>, right: Value<'_>) -> Option<bool> {
    let expr = Expr::compare(op, col(0, of), col(1, of)).unwrap();
    let found = eval(&expr, vec![one(of, left), one(of, right)]).unwrap();
    match Column::new(&found).unwrap().get(0) {
        Boolean(holds) => Some(holds),
        _ => None,
    }
}

#[test]
fn sql_comparisons() {
    let interval = |months, days, nanoseconds| Value::Interval {
        months,
        days,
        nanoseconds,
    };
    let nan = f64::NAN;
    let payload = f64::from_bits((-nan).to_bits() | 1);
    let decimal = DataType::Decimal128(15, 2);
    let span = DataType::Interval(IntervalUnit::MonthDayNano);
    let (long, unsigned) = (DataType::Int64, DataType::UInt64);
    let (double, single, text) = (DataType::Float64, DataType::Float32, DataType::Utf8);
    let cases = [
        (&long, Int(-1), Int(1), Ordering::Less),
        (&unsigned, UInt(u64::MAX), UInt(1), Ordering::Greater),
        (&decimal, Decimal(100), Decimal(100), Ordering::Equal),
        (
            &DataType::Boolean,
            Boolean(false),
            Boolean(true),
            Ordering::Less,
        ),
        (&text, Utf8("Z"), Utf8("a"), Ordering::Less),
        (&text, Utf8("a"), Utf8("ab"), Ordering::Less),
        (&text, Utf8("é"), Utf8("z"), Ordering::Greater),
        (&double, Float64(-0.0), Float64(0.0), Ordering::Equal),
        (&single, Float32(0.0), Float32(-0.0), Ordering::Equal),
        (&double, Float64(nan), Float64(nan), Ordering::Equal),
        (&double, Float64(nan), Float64(payload), Ordering::Equal),
        (
            &double,
            Float64(nan),
            Float64(f64::INFINITY),
            Ordering::Greater,
        ),
        (
            &double,
            Float64(-nan),
            Float64(f64::INFINITY),
            Ordering::Greater,
        ),
        (&double, Float64(-nan), Float64(nan), Ordering::Equal),
        (
            &single,
            Float32(-f32::NAN),
            Float32(f32::NAN),
            Ordering::Equal,
        ),
        (
            &single,
            Float32(f32::NAN),
            Float32(f32::MAX),
            Ordering::Greater,
        ),
        (
            &span,
            interval(1, 0, 0),
            interval(0, 40, 0),
            Ordering::Greater,
        ),
        (&span, interval(1, 2, 3), interval(1, 2, 4), Ordering::Less),
    ];
    for (of, left, right, expected) in cases {
        for (op, answer) in ALL.into_iter().zip(answers(expected)) {
            let found = compare(op, of, left, right);
            assert_eq!(found, Some(answer), "{left:?} {op} {right:?}");
        }
        let distinct = compare(IsDistinctFrom, of, left, right);
        assert_eq!(distinct, Some(expected.is_ne()));
        let same = compare(IsNotDistinctFrom, of, left, right);
        assert_eq!(same, Some(expected.is_eq()));
    }
}

#[test]
fn nulls() {
    let of = &DataType::Int64;
    for op in ALL {
        assert_eq!(compare(op, of, Null, Int(1)), None);
        assert_eq!(compare(op, of, Int(1), Null), None);
        assert_eq!(compare(op, of, Null, Null), None);
    }
    for (left, right, distinct) in [
        (Null, Null, false),
        (Null, Int(1), true),
        (Int(1), Null, true),
    ] {
        assert_eq!(compare(IsDistinctFrom, of, left, right), Some(distinct));
        assert_eq!(compare(IsNotDistinctFrom, of, left, right), Some(!distinct));
    }
}

#[test]
fn keys_have_one_nan_and_one_zero() {
    let payload = f64::from_bits((-f64::NAN).to_bits() | 1);
    for (value, expected) in [(payload, f64::NAN), (-0.0, 0.0), (-1.5, -1.5)] {
        let Float64(found) = Float64(value).canonical() else {
            panic!("a double");
        };
        assert_eq!(found.to_bits(), expected.to_bits(), "{value}");
    }
}
