//! The order of values, and where it is not that of their bits: nulls, NaN and zeros.

use std::cmp::Ordering;

use super::{canonical, compare, order};
use crate::expr::CompareOp;
use crate::interpret::value::Value;

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

#[test]
fn sql_comparisons() {
    let interval = |months, days, nanoseconds| Value::Interval {
        months,
        days,
        nanoseconds,
    };
    let nan = f64::NAN;
    let cases = [
        (Int(-1), Int(1), Ordering::Less),
        (UInt(u64::MAX), UInt(1), Ordering::Greater),
        (Decimal(100), Decimal(100), Ordering::Equal),
        (Boolean(false), Boolean(true), Ordering::Less),
        (Utf8("Z"), Utf8("a"), Ordering::Less),
        (Utf8("a"), Utf8("ab"), Ordering::Less),
        (Utf8("é"), Utf8("z"), Ordering::Greater),
        (Float64(-0.0), Float64(0.0), Ordering::Equal),
        (Float32(0.0), Float32(-0.0), Ordering::Equal),
        (Float64(nan), Float64(nan), Ordering::Equal),
        (Float64(nan), Float64(f64::INFINITY), Ordering::Greater),
        (Float64(-nan), Float64(f64::INFINITY), Ordering::Greater),
        (Float64(-nan), Float64(nan), Ordering::Equal),
        (Float32(-f32::NAN), Float32(f32::NAN), Ordering::Equal),
        (Float32(f32::NAN), Float32(f32::MAX), Ordering::Greater),
        (interval(1, 0, 0), interval(0, 40, 0), Ordering::Greater),
        (interval(1, 2, 3), interval(1, 2, 4), Ordering::Less),
    ];
    for (left, right, expected) in cases {
        for (op, answer) in ALL.into_iter().zip(answers(expected)) {
            let found = compare(op, left, right);
            assert_eq!(found, Boolean(answer), "{left:?} {op} {right:?}");
        }
        let distinct = compare(IsDistinctFrom, left, right);
        assert_eq!(distinct, Boolean(expected.is_ne()));
        let same = compare(IsNotDistinctFrom, left, right);
        assert_eq!(same, Boolean(expected.is_eq()));
    }
}

#[test]
fn nulls() {
    for op in ALL {
        assert_eq!(compare(op, Null, Int(1)), Null);
        assert_eq!(compare(op, Int(1), Null), Null);
        assert_eq!(compare(op, Null, Null), Null);
    }
    for (left, right, distinct) in [
        (Null, Null, false),
        (Null, Int(1), true),
        (Int(1), Null, true),
    ] {
        assert_eq!(compare(IsDistinctFrom, left, right), Boolean(distinct));
        assert_eq!(compare(IsNotDistinctFrom, left, right), Boolean(!distinct));
    }
}

#[test]
fn floats_have_one_nan_and_one_zero() {
    let payload = f64::from_bits((-f64::NAN).to_bits() | 1);
    assert_eq!(order(Float64(f64::NAN), Float64(payload)), Ordering::Equal);
    assert_eq!(order(Float32(0.0), Float32(-0.0)), Ordering::Equal);
    for (value, expected) in [(payload, f64::NAN), (-0.0, 0.0), (-1.5, -1.5)] {
        let Float64(found) = canonical(Float64(value)) else {
            panic!("a double");
        };
        assert_eq!(found.to_bits(), expected.to_bits(), "{value}");
    }
}
