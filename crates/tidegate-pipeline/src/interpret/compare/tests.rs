//! Where the SQL order and the total order differ: nulls, NaN and zeros.

use std::cmp::Ordering;

use super::{compare, total_order};
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
        (Float64(-nan), Float64(f64::NEG_INFINITY), Ordering::Less),
        (Float32(f32::NAN), Float32(f32::MAX), Ordering::Greater),
        (interval(1, 0, 0), interval(0, 40, 0), Ordering::Greater),
        (interval(1, 2, 3), interval(1, 2, 4), Ordering::Less),
    ];
    for (left, right, order) in cases {
        for (op, expected) in ALL.into_iter().zip(answers(order)) {
            let found = compare(op, left, right);
            assert_eq!(found, Boolean(expected), "{left:?} {op} {right:?}");
        }
        let distinct = compare(IsDistinctFrom, left, right);
        assert_eq!(distinct, Boolean(order.is_ne()));
        let same = compare(IsNotDistinctFrom, left, right);
        assert_eq!(same, Boolean(order.is_eq()));
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
fn the_total_order_tells_zeros_apart() {
    assert_eq!(total_order(Float64(-0.0), Float64(0.0)), Ordering::Less);
    assert_eq!(total_order(Float32(0.0), Float32(-0.0)), Ordering::Greater);
    let payload = f64::from_bits(f64::NAN.to_bits() | 1);
    assert_eq!(
        total_order(Float64(f64::NAN), Float64(payload)),
        Ordering::Less
    );
}
