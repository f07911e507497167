//! Where the groups' state is kept, and what groups can be named by.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, TimeUnit};

use crate::check::{Case, check_all};
use crate::data::{SPECIAL_FLOATS, Shape, batch, column, cut, floats_as, integers, random};
use crate::plan::{Plan, avg, count, filtered, max, min, sum};

use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16,
    Int32, Int64, LargeUtf8, UInt8, UInt64, Utf8, Utf8View,
};

const SIZES: [usize; 4] = [1, 1000, 33, 1025];

/// A count, a sum and a greatest value by all columns but the last.
fn grouped(name: impl Into<String>, columns: Vec<ArrayRef>) -> Case {
    let input = batch(columns);
    let plan = Plan::over(&input);
    let num_keys = plan.cols().len() - 1;
    let value = plan.col(num_keys);
    let keys = plan.cols()[..num_keys].to_vec();
    let pipeline = plan
        .group(keys, vec![count(), sum(value.clone()), max(value)])
        .build();
    Case::new(name, pipeline, cut(&input, &SIZES))
}

fn values(num_rows: usize) -> ArrayRef {
    column(&mut random(100), &Int64, num_rows, Shape::all())
}

/// Groups, in each kind of store.
pub(crate) fn stores() -> Vec<Case> {
    let mut random = random(1);
    let input = batch(vec![
        column(&mut random, &Int32, 3000, Shape::within(10, 99).nulls(5)),
        column(&mut random, &Int8, 3000, Shape::within(-2, 2).nulls(5)),
        values(3000),
        column(&mut random, &Boolean, 3000, Shape::all()),
    ]);
    let by = |key: usize, name: &str| {
        let plan = Plan::over(&input);
        let (key, value, flag) = (plan.col(key), plan.col(2), plan.col(3));
        let calls = vec![
            count(),
            filtered(sum(value.clone()), flag.clone()),
            max(value.clone()),
            filtered(min(value.clone()), flag),
            avg(value),
        ];
        let pipeline = plan.group(vec![key], calls).build();
        Case::new(name, pipeline, cut(&input, &SIZES))
    };
    let case = |name: &str| by(0, name);
    let few = |name: &str| by(1, name);
    vec![
        case("shared").shared().declared().rounded(),
        case("dense").dense(),
        case("hash").hash(1 << 14),
        case("hash that grows").hash(2),
        few("private").store("private cells"),
        few("few in a shared table").shared(),
    ]
}

/// One to many copies of a shared table.
pub(crate) fn replicas() -> Vec<Case> {
    let value = values(2100);
    [1, 2, 3, 30, 100, 700, 2500]
        .into_iter()
        .map(|groups| {
            let key = column(
                &mut random(groups as u64),
                &Int16,
                2100,
                Shape::within(0, groups - 1),
            );
            grouped(
                format!("shared table of {groups}"),
                vec![key, value.clone()],
            )
            .shared()
        })
        .collect()
}

/// Tables that spill, and grow several times.
pub(crate) fn growth() -> Vec<Case> {
    let mut random = random(3);
    let wide = Shape::within(i128::from(i64::MIN), i128::from(i64::MAX));
    let distinct: Vec<Option<i128>> = (0..5000).map(|row| Some(row * 1_000_003)).collect();
    let distinct = integers(&Int64, &distinct);
    let same = integers(&Int64, &vec![Some(7_i128 << 40); 4000]);
    let rows = 4000;
    let full = column(&mut random, &Int64, rows, wide.nulls(3));
    let skewed: Vec<Option<i128>> = (0..rows as i128)
        .map(|row| Some(if row % 5 == 0 { row * 77_777_777 } else { 42 }))
        .collect();
    vec![
        grouped(
            "distinct keys in a small table",
            vec![distinct.clone(), values(5000)],
        )
        .hash(1),
        grouped(
            "distinct keys in a large table",
            vec![distinct, values(5000)],
        )
        .hash(1 << 14),
        grouped(
            "full range in a small table",
            vec![full.clone(), values(rows)],
        )
        .hash(4),
        grouped("one key", vec![same, values(rows)]).hash(1),
        grouped("skewed keys", vec![integers(&Int64, &skewed), values(rows)]).hash(64),
        grouped(
            "skewed keys, dense",
            vec![
                column(&mut random, &Int32, rows, Shape::within(0, 100_000)),
                values(rows),
            ],
        )
        .dense(),
    ]
}

/// Keys that fill 64 bits.
pub(crate) fn full_range() -> Vec<Case> {
    let specials: [i128; 8] = [
        i64::MIN.into(),
        i64::MAX.into(),
        (i64::MAX - 1).into(),
        -1,
        0,
        1,
        (i64::MIN + 1).into(),
        -2,
    ];
    let key = |nulls: bool| -> Vec<Option<i128>> {
        (0..2000_usize)
            .map(|row| {
                if nulls && row % 7 == 3 {
                    None
                } else {
                    Some(specials[row % 8])
                }
            })
            .collect()
    };
    let unsigned = |nulls: bool| -> Vec<Option<i128>> {
        key(nulls)
            .into_iter()
            .map(|key| key.map(|key| key & i128::from(u64::MAX)))
            .collect()
    };
    let mut cases = Vec::new();
    for nulls in [false, true] {
        cases.push(
            grouped(
                format!("int64, nulls {nulls}"),
                vec![integers(&Int64, &key(nulls)), values(2000)],
            )
            .hash(1)
            .declared(),
        );
        cases.push(
            grouped(
                format!("uint64, nulls {nulls}"),
                vec![integers(&UInt64, &unsigned(nulls)), values(2000)],
            )
            .hash(2)
            .declared(),
        );
        // One value short of all.
        let most: Vec<Option<i128>> = key(nulls)
            .into_iter()
            .map(|key| key.map(|key| key.max(i128::from(i64::MIN) + 1)))
            .collect();
        cases.push(
            grouped(
                format!("int64 but one, nulls {nulls}"),
                vec![integers(&Int64, &most), values(2000)],
            )
            .hash(1),
        );
        let two: Vec<Option<i128>> = key(nulls)
            .into_iter()
            .map(|key| key.map(|key| key.max(i128::from(i64::MIN) + 2)))
            .collect();
        cases.push(
            grouped(
                format!("int64 but two, nulls {nulls}"),
                vec![integers(&Int64, &two), values(2000)],
            )
            .hash(1),
        );
    }
    cases
}

/// Every type of key.
pub(crate) fn types() -> Vec<Case> {
    let mut random = random(5);
    let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
    let rows = 1100;
    let mut cases = Vec::new();
    for data_type in [
        Boolean,
        Int8,
        UInt8,
        Date32,
        Date64,
        Decimal32(5, 2),
        Decimal64(12, 3),
        Decimal128(15, 2),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        Utf8,
        LargeUtf8,
        Utf8View,
        dictionary,
    ] {
        let key = column(
            &mut random,
            &data_type,
            rows,
            Shape::within(-40, 40).nulls(4),
        );
        cases.push(grouped(
            format!("keys of {data_type}"),
            vec![key, values(rows)],
        ));
    }
    let floats: Vec<Option<f64>> = (0..rows)
        .map(|row| {
            if row % 13 == 5 {
                None
            } else {
                Some(SPECIAL_FLOATS[row % SPECIAL_FLOATS.len()])
            }
        })
        .collect();
    for data_type in [Float32, Float64] {
        let all = floats_as(&data_type, &floats);
        let some: Vec<_> = floats.iter().map(|value| value.or(Some(7.0))).collect();
        cases.push(
            grouped(
                format!("nullable keys of {data_type}"),
                vec![all, values(rows)],
            )
            .hash(4),
        );
        let some = floats_as(&data_type, &some);
        cases.push(
            grouped(format!("keys of {data_type}"), vec![some, values(rows)])
                .hash(4)
                .declared(),
        );
    }
    cases
}

/// Several keys.
pub(crate) fn composite() -> Vec<Case> {
    let mut random = random(6);
    let rows = 2500;
    let mut of = |data_type: &DataType, low: i128, high: i128, nulls: u32| {
        column(
            &mut random,
            data_type,
            rows,
            Shape::within(low, high).nulls(nulls),
        )
    };
    let (flag, text, small) = (
        of(&Boolean, 0, 1, 10),
        of(&Utf8, 0, 4, 10),
        of(&Int16, -3, 3, 10),
    );
    let (date, wide) = (of(&Date32, 8000, 9000, 2), of(&Int64, 0, 1 << 40, 0));
    let single = of(&Float32, -20, 20, 5);
    let all_null = of(&Int32, 0, 0, 100);
    let constant = of(&Int64, 1 << 50, 1 << 50, 0);
    vec![
        grouped("flag, text", vec![flag.clone(), text.clone(), values(rows)]).declared(),
        grouped(
            "flag, text, small",
            vec![flag.clone(), text.clone(), small.clone(), values(rows)],
        ),
        grouped(
            "flag, text, small, dense",
            vec![flag.clone(), text.clone(), small.clone(), values(rows)],
        )
        .dense(),
        grouped(
            "date, text, small, hash",
            vec![date.clone(), text.clone(), small, values(rows)],
        )
        .hash(8),
        grouped("wide, flag", vec![wide, flag.clone(), values(rows)]).hash(8),
        grouped("single, date", vec![single, date, values(rows)]).hash(8),
        grouped(
            "constants",
            vec![constant.clone(), all_null.clone(), values(rows)],
        ),
        grouped(
            "constants in a hash table",
            vec![constant, all_null, text, values(rows)],
        )
        .hash(1),
    ]
}

/// No rows, no selected rows, and every size around a boundary.
pub(crate) fn sizes() -> Vec<Case> {
    let input = |rows: usize| {
        let mut random = random(rows as u64);
        batch(vec![
            column(&mut random, &Int32, rows, Shape::within(0, 9).nulls(10)),
            column(
                &mut random,
                &Int64,
                rows,
                Shape::within(-1000, 1000).nulls(10),
            ),
        ])
    };
    let mut cases = Vec::new();
    for rows in [
        0, 1, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 4097, 8191, 8193,
    ] {
        let input = input(rows);
        let plan = Plan::over(&input);
        let (key, value) = (plan.col(0), plan.col(1));
        let calls = vec![count(), sum(value.clone()), min(value)];
        let by_key = plan.group(vec![key], calls.clone()).build();
        let alone = Plan::over(&input).group(vec![], calls).build();
        for (name, pipeline) in [("grouped", by_key), ("alone", alone)] {
            let case = Case::new(format!("{rows} rows {name}"), pipeline, vec![input.clone()]);
            cases.push(case.of_types_only());
        }
    }
    cases
}

pub(crate) fn cases() -> Vec<Case> {
    [
        stores(),
        replicas(),
        growth(),
        full_range(),
        types(),
        composite(),
        sizes(),
    ]
    .concat()
}

#[test]
fn every_store() {
    check_all(stores());
}

#[test]
fn copies_of_a_shared_table() {
    check_all(replicas());
}

#[test]
fn tables_that_grow() {
    check_all(growth());
}

#[test]
fn keys_that_fill_64_bits() {
    check_all(full_range());
}

#[test]
fn keys_of_every_type() {
    check_all(types());
}

#[test]
fn several_keys() {
    check_all(composite());
}

#[test]
fn sizes_around_every_boundary() {
    check_all(sizes());
}
