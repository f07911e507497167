//! The order of values, and where it is not that of their bits: nulls, NaN and zeros.

use std::cmp::Ordering;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, IntervalUnit};

use crate::catalogue::span::Span;
use crate::expr::{CompareOp, Expr};
use crate::interpret::builder::ColumnBuilder;
use crate::interpret::column::Column;
use crate::program::cell::Cell::{self, Float, Int, Text};
use crate::program::cell::canonical;
use crate::tests::building::{col, eval};

use CompareOp::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};

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

fn one(data_type: &DataType, value: Option<Cell<'_>>) -> ArrayRef {
    let mut column = ColumnBuilder::new(data_type).unwrap();
    column.push(value).unwrap();
    column.finish().unwrap()
}

/// Returns what `left op right` gives; `None` for NULL.
fn compare(
    op: CompareOp,
    of: &DataType,
    left: Option<Cell<'_>>,
    right: Option<Cell<'_>>,
) -> Option<bool> {
    let expr = Expr::compare(op, col(0, of), col(1, of)).unwrap();
    let found = eval(&expr, vec![one(of, left), one(of, right)]).unwrap();
    Column::new(&found).unwrap().get(0).map(Cell::is_true)
}

#[test]
fn sql_comparisons() {
    let interval = |months, days, nanoseconds| Int(Span::new(months, days, nanoseconds).packed());
    let nan = f64::NAN;
    let payload = f64::from_bits((-nan).to_bits() | 1);
    let decimal = DataType::Decimal128(15, 2);
    let span = DataType::Interval(IntervalUnit::MonthDayNano);
    let (long, unsigned) = (DataType::Int64, DataType::UInt64);
    let (double, single, text) = (DataType::Float64, DataType::Float32, DataType::Utf8);
    let cases = [
        (&long, Int(-1), Int(1), Ordering::Less),
        (&unsigned, Int(u64::MAX.into()), Int(1), Ordering::Greater),
        (&decimal, Int(100), Int(100), Ordering::Equal),
        (
            &DataType::Boolean,
            Cell::bool(false),
            Cell::bool(true),
            Ordering::Less,
        ),
        (&text, Text("Z"), Text("a"), Ordering::Less),
        (&text, Text("a"), Text("ab"), Ordering::Less),
        (&text, Text("é"), Text("z"), Ordering::Greater),
        (&double, Float(-0.0), Float(0.0), Ordering::Equal),
        (&single, Float(0.0), Float(-0.0), Ordering::Equal),
        (&double, Float(nan), Float(nan), Ordering::Equal),
        (&double, Float(nan), Float(payload), Ordering::Equal),
        (&double, Float(nan), Float(f64::INFINITY), Ordering::Greater),
        (
            &double,
            Float(-nan),
            Float(f64::INFINITY),
            Ordering::Greater,
        ),
        (&double, Float(-nan), Float(nan), Ordering::Equal),
        (&single, Float(-nan), Float(nan), Ordering::Equal),
        (
            &single,
            Float(nan),
            Float(f32::MAX.into()),
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
            let found = compare(op, of, Some(left), Some(right));
            assert_eq!(found, Some(answer), "{left:?} {op} {right:?}");
        }
        let distinct = compare(IsDistinctFrom, of, Some(left), Some(right));
        assert_eq!(distinct, Some(expected.is_ne()));
        let same = compare(IsNotDistinctFrom, of, Some(left), Some(right));
        assert_eq!(same, Some(expected.is_eq()));
    }
}

#[test]
fn nulls() {
    let of = &DataType::Int64;
    let one = Some(Int(1));
    for op in ALL {
        assert_eq!(compare(op, of, None, one), None);
        assert_eq!(compare(op, of, one, None), None);
        assert_eq!(compare(op, of, None, None), None);
    }
    for (left, right, distinct) in [(None, None, false), (None, one, true), (one, None, true)] {
        assert_eq!(compare(IsDistinctFrom, of, left, right), Some(distinct));
        assert_eq!(compare(IsNotDistinctFrom, of, left, right), Some(!distinct));
    }
}

#[test]
fn keys_have_one_nan_and_one_zero() {
    let payload = f64::from_bits((-f64::NAN).to_bits() | 1);
    for (value, expected) in [(payload, f64::NAN), (-0.0, 0.0), (-1.5, -1.5)] {
        let found = canonical(value);
        assert_eq!(found.to_bits(), expected.to_bits(), "{value}");
    }
}
