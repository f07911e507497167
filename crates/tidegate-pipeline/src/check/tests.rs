//! Which types each node takes and gives, and how a refusal reads.

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use super::{Unsupported, supported_type};
use crate::expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr};
use crate::pipeline::AggregateFunction;
use crate::tests::building::{call, col};

use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32, Float64, Int8,
    Int32, Int64, Interval, Time32, Timestamp, UInt64, Utf8, Utf8View,
};
use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

const MONTH_DAY_NANO: DataType = Interval(IntervalUnit::MonthDayNano);

fn dictionary(key: DataType, value: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(value))
}

fn utc(unit: TimeUnit) -> DataType {
    Timestamp(unit, Some("UTC".into()))
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Unsupported>) -> String {
    result.unwrap_err().what
}

#[test]
fn types() {
    for supported in [
        Boolean,
        Int8,
        UInt64,
        Float32,
        Decimal32(9, 2),
        Decimal64(18, 0),
        Decimal128(38, 10),
        Date64,
        Time32(Second),
        DataType::Time64(Nanosecond),
        Timestamp(Second, None),
        utc(Nanosecond),
        Duration(Millisecond),
        Interval(IntervalUnit::DayTime),
        DataType::LargeUtf8,
        Utf8View,
        dictionary(Int32, Utf8),
        dictionary(DataType::UInt8, Utf8View),
    ] {
        assert_eq!(supported_type(&supported), Ok(()), "{supported}");
    }
    for refused in [
        DataType::Null,
        DataType::Float16,
        DataType::Decimal256(40, 2),
        Decimal128(10, -2),
        DataType::Binary,
        DataType::Time64(Second),
        dictionary(Int32, Int64),
        DataType::List(Arc::new(Field::new_list_field(Int64, true))),
    ] {
        let what = refusal(supported_type(&refused));
        assert!(what.starts_with(&format!("type {refused}")), "{what}");
    }
}

#[test]
fn arithmetic_types() {
    use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};
    let hours = Interval(IntervalUnit::DayTime);
    let cases = [
        (Add, Int8, Int8, Int8),
        (Modulo, UInt64, UInt64, UInt64),
        (Divide, Float32, Float32, Float32),
        (Add, Decimal128(10, 2), Decimal128(12, 4), Decimal128(13, 4)),
        (
            Subtract,
            Decimal128(38, 2),
            Decimal128(38, 2),
            Decimal128(38, 2),
        ),
        (
            Multiply,
            Decimal128(15, 2),
            Decimal128(16, 2),
            Decimal128(32, 4),
        ),
        (
            Multiply,
            Decimal64(10, 2),
            Decimal64(10, 2),
            Decimal64(18, 4),
        ),
        (
            Divide,
            Decimal128(15, 2),
            Decimal128(10, 3),
            Decimal128(22, 6),
        ),
        (Divide, Decimal32(5, 1), Decimal32(5, 0), Decimal32(9, 5)),
        (
            Modulo,
            Decimal128(10, 2),
            Decimal128(12, 4),
            Decimal128(12, 4),
        ),
        (Subtract, Date32, Date32, Int64),
        (Subtract, Date64, Date64, Int64),
        (Add, Date32, MONTH_DAY_NANO, Date32),
        (Add, hours.clone(), Date64, Date64),
        (
            Subtract,
            Timestamp(Second, None),
            hours.clone(),
            Timestamp(Second, None),
        ),
        (
            Subtract,
            utc(Microsecond),
            utc(Microsecond),
            Duration(Microsecond),
        ),
        (Add, utc(Second), Duration(Second), utc(Second)),
        (
            Add,
            Duration(Second),
            Timestamp(Second, None),
            Timestamp(Second, None),
        ),
        (
            Subtract,
            Duration(Second),
            Duration(Second),
            Duration(Second),
        ),
        (Add, hours.clone(), hours.clone(), hours),
    ];
    for (op, left, right, expected) in cases {
        let build = |data_type: &DataType| {
            Expr::arithmetic(op, col(0, &left), col(1, &right), data_type.clone())
        };
        assert!(
            build(&expected).is_ok(),
            "{left} {op} {right}: {:?}",
            build(&expected)
        );
        assert!(build(&Boolean).is_err());
    }
}

#[test]
fn arithmetic_refusals() {
    use ArithmeticOp::{Add, Divide, Multiply, Subtract};
    let cases = [
        (Add, Int32, Int64, "Int32 + Int64"),
        (Add, Utf8, Utf8, "Utf8 + Utf8"),
        (Add, Decimal64(10, 2), Decimal128(10, 2), "different widths"),
        (
            Multiply,
            Decimal128(38, 20),
            Decimal128(38, 20),
            "scale of the result",
        ),
        (Divide, Decimal32(9, 5), Decimal32(9, 9), "too far apart"),
        (Add, utc(Second), MONTH_DAY_NANO, "in a time zone"),
        (
            Subtract,
            MONTH_DAY_NANO,
            Date32,
            "Interval(MonthDayNano) - Date32",
        ),
        (
            Subtract,
            Timestamp(Second, None),
            Timestamp(Nanosecond, None),
            " - ",
        ),
        (Add, Timestamp(Second, None), Duration(Nanosecond), " + "),
        (Multiply, MONTH_DAY_NANO, Int64, " * "),
        (Add, Time32(Second), MONTH_DAY_NANO, "Time32(s) + "),
        (Add, Date32, Date32, "Date32 + Date32"),
    ];
    for (op, left, right, reason) in cases {
        let result = Expr::arithmetic(op, col(0, &left), col(1, &right), left.clone());
        let what = refusal(result);
        assert!(what.contains(reason), "{what}");
    }
    let declared = Expr::arithmetic(
        Add,
        col(0, &Decimal128(10, 2)),
        col(1, &Decimal128(10, 2)),
        Decimal128(10, 2),
    );
    assert_eq!(
        refusal(declared),
        "Decimal128(10, 2) + Decimal128(10, 2) as Decimal128(10, 2): it gives Decimal128(11, 2)"
    );
}

#[test]
fn other_nodes() {
    let layouts = [Utf8, DataType::LargeUtf8, Utf8View, dictionary(Int32, Utf8)];
    for left in &layouts {
        for right in &layouts {
            assert!(Expr::compare(CompareOp::Eq, col(0, left), col(1, right)).is_ok());
            assert!(Expr::cast(col(0, left), right.clone(), CastFailure::Raise).is_ok());
        }
    }
    let flag = || col(0, &Boolean);
    let number = || col(1, &Int64);
    let refusals = [
        (
            Expr::compare(CompareOp::Lt, number(), flag()),
            "Int64 < Boolean",
        ),
        (Expr::and(flag(), number()), "of type Int64, not Boolean"),
        (Expr::not(number()), "the operand of NOT of type Int64"),
        (Expr::negate(col(0, &UInt64)), "negation of UInt64"),
        (Expr::case(vec![], None, Int64), "case without a branch"),
        (
            Expr::case(vec![(flag(), flag())], Some(number()), Int64),
            "case of Int64 with a value of Boolean",
        ),
        (Expr::in_list(number(), vec![], false), "an empty IN list"),
        (
            Expr::in_list(number(), vec![number(); 1001], false),
            "an IN list of 1001 items",
        ),
        (
            Expr::in_list(number(), vec![flag()], false),
            "Int64 IN a list with Boolean",
        ),
        (
            Expr::date_part(DatePart::Year, col(0, &utc(Second))),
            "date_part of Timestamp",
        ),
        (
            Expr::date_part(DatePart::Hour, col(0, &Time32(Second))),
            "date_part of Time32",
        ),
        (
            Expr::like(col(0, &Utf8), number(), false, false),
            "the pattern of LIKE",
        ),
        (
            Expr::substring(col(0, &Utf8), 1, Some(-1), Utf8),
            "substr of length -1",
        ),
        (
            Expr::substring(col(0, &Utf8), i64::MIN, None, Utf8),
            "substr from -9223",
        ),
        (
            Expr::substring(col(0, &Utf8), 1, None, dictionary(Int32, Utf8)),
            "substr as Dictionary",
        ),
        (Expr::column(0, DataType::Binary), "type Binary"),
    ];
    for (result, reason) in refusals {
        let what = refusal(result);
        assert!(what.contains(reason), "{what}");
    }
    let year = Expr::date_part(DatePart::Year, col(0, &Date32)).unwrap();
    assert_eq!(year.data_type, Int32);
    let epoch = Expr::date_part(DatePart::Epoch, col(0, &Timestamp(Second, None))).unwrap();
    assert_eq!(epoch.data_type, Float64);
}

#[test]
fn cast_refusals() {
    use CastFailure::{Null, Raise};
    let cases = [
        (Utf8, Int32, Raise),
        (Int64, Utf8View, Raise),
        (Boolean, Decimal128(3, 0), Raise),
        (Decimal128(3, 0), Boolean, Raise),
        (Boolean, Timestamp(Second, None), Raise),
        (Time32(Second), Int32, Raise),
        (Timestamp(Second, None), Time32(Second), Raise),
        (utc(Second), Date32, Raise),
        (Date32, utc(Second), Raise),
        (Timestamp(Second, None), utc(Second), Raise),
        (Date64, Timestamp(Microsecond, None), Null),
        (Duration(Second), MONTH_DAY_NANO, Raise),
        (MONTH_DAY_NANO, Interval(IntervalUnit::YearMonth), Raise),
        (Int64, DataType::Float16, Raise),
    ];
    for (from, to, on_failure) in cases {
        let result = Expr::cast(col(0, &from), to.clone(), on_failure);
        let what = refusal(result);
        let expected = [format!("cast from {from} to {to}"), format!("type {to}")];
        assert!(expected.contains(&what), "{what}");
    }
}

#[test]
fn aggregate_types() {
    use AggregateFunction::{Avg, Count, Max, Min, StddevSamp, Sum, VarPop};
    let dict = dictionary(Int32, Utf8);
    let good = [
        (Count, None, Int64, vec![Int64]),
        (Count, Some(Utf8), Int64, vec![Int64]),
        (Sum, Some(UInt64), UInt64, vec![UInt64]),
        (
            Sum,
            Some(Duration(Second)),
            Duration(Second),
            vec![Duration(Second)],
        ),
        (
            Sum,
            Some(Decimal32(5, 2)),
            Decimal32(9, 2),
            vec![Decimal32(9, 2)],
        ),
        (
            Sum,
            Some(Decimal128(15, 2)),
            Decimal128(25, 2),
            vec![Decimal128(25, 2)],
        ),
        (Avg, Some(Float64), Float64, vec![UInt64, Float64]),
        (
            Avg,
            Some(Decimal32(5, 2)),
            Decimal32(9, 6),
            vec![UInt64, Decimal64(18, 2)],
        ),
        (
            Avg,
            Some(Decimal32(9, 2)),
            Decimal32(9, 6),
            vec![UInt64, Decimal128(38, 2)],
        ),
        (
            Avg,
            Some(Decimal64(5, 2)),
            Decimal64(9, 6),
            vec![UInt64, Decimal64(18, 2)],
        ),
        (
            Avg,
            Some(Decimal128(25, 2)),
            Decimal128(29, 6),
            vec![UInt64, Decimal128(38, 2)],
        ),
        (Min, Some(Utf8View), Utf8View, vec![Utf8View]),
        (Max, Some(dict.clone()), Utf8, vec![Utf8]),
        (Max, Some(utc(Second)), utc(Second), vec![utc(Second)]),
        (
            VarPop,
            Some(Float64),
            Float64,
            vec![UInt64, Float64, Float64],
        ),
    ];
    for (function, argument, value, state) in good {
        let argument = argument.map(|data_type| col(0, &data_type));
        let built = call(function, argument, value, &state);
        assert!(built.is_ok(), "{built:?}");
    }
    let bad = [
        (Sum, None, Int64, vec![Int64], "sum without an argument"),
        (Sum, Some(Int32), Int64, vec![Int64], "sum of Int32"),
        (
            Sum,
            Some(MONTH_DAY_NANO),
            MONTH_DAY_NANO,
            vec![],
            "sum of Interval",
        ),
        (
            Sum,
            Some(Int64),
            Float64,
            vec![Int64],
            "sum as Float64: it gives Int64",
        ),
        (
            Sum,
            Some(Int64),
            Int64,
            vec![UInt64],
            "sum with the state (UInt64): it is (Int64)",
        ),
        (
            Avg,
            Some(Decimal128(26, 2)),
            Decimal128(30, 6),
            vec![],
            "its sum is a Decimal256",
        ),
        (Avg, Some(Int64), Float64, vec![], "avg of Int64"),
        (
            Max,
            Some(dict.clone()),
            dict,
            vec![],
            "min or max as Dictionary",
        ),
        (
            StddevSamp,
            Some(Decimal128(5, 2)),
            Float64,
            vec![],
            "stddev_samp of Decimal128",
        ),
    ];
    for (function, argument, value, state, reason) in bad {
        let argument = argument.map(|data_type| col(0, &data_type));
        let what = refusal(call(function, argument, value, &state));
        assert!(what.contains(reason), "{what}");
    }
}
