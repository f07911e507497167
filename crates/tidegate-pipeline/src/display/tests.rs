//! Each step, expression and literal prints as the plans show it.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr};
use crate::pipeline::{AggregateCall, AggregateFunction, AggregateOutput, Sort, SortKey, Step};
use crate::scalar::ScalarValue;
use crate::tests::building::{call, col, group_by, named, param, pipeline, scalar, text};

use DataType::{Boolean, Date32, Decimal128, Float64, Int64, Utf8};

const PRICE: DataType = Decimal128(15, 2);

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("flag", Utf8, true),
        Field::new("price", PRICE, true),
        Field::new("discount", PRICE, true),
        Field::new("shipped", Date32, true),
        Field::new("n", Int64, true),
        Field::new("ok", Boolean, true),
    ]))
}

#[test]
fn a_pipeline_on_one_line() {
    let shipped = Expr::compare(CompareOp::LtEq, col(3, &Date32), param(0, &Date32)).unwrap();
    let rest = Expr::arithmetic(
        ArithmeticOp::Subtract,
        param(1, &PRICE),
        col(2, &PRICE),
        Decimal128(16, 2),
    )
    .unwrap();
    let net = Expr::arithmetic(
        ArithmeticOp::Multiply,
        col(1, &PRICE),
        rest,
        Decimal128(32, 4),
    );
    let project = vec![
        named(col(0, &Utf8), "flag"),
        named(net.unwrap(), "p"),
        named(col(5, &Boolean), "ok"),
    ];
    let total = Decimal128(38, 4);
    let sum = AggregateCall {
        filter: Some(col(2, &Boolean)),
        ..call(
            AggregateFunction::Sum,
            Some(col(1, &Decimal128(32, 4))),
            total.clone(),
            &[total],
        )
        .unwrap()
    };
    let count = call(AggregateFunction::Count, None, Int64, &[Int64]).unwrap();
    let grouped = pipeline(
        &schema(),
        vec![
            scalar(Date32, ScalarValue::Int(10471)),
            scalar(PRICE, ScalarValue::Decimal(100)),
        ],
        vec![
            Step::Filter(shipped),
            Step::Project(project),
            group_by(
                vec![named(col(0, &Utf8), "flag")],
                vec![sum, count],
                AggregateOutput::State,
            ),
        ],
    );
    assert_eq!(
        grouped.to_string(),
        "filter shipped <= 1998-09-02 → project flag, price * (1.00 - discount) as p, ok → \
         group by flag: sum(p) filter (where ok), count(*) [state]"
    );
}

#[test]
fn sorting_and_grouping() {
    let sort = Sort {
        keys: vec![SortKey {
            expr: col(4, &Int64),
            descending: true,
            nulls_first: false,
        }],
        fetch: Some(10),
    };
    let count = call(AggregateFunction::Count, None, Int64, &[Int64]).unwrap();
    let cases = [
        (vec![], "pass"),
        (vec![Step::Sort(sort)], "sort by n desc nulls last fetch 10"),
        (
            vec![group_by(vec![], vec![count], AggregateOutput::Value)],
            "aggregate count(*)",
        ),
        (
            vec![group_by(
                vec![named(col(0, &Utf8), "f")],
                vec![],
                AggregateOutput::Value,
            )],
            "group by flag as f",
        ),
    ];
    for (steps, expected) in cases {
        assert_eq!(pipeline(&schema(), vec![], steps).to_string(), expected);
    }
}

#[test]
fn expressions() {
    let n = || col(4, &Int64);
    let ok = || col(5, &Boolean);
    let plus = |left, right| Expr::arithmetic(ArithmeticOp::Add, left, right, Int64).unwrap();
    let minus = |left, right| Expr::arithmetic(ArithmeticOp::Subtract, left, right, Int64).unwrap();
    let times = |left, right| Expr::arithmetic(ArithmeticOp::Multiply, left, right, Int64).unwrap();
    let less = |left, right| Expr::compare(CompareOp::Lt, left, right).unwrap();
    let flag = || col(0, &Utf8);
    let cases = [
        (plus(plus(n(), n()), n()), "n + n + n"),
        (minus(n(), minus(n(), n())), "n - (n - n)"),
        (times(plus(n(), n()), n()), "(n + n) * n"),
        (plus(times(n(), n()), n()), "n * n + n"),
        (Expr::negate(plus(n(), n())).unwrap(), "-(n + n)"),
        (
            Expr::and(Expr::or(ok(), ok()).unwrap(), ok()).unwrap(),
            "(ok or ok) and ok",
        ),
        (
            Expr::or(Expr::and(ok(), ok()).unwrap(), ok()).unwrap(),
            "ok and ok or ok",
        ),
        (
            Expr::not(Expr::and(ok(), less(n(), n())).unwrap()).unwrap(),
            "not (ok and n < n)",
        ),
        (
            Expr::is_null(less(n(), plus(n(), n()))).unwrap(),
            "(n < n + n) is null",
        ),
        (Expr::is_not_null(n()).unwrap(), "n is not null"),
        (
            Expr::case(vec![(ok(), n())], Some(plus(n(), n())), Int64).unwrap(),
            "case when ok then n else n + n end",
        ),
        (
            Expr::in_list(flag(), vec![param(0, &Utf8), param(1, &Utf8)], true).unwrap(),
            "flag not in ('it''s', $1)",
        ),
        (
            Expr::cast(n(), Float64, CastFailure::Null).unwrap(),
            "try_cast(n as Float64)",
        ),
        (
            Expr::date_part(DatePart::DayOfYear, col(3, &Date32)).unwrap(),
            "date_part('doy', shipped)",
        ),
        (
            Expr::like(flag(), param(0, &Utf8), true, true).unwrap(),
            "flag not ilike 'it''s'",
        ),
        (
            Expr::substring(flag(), 2, Some(3), Utf8).unwrap(),
            "substr(flag, 2, 3)",
        ),
        (col(9, &Int64), "#9"),
    ];
    let parameters = [text("it's")];
    for (expr, expected) in cases {
        assert_eq!(expr.display(&schema(), &parameters).to_string(), expected);
    }
}

#[test]
fn literals() {
    let interval = |months, days, nanoseconds| ScalarValue::Interval {
        months,
        days,
        nanoseconds,
    };
    let mdn = DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano);
    let cases = [
        (Decimal128(5, 2), ScalarValue::Decimal(5), "0.05"),
        (Decimal128(5, 2), ScalarValue::Decimal(-105), "-1.05"),
        (Decimal128(5, 0), ScalarValue::Decimal(7), "7"),
        (Float64, ScalarValue::Float(0.5), "0.5"),
        (Int64, ScalarValue::Null, "NULL"),
        (Boolean, ScalarValue::Boolean(true), "true"),
        (DataType::UInt8, ScalarValue::UInt(7), "7"),
        (Date32, ScalarValue::Int(-1), "1969-12-31"),
        (DataType::Date64, ScalarValue::Int(86_400_000), "1970-01-02"),
        (
            DataType::Timestamp(TimeUnit::Millisecond, None),
            ScalarValue::Int(1_500),
            "1970-01-01T00:00:01.500",
        ),
        (
            DataType::Time32(TimeUnit::Second),
            ScalarValue::Int(3_661),
            "01:01:01",
        ),
        (
            DataType::Duration(TimeUnit::Microsecond),
            ScalarValue::Int(3),
            "3us",
        ),
        (mdn.clone(), interval(3, 0, -5), "interval '3 months -5 ns'"),
        (mdn, interval(0, 0, 0), "interval '0 days'"),
    ];
    for (data_type, value, expected) in cases {
        assert_eq!(scalar(data_type, value).to_string(), expected);
    }
}
