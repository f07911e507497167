//! The cast matrix and the calendar.

use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::check::cast_rule;
use tidegate_pipeline::{CastFailure, DatePart, Expr};

use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, floats_as, integers, random};
use crate::expressions::{ROWS, guarded};
use crate::plan::{Plan, cast, try_cast};

use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16,
    Int32, Int64, UInt8, UInt16, UInt32, UInt64,
};

/// The whole cast matrix, with values in range, out of range, and rounded.
pub(crate) fn casts() -> Vec<Case> {
    let mut random = random(25);
    let types = [
        Boolean,
        Int8,
        Int32,
        Int64,
        UInt8,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal32(9, 2),
        Decimal64(12, 4),
        Decimal128(15, 2),
        Decimal128(38, 10),
        Date32,
        Date64,
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Duration(TimeUnit::Millisecond),
    ];
    let mut cases = Vec::new();
    for (number, from) in types.iter().enumerate() {
        let columns = vec![
            column(&mut random, from, ROWS, Shape::all()),
            column(&mut random, from, ROWS, Shape::within(-300, 300).nulls(10)),
        ];
        let exprs = |plan: &mut Plan| {
            let (wide, narrow) = (plan.col(0), plan.col(1));
            let mut exprs = Vec::new();
            for to in &types {
                for on_failure in [CastFailure::Raise, CastFailure::Null] {
                    if from != to && cast_rule(from, to, on_failure).is_ok() {
                        for value in [&wide, &narrow] {
                            exprs.push(Expr::cast(value.clone(), to.clone(), on_failure).unwrap());
                        }
                    }
                }
            }
            exprs
        };
        let case = guarded(format!("casts from {from}"), columns, exprs);
        cases.push(if number.is_multiple_of(3) {
            case.declared()
        } else {
            case
        });
    }
    cases
}

/// Values halfway between two, and beside a limit.
pub(crate) fn rounding_casts() -> Vec<Case> {
    let halves: Vec<Option<i128>> = (-130..130).map(|value| Some(value * 5)).collect();
    let mut columns = vec![
        integers(&Decimal32(9, 2), &halves),
        integers(&Decimal64(18, 4), &halves),
        integers(&Decimal128(38, 6), &halves),
    ];
    let limits = [
        127.5,
        128.0,
        -128.5,
        2147483647.5,
        -2147483648.9,
        9.3e18,
        -9.223372036854775e18,
        1.8e19,
        1.7e38,
        1e39,
    ];
    let floats: Vec<Option<f64>> = (0..260)
        .map(|row| {
            Some(if row < limits.len() {
                limits[row]
            } else {
                row as f64 / 8.0 - 20.0
            })
        })
        .collect();
    columns.push(floats_as(&Float64, &floats));
    columns.push(floats_as(&Float32, &floats));
    let near: Vec<Option<i128>> = (0..260_i128)
        .map(|row| Some(((row - 130) << (row % 100)) + (row % 3) - 1))
        .collect();
    let near64: Vec<Option<i128>> = near
        .iter()
        .map(|value| value.map(|value| i128::from(value as i64)))
        .collect();
    columns.push(integers(&Int64, &near64));
    columns.push(integers(&Decimal128(38, 0), &near));
    let targets = [
        Decimal32(5, 1),
        Decimal32(4, 0),
        Decimal64(10, 0),
        Decimal64(18, 3),
        Decimal128(10, 1),
        Decimal128(38, 2),
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt64,
        Float32,
        Float64,
    ];
    (0..columns.len())
        .map(|index| {
            let of = columns[index].clone();
            let from = of.data_type().clone();
            let exprs = |plan: &mut Plan| {
                let value = plan.col(0);
                let mut exprs = Vec::new();
                for to in &targets {
                    if cast_rule(&from, to, CastFailure::Raise).is_ok() {
                        exprs.push(cast(value.clone(), to.clone()));
                        exprs.push(try_cast(value.clone(), to.clone()));
                    }
                }
                exprs
            };
            guarded(format!("rounding casts from {from}"), vec![of], exprs)
        })
        .collect()
}

const PARTS: [DatePart; 11] = [
    DatePart::Year,
    DatePart::Quarter,
    DatePart::Month,
    DatePart::Week,
    DatePart::Day,
    DatePart::DayOfYear,
    DatePart::DayOfWeek,
    DatePart::Hour,
    DatePart::Minute,
    DatePart::Second,
    DatePart::Epoch,
];

/// Returns how many units of a date or timestamp a day has.
fn units_per_day(data_type: &DataType) -> i128 {
    match data_type {
        Date32 => 1,
        Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 86_400_000,
        DataType::Timestamp(TimeUnit::Second, _) => 86_400,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 86_400_000_000,
        _ => 86_400_000_000_000,
    }
}

/// Returns days around the ends of years and of February, the calendar's own ends among them, those
/// that the type has; NULL for the others.
pub(crate) fn calendar_edges(data_type: &DataType) -> Vec<Option<i128>> {
    let mut days: Vec<Option<i128>> = Vec::new();
    for year in [
        -262_143, -4713, -400, -1, 0, 1, 1600, 1900, 1969, 1970, 1999, 2000, 2004, 2020, 2100,
        262_142,
    ] {
        let start = i128::from(
            365 * year + (year as f64 / 4.0).floor() as i64 - (year as f64 / 100.0).floor() as i64
                + (year as f64 / 400.0).floor() as i64
                - 719_528,
        );
        days.extend((-4..=4).map(|day| Some(start + day)));
        days.extend((57..=61).map(|day| Some(start + day)));
    }
    days.extend(
        [
            i128::from(i32::MIN),
            i128::from(i32::MAX),
            -96_465_294,
            -96_465_293,
            95_026_236,
            95_026_237,
        ]
        .map(Some),
    );
    days.push(None);
    let per_day = units_per_day(data_type);
    days.iter()
        .enumerate()
        .map(|(row, day)| {
            let value = (*day)? * per_day + [0, 1, -1, per_day / 2][row % 4] % per_day;
            i64::try_from(value).ok().map(i128::from)
        })
        .map(|value| {
            if *data_type == Date32 {
                value.map(|value| value.clamp(i32::MIN.into(), i32::MAX.into()))
            } else {
                value
            }
        })
        .collect()
}

/// Dates and timestamps of every unit.
pub(crate) const CALENDARS: [DataType; 6] = [
    Date32,
    Date64,
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Timestamp(TimeUnit::Millisecond, None),
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Timestamp(TimeUnit::Nanosecond, None),
];

/// The calendar, around every year's ends and at its own.
pub(crate) fn calendar() -> Vec<Case> {
    let mut random = random(26);
    let mut cases = Vec::new();
    for data_type in CALENDARS {
        let edges = calendar_edges(&data_type);
        let rows = edges.len();
        for (name, values) in [
            ("edges", integers(&data_type, &edges)),
            (
                "anything",
                column(&mut random, &data_type, rows, Shape::all()),
            ),
            (
                "recent",
                column(
                    &mut random,
                    &data_type,
                    rows,
                    Shape::within(-10_000, 20_000).nulls(5),
                ),
            ),
        ] {
            let input = batch(vec![values]);
            let plan = Plan::over(&input);
            let exprs = PARTS
                .map(|part| Expr::date_part(part, plan.col(0)).unwrap())
                .to_vec();
            cases.push(Case::new(
                format!("calendar of {data_type}, {name}"),
                plan.project(exprs).build(),
                vec![input],
            ));
        }
    }
    cases
}

pub(crate) fn cases() -> Vec<Case> {
    [casts(), rounding_casts(), calendar()].concat()
}

#[test]
fn the_cast_matrix() {
    check_all(casts());
}

#[test]
fn casts_that_round() {
    check_all(rounding_casts());
}

#[test]
fn parts_of_dates() {
    check_all(calendar());
}
