//! Rows that are sorted by partition before they are added to a table in global memory.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::calls::every_call;
use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, cut, floats_as, integers, random};
use crate::plan::{Plan, avg, min, sum};

use DataType::{Date32, Float32, Float64, Int8, Int16, Int32, Int64, Utf8};

const SIZES: [usize; 4] = [1, 2000, 33, 1025];

/// A block's own table has room for about so many groups, in bytes.
const LARGE: u64 = 64 << 10;
const SMALL: u64 = 2 << 10;

fn grouped(name: impl Into<String>, keys: Vec<ArrayRef>) -> Case {
    every_call(name, keys, &SIZES)
}

/// A sum of all 64 bits by one key: the narrowest records.
fn summed(name: impl Into<String>, key: ArrayRef) -> Case {
    let value = column(&mut random(7), &Int64, key.len(), Shape::all());
    let input = batch(vec![key, value]);
    let plan = Plan::over(&input);
    let (key, value) = (plan.col(0), plan.col(1));
    let pipeline = plan.group(vec![key], vec![sum(value)]).build();
    Case::new(name, pipeline, cut(&input, &SIZES))
}

fn of(keys: impl Iterator<Item = i128>) -> ArrayRef {
    integers(&Int64, &keys.map(Some).collect::<Vec<_>>())
}

/// What `mix` of the kernels makes of the result is `hash`.
fn unmix(mut hash: u64) -> i128 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0x9cb4_b2f8_1293_37db);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0x4f74_430c_22a5_4005);
    i128::from((hash ^ (hash >> 33)) as i64)
}

fn both(make: impl Fn() -> Case) -> Vec<Case> {
    vec![
        make().hash(1 << 14).sorted(LARGE),
        make().hash(2).sorted(SMALL),
    ]
}

/// Keys that are many, few, skewed, sorted, and of one partition.
pub(crate) fn laws() -> Vec<Case> {
    let rows = 6000_i128;
    let spread = |row: i128| unmix((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut cases = Vec::new();
    for (name, key) in [
        ("distinct", of((0..rows).map(spread))),
        ("sorted", of((0..rows).map(|row| spread(row / 7)))),
        ("all equal", of((0..rows).map(|_| -5))),
        (
            "half on one",
            of((0..rows).map(|row| if row % 2 == 0 { 42 } else { spread(row) })),
        ),
        (
            "one late key",
            of((0..rows).map(|row| if row < 2500 { spread(row) } else { 1 << 40 })),
        ),
        // What is hot shows late.
        (
            "even, then half on one",
            of((0..4 * rows).map(|row| match row {
                _ if row < 3 * rows || row % 2 == 0 => spread(row),
                _ => 1 << 40,
            })),
        ),
        // More than the region of the one partition has room for.
        (
            "of one partition",
            of((0..rows).map(|row| unmix(row as u64))),
        ),
        (
            "mixed to all ones",
            of((0..rows).map(|row| unmix(u64::MAX - (row as u64 % 3)))),
        ),
        // The packed key that a vacant slot has.
        (
            "all 64 bits",
            of((0..rows).map(|row| match row % 3 {
                0 => i128::from(i64::MAX),
                1 => i128::from(i64::MIN),
                _ => spread(row),
            })),
        ),
    ] {
        cases.extend(both(|| {
            summed(format!("{name}, sorted by hash"), key.clone())
        }));
    }
    let dense = |row: i128| (row * 7919) % 100_003;
    // Neighbours share a partition; these are all of the first.
    let turn = |upper: u32| upper.wrapping_mul(2_654_435_761) >> 27;
    let first = (0..1_u32 << 15).filter(|line| (line + turn(line >> 5)) % 32 == 0);
    let first: Vec<i128> = first.map(|line| i128::from(line) * 32).collect();
    for (name, key) in [
        ("distinct", of((0..rows).map(dense))),
        ("all equal", of((0..rows).map(|_| 77_777))),
        (
            "half on one",
            of((0..rows).map(|row| if row % 2 == 0 { 42 } else { dense(row) })),
        ),
        (
            "even, then half on one",
            of((0..4 * rows).map(|row| match row {
                _ if row < 3 * rows || row % 2 == 0 => dense(row),
                _ => 77_777,
            })),
        ),
        (
            "of one partition",
            of((0..rows).map(|row| first[row as usize % first.len()])),
        ),
    ] {
        let name = format!("{name}, sorted by key");
        let case = summed(name, key).dense().sorted(LARGE);
        cases.push(case);
    }
    cases
}

/// Gives all records of a case so many bytes.
fn pooled(mut case: Case, bytes: u64) -> Case {
    case.limits.radix.pool_bytes = bytes;
    case
}

/// Pools that hold all rows, some, and none.
pub(crate) fn pools() -> Vec<Case> {
    let key = of((0..7000).map(|row| unmix((row % 3000) << 50)));
    let mut cases = Vec::new();
    for bytes in [0, 200_000, 2_000_000] {
        for case in both(|| summed(format!("a pool of {bytes} bytes"), key.clone())) {
            cases.push(pooled(case, bytes));
        }
        let dense = of((0..7000).map(|row| (row * 31) % 50_000));
        let case = summed(format!("a pool of {bytes} bytes, dense"), dense);
        cases.push(pooled(case.dense().sorted(LARGE), bytes));
    }
    cases
}

/// Nulls, floats, strings and several keys, with every call.
pub(crate) fn keys() -> Vec<Case> {
    let rows = 3100;
    let mut random = random(12);
    let mut of = |data_type: &DataType, low: i128, high: i128, nulls: u32| {
        column(
            &mut random,
            data_type,
            rows,
            Shape::within(low, high).nulls(nulls),
        )
    };
    let wide = of(&Int64, i64::MIN.into(), i64::MAX.into(), 20);
    let half = of(&Int64, -(1 << 40), 1 << 40, 0);
    let (small, date, text) = (
        of(&Int16, -300, 300, 10),
        of(&Date32, 8000, 9000, 5),
        of(&Utf8, 0, 40, 10),
    );
    let specials = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.5, -1.5];
    let floats: Vec<Option<f64>> = (0..rows)
        .map(|row| match row % 11 {
            3 => None,
            7 => Some(row as f64),
            at => Some(specials[at % specials.len()]),
        })
        .collect();
    let mut cases = Vec::new();
    for (name, keys) in [
        ("full range with nulls", vec![wide]),
        ("both signs", vec![half.clone()]),
        ("double", vec![floats_as(&Float64, &floats)]),
        (
            "single, small",
            vec![floats_as(&Float32, &floats), small.clone()],
        ),
        ("date, text", vec![date.clone(), text.clone()]),
        ("wide, small", vec![half, small.clone()]),
    ] {
        let case = grouped(format!("{name}, sorted by hash"), keys);
        cases.push(case.hash(64).sorted(SMALL));
    }
    for (name, keys) in [
        ("small", vec![small.clone()]),
        ("date, small", vec![date, small]),
        ("text", vec![text]),
    ] {
        let case = grouped(format!("{name}, sorted by key"), keys);
        cases.push(case.dense().sorted(LARGE));
    }
    cases
}

/// Sums of floats, whose digits make wide records.
pub(crate) fn floats() -> Vec<Case> {
    let rows = 3000;
    let mut random = random(13);
    let key = column(&mut random, &Int32, rows, Shape::within(0, 700).nulls(5));
    let value = column(
        &mut random,
        &Float64,
        rows,
        Shape::within(-100, 100).nulls(5),
    );
    let input = batch(vec![key, value]);
    let case = |name: &str| {
        let plan = Plan::over(&input);
        let (key, value) = (plan.col(0), plan.col(1));
        let calls = vec![sum(value.clone()), avg(value.clone()), min(value)];
        let pipeline = plan.group(vec![key], calls).build();
        Case::new(name, pipeline, cut(&input, &SIZES))
    };
    vec![
        case("floats, sorted by hash").hash(4).sorted(SMALL),
        case("floats, sorted by key").dense().sorted(LARGE),
    ]
}

/// No rows, and every size around a tile's.
pub(crate) fn sizes() -> Vec<Case> {
    let mut cases = Vec::new();
    for rows in [0, 1, 31, 33, 1023, 1024, 1025, 2047, 2049, 4097] {
        let keys = vec![column(
            &mut random(rows as u64),
            &Int8,
            rows,
            Shape::all().nulls(10),
        )];
        let hash = grouped(format!("{rows} rows, hash"), keys.clone()).hash(4);
        let dense = grouped(format!("{rows} rows, dense"), keys).dense();
        for case in [hash, dense] {
            cases.push(case.of_types_only().sorted(SMALL));
        }
    }
    cases
}

pub(crate) fn cases() -> Vec<Case> {
    [laws(), pools(), keys(), floats(), sizes()].concat()
}

#[test]
fn laws_of_keys() {
    check_all(laws());
}

#[test]
fn pools_of_every_size() {
    check_all(pools());
}

#[test]
fn keys_of_many_kinds() {
    check_all(keys());
}

#[test]
fn sums_of_floats() {
    check_all(floats());
}

#[test]
fn sizes_around_a_tile() {
    check_all(sizes());
}
