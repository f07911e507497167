//! Dates and timestamps moved by intervals: month ends, leap days, parts of days, the calendar's
//! ends, NULLs. What raises stands behind a condition that keeps it away; the rows that raise are the
//! topic of `errors`.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use tidegate_pipeline::{ArithmeticOp, CompareOp};

use crate::check::{Case, check_all};
use crate::conversions::{CALENDARS, calendar_edges};
use crate::data::{Shape, batch, column, integers, random};
use crate::expressions::guarded;
use crate::plan::{Plan, add, arithmetic, compare, count, max, min};

use ArithmeticOp::Subtract;

const DAY: i64 = 86_400_000_000_000;

/// Months, days and nanoseconds: each alone, both signs, together, and what only some dates bear.
const INTERVALS: [(i32, i32, i64); 14] = [
    (1, 0, 0),
    (-1, 0, 0),
    (13, 0, 0),
    (1200, 0, 0),
    (0, 1, 0),
    (0, -40, 0),
    (0, 0, 1),
    (0, 0, -1),
    (0, 0, DAY + DAY / 2),
    (0, 0, -DAY - 1),
    (-25, 3, 4 * 3_600_000_000_000),
    (6_290_000, 0, 0),
    (i32::MAX, i32::MIN, 0),
    (0, i32::MAX, i64::MIN),
];

/// Every interval added and subtracted, on either side where both may stand.
fn moves(plan: &mut Plan) -> Vec<tidegate_pipeline::Expr> {
    let mut exprs = Vec::new();
    for (months, days, nanoseconds) in INTERVALS {
        let by = plan.interval(months, days, nanoseconds);
        exprs.push(add(plan.col(0), by.clone()));
        exprs.push(arithmetic(Subtract, plan.col(0), by));
    }
    let month = plan.interval(1, 0, 0);
    exprs.push(add(month, plan.col(0)));
    let none = plan.null(DataType::Interval(IntervalUnit::MonthDayNano));
    exprs.push(add(plan.col(0), none));
    exprs
}

/// Values around the ends of years and of the calendar, and a few of recent years.
fn moved() -> Vec<Case> {
    let mut random = random(71);
    let mut cases = Vec::new();
    for data_type in CALENDARS {
        let edges = calendar_edges(&data_type);
        let rows = edges.len();
        let per_day = match data_type {
            DataType::Date32 => 1,
            DataType::Timestamp(TimeUnit::Second, _) => 86_400,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 86_400_000_000,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => i128::from(DAY),
            _ => 86_400_000,
        };
        let recent = Shape::within(-10_000 * per_day, 20_000 * per_day).nulls(5);
        for (name, values) in [
            ("edges", integers(&data_type, &edges)),
            ("recent", column(&mut random, &data_type, rows, recent)),
        ] {
            let name = format!("{data_type} moved, {name}");
            cases.push(guarded(name, vec![values], moves));
        }
    }
    cases
}

/// Moved dates where they are compared, are keys and are added up.
fn used() -> Vec<Case> {
    let days = column(
        &mut random(72),
        &DataType::Date32,
        300,
        Shape::within(19_000, 19_060).nulls(7),
    );
    let input = batch(vec![days]);
    let mut plan = Plan::over(&input);
    let (month, week) = (plan.interval(1, 0, 0), plan.interval(0, 7, 0));
    let limit = plan.int(DataType::Date32, 19_070);
    let next = add(plan.col(0), month);
    let before = arithmetic(Subtract, plan.col(0), week);
    let groups = plan
        .clone()
        .filter(compare(CompareOp::GtEq, next.clone(), limit))
        .group(
            vec![next.clone()],
            vec![min(before.clone()), max(before), count()],
        );
    vec![Case::new(
        "groups by the day a month later",
        groups.build(),
        vec![input],
    )]
}

pub(crate) fn cases() -> Vec<Case> {
    [moved(), used()].concat()
}

#[test]
fn dates_and_timestamps() {
    check_all(moved());
}

#[test]
fn in_filters_and_groups() {
    check_all(used());
}
