//! Every aggregate over every type, in every store.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, TimeUnit};
use tidegate_kernels::program::Interval;
use tidegate_pipeline::types::Decimal;
use tidegate_pipeline::{AggregateCall, ArithmeticOp, Expr, ScalarValue};

use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, cut, floats_as, integers, limits, random};
use crate::plan::{
    Plan, add, arithmetic, avg, cast, compare, count, count_of, filtered, max, min, multiply,
    of_catalogue, sum,
};

use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16,
    Int32, Int64, UInt8, UInt16, UInt32, UInt64, Utf8,
};

const ROWS: usize = 1500;
const SIZES: [usize; 3] = [700, 1, 500];

/// Returns the calls that a type's columns have.
fn calls_of(value: &Expr) -> Vec<AggregateCall> {
    let data_type = &value.data_type;
    let decimal = Decimal::of(data_type);
    let sums =
        matches!(data_type, Int64 | UInt64 | Float64 | DataType::Duration(_)) || decimal.is_some();
    let mut calls = vec![count_of(value.clone())];
    // An extreme of 128 bits has no device form.
    if !matches!(data_type, Decimal128(19.., _)) {
        calls.extend([min(value.clone()), max(value.clone())]);
    }
    if sums {
        calls.push(sum(value.clone()));
    }
    let averages = decimal.is_none_or(|decimal| decimal.precision <= 25);
    if averages && (sums || data_type.is_integer()) {
        calls.push(avg(value.clone()));
    }
    calls
}

/// The same calls without keys, and by the same few keys in every store.
pub(crate) fn everywhere(
    name: &str,
    calls: impl Fn(&Plan) -> Vec<AggregateCall>,
    columns: Vec<ArrayRef>,
) -> Vec<Case> {
    let rows = columns[0].len();
    let key = column(&mut random(9), &Int16, rows, Shape::within(0, 5).nulls(5));
    let columns: Vec<ArrayRef> = [vec![key], columns].concat();
    let input = batch(columns);
    let case = |store: &str, keyed: bool| {
        let plan = Plan::over(&input);
        let calls = calls(&plan);
        let keys = if keyed { vec![plan.col(0)] } else { vec![] };
        Case::new(
            format!("{name}, {store}"),
            plan.group(keys, calls).build(),
            cut(&input, &SIZES),
        )
    };
    vec![
        case("registers", false).store("registers"),
        case("few keys", true),
        case("shared", true).shared(),
        case("dense", true).dense(),
        case("hash", true).hash(2),
    ]
}

/// Integers of every type.
pub(crate) fn of_integers() -> Vec<Case> {
    let mut random = random(11);
    let mut cases = Vec::new();
    for data_type in [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64] {
        let values = column(&mut random, &data_type, ROWS, Shape::all());
        let input = batch(vec![
            column(&mut random, &Int8, ROWS, Shape::within(0, 3)),
            values,
        ]);
        for keyed in [false, true] {
            let plan = Plan::over(&input);
            let keys = if keyed { vec![plan.col(0)] } else { vec![] };
            let calls = calls_of(&plan.col(1));
            let pipeline = plan.group(keys, calls).build();
            cases.push(Case::new(
                format!("{data_type}, keyed {keyed}"),
                pipeline,
                cut(&input, &SIZES),
            ));
        }
    }
    let wide = column(&mut random, &Int64, ROWS, Shape::all());
    let unsigned = column(&mut random, &UInt64, ROWS, Shape::all());
    let columns = vec![wide, unsigned];
    let calls = |plan: &Plan| [calls_of(&plan.col(1)), calls_of(&plan.col(2))].concat();
    cases.extend(everywhere("wide integers", calls, columns));
    let small = column(&mut random, &Int64, ROWS, Shape::within(0, 200).nulls(10));
    let calls = |plan: &Plan| calls_of(&plan.col(1));
    cases.extend(everywhere("small integers", calls, vec![small]));
    let constant = column(&mut random, &Int64, ROWS, Shape::within(3, 3).nulls(50));
    cases.extend(everywhere("a constant", calls, vec![constant]));
    cases
}

/// Decimals of small ranges, of 64 and of 128 bits.
pub(crate) fn of_decimals() -> Vec<Case> {
    let mut random = random(12);
    let calls = |plan: &Plan| calls_of(&plan.col(1));
    let mut cases = Vec::new();
    for (data_type, range) in [
        (Decimal32(5, 2), Interval::ALL),
        (Decimal32(9, 2), Interval::new(-10_000, 10_000)),
        (Decimal64(12, 2), Interval::ALL),
        (Decimal64(18, 0), Interval::new(-1_000_000, 1_000_000)),
        (Decimal128(15, 2), Interval::new(0, 10_000_000)),
        (Decimal128(15, 2), Interval::ALL),
        (Decimal128(38, 4), Interval::new(-(1 << 40), 1 << 40)),
        (Decimal128(25, 4), Interval::signed(64)),
        (Decimal128(38, 10), Interval::ALL),
    ] {
        let shape = Shape {
            range,
            ..Shape::all()
        };
        let values = column(&mut random, &data_type, ROWS, shape);
        let limits = limits(&data_type);
        let low = range.low.max(limits.low);
        cases.extend(everywhere(
            &format!("{data_type} from {low}"),
            calls,
            vec![values],
        ));
    }
    // Where the device is told nothing of the values.
    let values = column(&mut random, &Decimal128(20, 2), ROWS, Shape::all());
    let told_nothing = everywhere("a wide decimal", calls, vec![values]);
    cases.extend(told_nothing.into_iter().take(2).map(Case::of_types_only));
    cases
}

/// Sums that pass the width of their type and wrap.
pub(crate) fn that_wrap() -> Vec<Case> {
    let most = |data_type: &DataType| {
        let high = Interval::of_type(data_type).unwrap().high;
        integers(data_type, &vec![Some(high - 3); ROWS])
    };
    let mut cases = Vec::new();
    for data_type in [
        Int64,
        UInt64,
        Decimal32(9, 0),
        Decimal64(18, 0),
        Decimal128(38, 0),
    ] {
        let calls = |plan: &Plan| vec![sum(plan.col(1)), count()];
        let of = |values: ArrayRef| {
            let mut cases = everywhere(&format!("{data_type} that wraps"), calls, vec![values]);
            cases.swap(1, 4);
            cases
        };
        cases.extend(of(most(&data_type)).into_iter().take(2));
    }
    cases
}

fn of_floats_with(name: &str, values: &[Option<f64>]) -> Vec<Case> {
    let calls = |plan: &Plan| {
        let value = plan.col(1);
        vec![
            sum(value.clone()),
            avg(value.clone()),
            min(value.clone()),
            max(value),
            count(),
        ]
    };
    everywhere(name, calls, vec![floats_as(&Float64, values)])
}

/// Floats whose sums cancel, are of mixed sizes, or exact.
pub(crate) fn of_floats() -> Vec<Case> {
    let some = |value: f64| Some(value);
    let whole: Vec<_> = (0..ROWS)
        .map(|row| some(row as f64 * 0.25 - 100.0))
        .collect();
    let mixed: Vec<_> = (0..ROWS)
        .map(|row| match row % 11 {
            10 => None,
            step => some(
                (row as f64 + 0.1)
                    * 10_f64.powi(step as i32 - 4)
                    * if row % 2 == 0 { 1.0 } else { -1.0 },
            ),
        })
        .collect();
    let cancelling: Vec<_> = (0..ROWS)
        .map(|row| some(if row % 2 == 0 { 1e9 + 0.3 } else { -1e9 }))
        .collect();
    let zeros: Vec<_> = (0..ROWS)
        .map(|row| some(if row % 3 == 0 { 0.0 } else { -0.0 }))
        .collect();
    let none = vec![None; ROWS];
    let tenths: Vec<_> = (0..ROWS).map(|row| some(row as f64 / 10.0)).collect();
    let mut cases = Vec::new();
    for (name, values) in [
        ("quarters", whole),
        ("mixed sizes", mixed.clone()),
        ("cancelling", cancelling),
        ("zeros", zeros),
        ("no floats", none),
        ("tenths", tenths),
    ] {
        cases.extend(of_floats_with(name, &values));
    }
    cases.extend(
        of_floats_with("mixed sizes of no known bound", &mixed)
            .into_iter()
            .take(2)
            .map(Case::of_types_only),
    );
    let single: Vec<Option<f64>> = mixed
        .iter()
        .map(|value| value.map(|value| f64::from(value as f32)))
        .collect();
    let calls = |plan: &Plan| {
        let value = plan.col(1);
        vec![
            min(value.clone()),
            max(value.clone()),
            sum(cast(value, Float64)),
        ]
    };
    cases.extend(everywhere(
        "singles",
        calls,
        vec![floats_as(&Float32, &single)],
    ));
    cases
}

/// Extremes of special floats follow the order of comparisons.
pub(crate) fn extremes_of_floats() -> Vec<Case> {
    let specials = [
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1e300,
        5e-324,
    ];
    let mut cases = Vec::new();
    // Without one of them, and with one alone.
    for chosen in 0..2 * specials.len() {
        let skipped = chosen % specials.len();
        let is_alone = chosen >= specials.len();
        let values: Vec<_> = (0..90)
            .map(|row| row % specials.len())
            .filter(|index| (*index == skipped) == is_alone)
            .map(|index| Some(specials[index]))
            .collect();
        for data_type in [Float64, Float32] {
            let calls = |plan: &Plan| vec![min(plan.col(1)), max(plan.col(1))];
            let values = floats_as(&data_type, &values);
            cases.extend(
                everywhere(
                    &format!("{data_type} without or only {skipped}"),
                    calls,
                    vec![values],
                )
                .into_iter()
                .take(2),
            );
        }
    }
    cases
}

/// Float sums that a fixed point cannot hold: an error, and no wrong answer.
pub(crate) fn refused_floats() -> Vec<Case> {
    let mut cases = Vec::new();
    for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut values = vec![1.5; 300];
        values[200] = special;
        let values: Vec<_> = values.into_iter().map(Some).collect();
        let calls = of_floats_with(&format!("a sum with {special}"), &values);
        cases.extend(calls.into_iter().map(Case::refused));
    }
    let spread: Vec<_> = (0..300)
        .map(|row| Some(if row == 7 { 1e-200 } else { 1e200 }))
        .collect();
    cases.extend(
        of_floats_with("a sum of 1e200 and 1e-200", &spread)
            .into_iter()
            .map(Case::refused),
    );
    let large: Vec<_> = (0..300).map(|_| Some(1e306)).collect();
    cases.extend(
        of_floats_with("a sum of 1e306", &large)
            .into_iter()
            .map(Case::refused),
    );
    cases
}

/// Dates, times and booleans.
pub(crate) fn of_the_rest() -> Vec<Case> {
    let mut random = random(14);
    let mut cases = Vec::new();
    for data_type in [
        Boolean,
        Date32,
        Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
        DataType::Duration(TimeUnit::Millisecond),
    ] {
        let values = column(&mut random, &data_type, ROWS, Shape::all());
        let calls = |plan: &Plan| calls_of(&plan.col(1));
        cases.extend(
            everywhere(&data_type.to_string(), calls, vec![values])
                .into_iter()
                .take(2),
        );
    }
    let texts = column(&mut random, &Utf8, ROWS, Shape::all());
    let calls = |plan: &Plan| vec![count_of(plan.col(1)), count()];
    cases.extend(everywhere("strings", calls, vec![texts]));
    cases
}

/// Calls with a filter, and calls that share their words.
pub(crate) fn with_filters() -> Vec<Case> {
    let mut random = random(15);
    let columns = vec![
        column(
            &mut random,
            &Int64,
            ROWS,
            Shape::within(-500, 500).nulls(10),
        ),
        column(&mut random, &Boolean, ROWS, Shape::all()),
        column(&mut random, &Float64, ROWS, Shape::within(-9, 9).nulls(10)),
        column(
            &mut random,
            &Decimal128(15, 2),
            ROWS,
            Shape::within(0, 1 << 40).nulls(10),
        ),
    ];
    let calls = |plan: &Plan| {
        let (value, flag, float, decimal) = (plan.col(1), plan.col(2), plan.col(3), plan.col(4));
        let positive = compare(
            tidegate_pipeline::CompareOp::Gt,
            value.clone(),
            multiply(value.clone(), value.clone()),
        );
        vec![
            filtered(count(), flag.clone()),
            count(),
            filtered(count_of(value.clone()), flag.clone()),
            filtered(sum(value.clone()), flag.clone()),
            sum(value.clone()),
            filtered(avg(float.clone()), flag.clone()),
            avg(float.clone()),
            filtered(min(float), flag.clone()),
            filtered(max(value), positive.clone()),
            filtered(sum(decimal.clone()), positive),
            avg(decimal.clone()),
            filtered(avg(decimal), flag),
        ]
    };
    everywhere("filtered", calls, columns)
}

/// Partial states, means of several types, and what comes after the groups.
pub(crate) fn states() -> Vec<Case> {
    let mut random = random(16);
    let input = batch(vec![
        column(&mut random, &Int16, ROWS, Shape::within(0, 9).nulls(5)),
        column(
            &mut random,
            &Int64,
            ROWS,
            Shape::within(-500, 500).nulls(10),
        ),
        column(
            &mut random,
            &Decimal128(15, 2),
            ROWS,
            Shape::within(0, 1 << 40).nulls(10),
        ),
        column(&mut random, &Decimal32(5, 2), ROWS, Shape::all()),
        column(&mut random, &Float64, ROWS, Shape::within(0, 5).nulls(90)),
    ]);
    let mut cases = Vec::new();
    for keyed in [false, true] {
        let plan = Plan::over(&input);
        let keys = if keyed { vec![plan.col(0)] } else { vec![] };
        let calls = (1..5)
            .flat_map(|index| calls_of(&plan.col(index)))
            .collect();
        cases.push(Case::new(
            format!("states, keyed {keyed}"),
            plan.partial(keys, calls).build(),
            cut(&input, &SIZES),
        ));
    }
    let mut plan = Plan::over(&input);
    let least = plan.int(Int64, 100);
    let (key, value) = (plan.col(0), plan.col(1));
    let plan = plan.group(vec![key], vec![sum(value), count()]);
    let above = compare(tidegate_pipeline::CompareOp::GtEq, plan.col(2), least);
    let plan = plan.filter(above);
    let (by, total) = (plan.col(0), add(plan.col(1), plan.col(2)));
    let plan = plan.project(vec![by, total]);
    let by = plan.col(1);
    let plan = plan.sort(by, Some(5));
    cases.push(Case::new(
        "steps after the groups",
        plan.build(),
        cut(&input, &SIZES),
    ));
    cases
}

/// Sums of expressions, as queries have them.
pub(crate) fn of_expressions() -> Vec<Case> {
    let mut random = random(17);
    let money = Decimal128(15, 2);
    let columns = vec![
        column(&mut random, &money, ROWS, Shape::within(90_000, 10_500_000)),
        column(&mut random, &money, ROWS, Shape::within(0, 10)),
        column(&mut random, &money, ROWS, Shape::within(0, 8)),
        column(&mut random, &Float64, ROWS, Shape::within(0, 1000)),
    ];
    let input = batch(
        [
            vec![column(&mut random, &Int8, ROWS, Shape::within(0, 3))],
            columns,
        ]
        .concat(),
    );
    let mut cases = Vec::new();
    for keyed in [false, true] {
        let mut plan = Plan::over(&input);
        let one = plan.literal(Decimal128(20, 0), ScalarValue::Decimal(1));
        let unit = plan.float(1.0);
        let (price, discount, tax, float) = (plan.col(1), plan.col(2), plan.col(3), plan.col(4));
        let less = arithmetic(ArithmeticOp::Subtract, one.clone(), discount.clone());
        let net = multiply(price.clone(), less);
        let gross = multiply(net.clone(), add(one, tax));
        let ratio = multiply(
            float.clone(),
            arithmetic(ArithmeticOp::Subtract, unit, float.clone()),
        );
        let keys = if keyed { vec![plan.col(0)] } else { vec![] };
        let calls = vec![
            sum(net),
            sum(gross),
            avg(price),
            sum(ratio),
            avg(float),
            avg(discount),
            count(),
        ];
        let case = Case::new(
            format!("money, keyed {keyed}"),
            plan.group(keys, calls).build(),
            cut(&input, &SIZES),
        );
        cases.push(case.rounded().declared());
    }
    cases
}

/// So many rows that a block's own sums would overflow, or be rounded, were they not added to the
/// table in time; and a chunk of more than one segment. Nearly all rows are of one group, and the
/// values are at the ends of what a store keeps in 32 bits or in a double.
pub(crate) fn of_many_rows() -> Vec<Case> {
    let rows = (1 << 20) + 1029;
    let of = |value: fn(i128) -> Option<i128>| {
        integers(&Int64, &(0..rows).map(value).collect::<Vec<_>>())
    };
    let floats = (0..rows).map(|row| Some(8_388_607.0 - ((row * 7919) % 1_000_003) as f64 / 1e7));
    let columns = [
        of(|row| Some(i128::from(row % 1000 == 0))),
        of(|row| Some(if row % 1000 == 0 { row / 1000 } else { 0 })),
        of(|row| Some(16_383 - (row & 1))),
        of(|row| Some((1 << 20) - 1 - (row & 1))),
        of(|row| (row % 7 != 0).then_some((1 << 39) - row)),
        floats_as(&Float64, &floats.collect::<Vec<_>>()),
    ];
    let input = batch(columns.to_vec());
    let case = |name: &str, key: Option<usize>, rows: usize| {
        let input = input.slice(input.num_rows() - rows, rows);
        let plan = Plan::over(&input);
        let keys = key.map(|key| plan.col(key)).into_iter().collect();
        let large = plan.col(4);
        let mut calls: Vec<AggregateCall> = [2, 3, 5].map(|index| sum(plan.col(index))).to_vec();
        calls.extend([avg(large.clone()), count(), max(large)]);
        Case::new(name, plan.group(keys, calls).build(), vec![input])
    };
    vec![
        case("many rows", None, rows as usize),
        case("many rows in private cells", Some(0), rows as usize).store("private cells"),
        case("many rows in a shared table", Some(1), 300_000).shared(),
        case("many rows of a hot key", Some(1), 300_000).dense(),
    ]
}

/// Bits that all values have, and that any has.
pub(crate) fn of_bits() -> Vec<Case> {
    let mut random = random(21);
    let mut cases = Vec::new();
    for data_type in [Int8, Int64, UInt16, UInt64] {
        let columns = vec![
            column(&mut random, &data_type, ROWS, Shape::all().nulls(3)),
            column(&mut random, &Boolean, ROWS, Shape::all().nulls(3)),
        ];
        let calls = |plan: &Plan| {
            let (value, flag) = (plan.col(1), plan.col(2));
            vec![
                of_catalogue("bit_or", vec![value.clone()]),
                of_catalogue("bit_and", vec![value.clone()]),
                filtered(of_catalogue("bit_and", vec![value.clone()]), flag),
                sum(cast(value, Int64)),
            ]
        };
        cases.extend(everywhere(&format!("bits of {data_type}"), calls, columns));
    }
    cases
}

/// Moments of groups of two pairs at the most, which the interpreter has exactly.
pub(crate) fn of_pairs() -> Vec<Case> {
    const GROUPS: usize = 750;
    let case = |name: &str, num_groups: usize| {
        let mut random = random(23);
        let rows = 2 * num_groups;
        let key: Vec<_> = (0..rows)
            .map(|row| Some((row % num_groups) as i128))
            .collect();
        let mut whole = || column(&mut random, &Int32, rows, Shape::within(-300, 300).nulls(5));
        let input = batch(vec![integers(&Int16, &key), whole(), whole()]);
        let plan = Plan::over(&input);
        let pair = [plan.col(1), plan.col(2)].map(|value| cast(value, Float64));
        let functions = [
            "covar_pop",
            "covar_samp",
            "corr",
            "regr_slope",
            "regr_r2",
            "regr_sxy",
            "regr_count",
        ];
        let calls = functions.map(|name| of_catalogue(name, pair.to_vec()));
        let keys = vec![plan.col(0)];
        let pipeline = plan.group(keys, calls.into()).build();
        Case::new(
            format!("pairs, {name}"),
            pipeline,
            cut(&input, &[rows / 2, 1]),
        )
    };
    vec![
        case("few keys", 6),
        case("shared", 6).shared(),
        case("dense", GROUPS).dense(),
        case("hash", GROUPS).hash(64),
        case("sorted", GROUPS).dense().sorted(16 << 10),
        case("declared", GROUPS).of_types_only(),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [
        of_integers(),
        of_decimals(),
        that_wrap(),
        of_floats(),
        extremes_of_floats(),
        of_the_rest(),
        with_filters(),
        states(),
        of_expressions(),
        of_bits(),
        of_pairs(),
    ]
    .concat()
}

#[test]
fn integers_of_every_type() {
    check_all(of_integers());
}

#[test]
fn decimals_of_every_range() {
    check_all(of_decimals());
}

#[test]
fn bits() {
    check_all(of_bits());
}

#[test]
fn correlations() {
    check_all(of_pairs());
}

#[test]
fn sums_that_wrap() {
    check_all(that_wrap());
}

#[test]
fn float_sums() {
    check_all(of_floats());
}

#[test]
fn extremes_of_special_floats() {
    check_all(extremes_of_floats());
}

#[test]
fn float_sums_without_a_fixed_point() {
    check_all(refused_floats());
}

#[test]
fn dates_times_booleans_and_strings() {
    check_all(of_the_rest());
}

#[test]
fn filtered_calls() {
    check_all(with_filters());
}

#[test]
fn partial_states_and_later_steps() {
    check_all(states());
}

#[test]
fn many_rows() {
    check_all(of_many_rows());
}

#[test]
fn sums_of_expressions() {
    check_all(of_expressions());
}
