//! Every width of a chunk's raw values, widths that differ in one launch, and common factors.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_kernels::encode::Narrowing;
use tidegate_pipeline::types::is_string;

use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, integers, random};
use crate::plan::{Plan, count, max, min, sum};

use DataType::{
    Boolean, Date32, Decimal128, Int8, Int16, Int32, Int64, UInt8, UInt32, UInt64, Utf8,
};

/// One batch for each shape, all of one type.
fn chunks(data_type: &DataType, shapes: &[Shape], rows: usize) -> Vec<RecordBatch> {
    let mut random = random(41);
    shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| {
            let rows = rows + index * 7;
            batch(vec![
                column(&mut random, data_type, rows, *shape),
                column(&mut random, &Int8, rows, Shape::within(0, 3)),
            ])
        })
        .collect()
}

/// Writes the column out, and groups by the other.
fn both(name: &str, batches: &[RecordBatch]) -> Vec<Case> {
    let plan = Plan::over(&batches[0]);
    let rows = plan.clone().project(plan.cols()).build();
    let (value, key) = (plan.col(0), plan.col(1));
    let calls = match value.data_type {
        Int64 | UInt64 => vec![count(), sum(value.clone()), min(value.clone()), max(value)],
        Decimal128(_, _) => vec![count(), sum(value)],
        ref other if is_string(other) => vec![count(), crate::plan::count_of(value)],
        _ => vec![count(), min(value.clone()), max(value)],
    };
    let groups = plan.group(vec![key], calls).build();
    vec![
        Case::new(format!("{name}, rows"), rows, batches.to_vec()),
        Case::new(format!("{name}, groups"), groups, batches.to_vec()),
    ]
}

/// Shapes whose chunks are 0, 1, 2, 4, 8 and 16 bytes wide.
fn widths() -> [Shape; 6] {
    [
        Shape::within(1 << 20, 1 << 20),
        Shape::within(-100, 155),
        Shape::within(-30_000, 35_000),
        Shape::within(1 << 31, (1 << 32) - 1),
        Shape::within(-(1 << 62), 1 << 62),
        Shape::within(-(1 << 90), 1 << 90),
    ]
}

/// Each width alone, and all of them in one launch.
pub(crate) fn of_each_width() -> Vec<Case> {
    let mut cases = Vec::new();
    for nulls in [0, 30] {
        for data_type in [Int64, Decimal128(38, 2)] {
            let shapes: Vec<Shape> = widths().iter().map(|shape| shape.nulls(nulls)).collect();
            let shapes = if data_type == Int64 {
                &shapes[..5]
            } else {
                &shapes[..]
            };
            for (index, shape) in shapes.iter().enumerate() {
                let name = format!("{data_type} of width {index}, {nulls} % nulls");
                cases.extend(both(&name, &chunks(&data_type, &[*shape], 333)));
            }
            let all = chunks(&data_type, shapes, 200);
            let name = format!("{data_type} of all widths, {nulls} % nulls");
            for case in both(&name, &all) {
                // The narrow program would need values of 128 bits.
                cases.push(case.clone());
                cases.push(case.declared());
            }
        }
    }
    cases
}

/// Types whose values have their own ideas of width.
pub(crate) fn of_each_type() -> Vec<Case> {
    let small = Shape::within(3, 5);
    let shapes = [
        Shape::all(),
        small,
        small.nulls(100),
        Shape::within(0, 0),
        Shape::all().nulls(0),
    ];
    let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
    [
        Boolean, Int8, UInt8, Int16, Int32, UInt32, UInt64, Date32, Utf8, dictionary,
    ]
    .iter()
    .flat_map(|data_type| {
        both(
            &format!("chunks of {data_type}"),
            &chunks(data_type, &shapes, 150),
        )
    })
    .collect()
}

/// NULLs in some of the chunks only.
pub(crate) fn of_some_nulls() -> Vec<Case> {
    let of = |nulls: u32| Shape::within(-500, 70_000).nulls(nulls);
    both(
        "nulls in some chunks",
        &chunks(&Int64, &[of(0), of(30), of(0), of(100), of(0)], 130),
    )
}

/// Values with a common factor, alone and beside values without one.
pub(crate) fn of_factors() -> Vec<Case> {
    let days = |factor: i128, base: i128, rows: i128, nulls: bool| -> ArrayRef {
        let value =
            |row: i128| (!nulls || row % 5 != 2).then_some(base + factor * (row * 7919 % 1000));
        integers(&Int64, &(0..rows).map(value).collect::<Vec<_>>())
    };
    let key = |rows: i128| {
        integers(
            &Int8,
            &(0..rows).map(|row| Some(row % 4)).collect::<Vec<_>>(),
        )
    };
    let chunk = |factor: i128, base: i128, rows: i128, nulls: bool| {
        batch(vec![days(factor, base, rows, nulls), key(rows)])
    };
    let mut cases = Vec::new();
    for (name, batches) in [
        ("days", vec![chunk(86_400_000_000, -5, 700, false)]),
        (
            "days with nulls",
            vec![chunk(86_400_000_000, 1 << 50, 700, true)],
        ),
        ("hundreds", vec![chunk(100, -50_000, 700, false)]),
        (
            "all kinds",
            vec![
                chunk(86_400_000_000, 3, 300, true),
                chunk(1, -(1 << 40), 300, false),
                chunk(0, 99, 64, false),
                chunk(1_000_003, 0, 33, false),
            ],
        ),
    ] {
        for mut case in both(name, &batches) {
            case.narrowing = Narrowing::Factor;
            cases.push(case.declared());
        }
    }
    cases
}

/// Group keys that lie far from each other, but all in steps: as few groups as there are steps.
pub(crate) fn of_steps() -> Vec<Case> {
    let key = |data_type: &DataType, low: i128, step: i128, count: i128, nulls: bool| {
        let value = |row: i128| {
            let is_null = nulls && row % 13 == 5;
            (!is_null).then_some(low + step * (row * 7919 % count))
        };
        integers(data_type, &(0..700).map(value).collect::<Vec<_>>())
    };
    let day = 86_400_000_000;
    let mut cases = Vec::new();
    for (name, store, chunks) in [
        (
            "days as microseconds",
            "shared table",
            vec![
                vec![key(&Int64, -5 * day, day, 300, false)],
                vec![key(&Int64, 10 * day, 2 * day, 100, true)],
                // One value only.
                vec![key(&Int64, -400 * day, 0, 1, false)],
            ],
        ),
        (
            "months and weeks",
            "direct-addressed table",
            vec![
                vec![
                    key(&Date32, 8036, 30, 12, false),
                    key(&Int32, -2_100_000_000, 7_000_000, 500, true),
                ],
                vec![
                    key(&Date32, 8036 + 60, 90, 4, true),
                    key(&Int32, 1_400_000_000, 700_000_000, 2, false),
                ],
            ],
        ),
        (
            "the ends of 64 bits",
            "shared table",
            vec![vec![
                key(&Int64, i128::from(i64::MIN), (1 << 58) - 1, 64, false),
                key(&Decimal128(18, 2), -1 << 59, 1 << 57, 8, false),
            ]],
        ),
        (
            "no common step",
            "hash table",
            vec![
                vec![key(&Int64, 0, day, 300, false)],
                vec![key(&Int64, 1, day, 300, false)],
            ],
        ),
    ] {
        let batches: Vec<RecordBatch> = chunks.into_iter().map(batch).collect();
        let plan = Plan::over(&batches[0]);
        let keys = plan.cols();
        let last = keys.last().cloned();
        let calls = [Some(count()), last.map(max)].into_iter().flatten();
        let groups = plan.group(keys, calls.collect()).build();
        let mut case = Case::new(name, groups, batches).store(store);
        case.narrowing = Narrowing::Factor;
        cases.push(case);
    }
    cases
}

pub(crate) fn cases() -> Vec<Case> {
    [
        of_each_width(),
        of_each_type(),
        of_some_nulls(),
        of_factors(),
        of_steps(),
    ]
    .concat()
}

#[test]
fn every_width() {
    check_all(of_each_width());
}

#[test]
fn every_type() {
    check_all(of_each_type());
}

#[test]
fn some_nulls() {
    check_all(of_some_nulls());
}

#[test]
fn common_factors() {
    check_all(of_factors());
}

#[test]
fn keys_in_steps() {
    check_all(of_steps());
}
