//! Variances and standard deviations, in every store and as states; and against exact integers.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::StoreLimits;
use tidegate_pipeline::{AggregateCall, AggregateFunction, Expr};

use crate::aggregates::everywhere;
use crate::cells::{Cell, rows_of};
use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, cut, floats_as, integers, random};
use crate::plan::{Plan, avg, count, count_of, filtered, of_catalogue, sum, variance};
use crate::shim::{ShimMachine, options};

use AggregateFunction::{StddevPop, StddevSamp, VarPop, VarSamp};
use DataType::{Boolean, Decimal128, Float32, Float64, Int16, Int64, UInt64};

const ROWS: usize = 1500;
const SIZES: [usize; 3] = [700, 1, 500];

fn all_of(value: &Expr) -> Vec<AggregateCall> {
    [VarPop, VarSamp, StddevPop, StddevSamp]
        .map(|function| variance(function, value.clone()))
        .to_vec()
}

fn of_floats() -> Vec<Case> {
    let some = |value: f64| Some(value);
    let quarters: Vec<_> = (0..ROWS)
        .map(|row| some(row as f64 * 0.25 - 100.0))
        .collect();
    let mixed: Vec<_> = (0..ROWS)
        .map(|row| match row % 7 {
            6 => None,
            step => some((row as f64 + 0.1) * 10_f64.powi(step as i32 - 3)),
        })
        .collect();
    let far: Vec<_> = (0..ROWS)
        .map(|row| some(if row % 2 == 0 { 1e-15 } else { -1e15 }))
        .collect();
    let zeros: Vec<_> = (0..ROWS)
        .map(|row| some(if row % 3 == 0 { 0.0 } else { -0.0 }))
        .collect();
    let mut cases = Vec::new();
    for (name, values) in [
        ("quarters", quarters),
        ("mixed sizes", mixed.clone()),
        ("far apart", far),
        ("zeros", zeros),
        ("no floats", vec![None; ROWS]),
    ] {
        let calls = |plan: &Plan| all_of(&plan.col(1));
        let values = vec![floats_as(&Float64, &values)];
        cases.extend(everywhere(&format!("variance of {name}"), calls, values));
    }
    let calls = |plan: &Plan| [all_of(&plan.col(1)), vec![avg(plan.col(1)), count()]].concat();
    let values = vec![floats_as(&Float64, &mixed)];
    let unbounded = everywhere("variance of no known bound", calls, values);
    cases.extend(unbounded.into_iter().take(2).map(Case::of_types_only));
    let single: Vec<_> = mixed
        .iter()
        .map(|value| value.map(|value| f64::from(value as f32)))
        .collect();
    let calls = |plan: &Plan| all_of(&plan.col(1));
    cases.extend(everywhere(
        "variance of singles",
        calls,
        vec![floats_as(&Float32, &single)],
    ));
    cases
}

/// What the planner casts to floats first.
fn of_numbers() -> Vec<Case> {
    let mut random = random(31);
    let calls = |plan: &Plan| all_of(&plan.col(1));
    let mut cases = Vec::new();
    for (data_type, shape) in [
        (Int64, Shape::within(-300, 5_000).nulls(10)),
        (Int64, Shape::all()),
        (UInt64, Shape::within(7, 7)),
        (Decimal128(15, 2), Shape::within(0, 1 << 40).nulls(5)),
    ] {
        let values = column(&mut random, &data_type, ROWS, shape);
        let name = format!("variance of {data_type}");
        cases.extend(everywhere(&name, calls, vec![values]));
    }
    cases
}

/// With filters, beside other calls, as states, and of groups with one value.
fn of_parts() -> Vec<Case> {
    let mut random = random(32);
    let columns = vec![
        column(&mut random, &Float64, ROWS, Shape::within(-9, 9).nulls(30)),
        column(&mut random, &Boolean, ROWS, Shape::all().nulls(10)),
    ];
    let calls = |plan: &Plan| {
        let (value, flag) = (plan.col(1), plan.col(2));
        vec![
            variance(VarSamp, value.clone()),
            sum(value.clone()),
            filtered(variance(VarSamp, value.clone()), flag.clone()),
            variance(StddevPop, value.clone()),
            filtered(avg(value.clone()), flag),
            count_of(value),
        ]
    };
    let mut cases = everywhere("filtered variances", calls, columns.clone());
    let key: Vec<_> = (0..ROWS as i128).map(|row| Some(row / 2 * 2)).collect();
    let few = Shape::within(0, 3).nulls(5);
    for (name, key) in [
        ("few groups", column(&mut random, &Int16, ROWS, few)),
        ("groups of two", integers(&Int64, &key)),
    ] {
        let input = batch([vec![key], columns.clone()].concat());
        let plan = Plan::over(&input);
        let calls = [all_of(&plan.col(1)), vec![count()]].concat();
        let (keys, state) = (vec![plan.col(0)], calls.clone());
        let values = plan.clone().group(keys.clone(), calls).build();
        let states = plan.partial(keys, state).build();
        cases.push(Case::new(name, values, cut(&input, &SIZES)));
        cases.push(Case::new(
            format!("states of {name}"),
            states,
            cut(&input, &SIZES),
        ));
    }
    cases
}

pub(crate) fn cases() -> Vec<Case> {
    [of_floats(), of_numbers(), of_parts()].concat()
}

#[test]
fn of_floats_in_every_store() {
    check_all(of_floats());
}

#[test]
fn of_integers_and_decimals() {
    check_all(of_numbers());
}

#[test]
fn with_filters_and_as_states() {
    check_all(of_parts());
}

#[test]
fn sorted_by_partition_first() {
    let key: Vec<_> = (0..ROWS as i128)
        .map(|row| Some(row * 7919 % 611))
        .collect();
    let mut random = random(33);
    let values = column(&mut random, &Float64, ROWS, Shape::within(-9, 9).nulls(30));
    let input = batch(vec![integers(&Int64, &key), values]);
    let plan = Plan::over(&input);
    let (keys, calls) = (vec![plan.col(0)], all_of(&plan.col(1)));
    let pipeline = plan.group(keys, calls).build();
    let case = |name: &str| Case::new(name, pipeline.clone(), cut(&input, &SIZES));
    check_all(vec![
        case("sorted, dense").dense().sorted(16 << 10),
        case("sorted, hash").hash(64).sorted(16 << 10),
    ]);
}

/// What is no number, and what no digits hold: an error, and no wrong answer.
#[test]
fn outside_of_the_digits() {
    for special in [f64::NAN, f64::INFINITY, 1e306, 1e-300] {
        let mut values = vec![Some(1.5); 300];
        values[200] = Some(special);
        let calls = |plan: &Plan| all_of(&plan.col(1));
        let values = vec![floats_as(&Float64, &values)];
        let cases = everywhere(&format!("variance with {special}"), calls, values);
        check_all(cases.into_iter().map(Case::refused).collect());
    }
}

/// Returns the variances that the shim gives of one group, in the order of [`all_of`].
fn variances_of(values: &[f64], seed: u64, sizes: &[usize]) -> Vec<f64> {
    of_one_group(&[values], |plan| all_of(&plan.col(0)), seed, sizes)
}

/// Returns what the shim gives for calls over columns of floats, all rows being one group.
fn of_one_group(
    columns: &[&[f64]],
    calls: impl Fn(&Plan) -> Vec<AggregateCall>,
    seed: u64,
    sizes: &[usize],
) -> Vec<f64> {
    let columns = columns.iter().map(|values| {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        floats_as(&Float64, &values)
    });
    let input = batch(columns.collect());
    let plan = Plan::over(&input);
    let calls = calls(&plan);
    let pipeline = plan.group(vec![], calls).build();
    let machine = ShimMachine::new(seed, 1 << 30);
    let options = options(StoreLimits::default());
    let pieces: Vec<RecordBatch> = cut(&input, sizes);
    let folds = [pieces.as_slice()];
    let left = machine.run(&pipeline, &options, folds, &FinishLimits::default());
    let rows = rows_of(&left.unwrap());
    rows[0]
        .iter()
        .map(|cell: &Cell| cell.float().unwrap())
        .collect()
}

/// Values `offset + step * k` for small whole `k`, whose variance integers give exactly.
#[test]
fn a_small_spread_far_from_zero_does_not_cancel() {
    for (offset, step) in [
        (0.0, 1.0),
        (1e9, 1.0 / 1024.0),
        (1e15, 0.125),
        (-1e12, 2_f64.powi(-10)),
        (1e-9, 2_f64.powi(-60)),
        (3e30, 2_f64.powi(60)),
    ] {
        let whole: Vec<i128> = (0..1200).map(|row| row * 7919 % 1013 - 500).collect();
        let base = (offset / step).round() * step;
        let values: Vec<f64> = whole.iter().map(|k| base + *k as f64 * step).collect();
        let is_exact = |(value, k): (&f64, &i128)| (value - base) / step == *k as f64;
        assert!(values.iter().zip(&whole).all(is_exact), "{offset} {step}");
        let count = whole.len() as i128;
        let sum: i128 = whole.iter().sum();
        let squares: i128 = whole.iter().map(|k| k * k).sum();
        let spread = (count * squares - sum * sum) as f64 / count as f64 * step * step;
        let expected = [
            spread / count as f64,
            spread / (count - 1) as f64,
            (spread / count as f64).sqrt(),
            (spread / (count - 1) as f64).sqrt(),
        ];
        let mut first = None;
        for (seed, sizes) in [(1, &[1200][..]), (2, &[1, 700, 499]), (3, &[64, 64])] {
            let found = variances_of(&values, seed, sizes);
            for (found, expected) in found.iter().zip(expected) {
                let distance = (found - expected).abs() / expected;
                assert!(distance < 4.0 * f64::EPSILON, "{found} {expected} {offset}");
            }
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found);
        }
    }
}

/// Pairs of such values, whose covariance integers give exactly.
#[test]
fn pairs_far_from_zero_do_not_cancel() {
    let ones: Vec<i128> = (0..1200).map(|row| row * 7919 % 1013 - 500).collect();
    let twos: Vec<i128> = ones.iter().map(|k| k * 3 + k * k % 97).collect();
    for (bases, steps) in [
        ([0.0, 0.0], [1.0, 0.5]),
        ([1e9, -1e12], [1.0 / 1024.0, 0.125]),
        ([3e30, 1e-9], [2_f64.powi(60), 2_f64.powi(-60)]),
    ] {
        let of = |whole: &[i128], at: usize| -> Vec<f64> {
            let base = (bases[at] / steps[at]).round() * steps[at];
            whole.iter().map(|k| base + *k as f64 * steps[at]).collect()
        };
        let columns = [of(&ones, 0), of(&twos, 1)];
        let count = ones.len() as i128;
        let distances = |a: &[i128], b: &[i128]| {
            let products: i128 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            let sums = a.iter().sum::<i128>() * b.iter().sum::<i128>();
            (count * products - sums) as f64 / count as f64
        };
        let products = distances(&ones, &twos) * steps[0] * steps[1];
        let squares = distances(&twos, &twos) * steps[1] * steps[1];
        let spread = (distances(&ones, &ones) * distances(&twos, &twos)).sqrt();
        let expected = [
            products / count as f64,
            products / (count - 1) as f64,
            products,
            // The second argument is the one by which the first is explained.
            products / squares,
            distances(&ones, &twos) / spread,
        ];
        let calls = |plan: &Plan| {
            let names = ["covar_pop", "covar_samp", "regr_sxy", "regr_slope", "corr"];
            let pair = [plan.col(0), plan.col(1)];
            names.map(|name| of_catalogue(name, pair.to_vec())).to_vec()
        };
        let mut first = None;
        for (seed, sizes) in [(1, &[1200][..]), (2, &[1, 700, 499]), (3, &[64, 64])] {
            let found = of_one_group(&[&columns[0], &columns[1]], calls, seed, sizes);
            for (found, expected) in found.iter().zip(expected) {
                let distance = (found / expected - 1.0).abs();
                assert!(
                    distance < 8.0 * f64::EPSILON,
                    "{found} {expected} {bases:?}"
                );
            }
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found);
        }
    }
}

#[test]
fn constants_have_no_variance() {
    for constant in [0.1, -1e300 / 3e180, 5e-60] {
        let found = variances_of(&[constant; 700], 1, &[300]);
        assert_eq!(found, [0.0; 4], "{constant}");
    }
}

#[test]
fn an_array_of_one() {
    let input = batch(vec![floats_as(&Float64, &[Some(0.3)]) as ArrayRef]);
    let plan = Plan::over(&input);
    let calls = all_of(&plan.col(0));
    let pipeline = plan.group(vec![], calls).build();
    Case::new("one value", pipeline, vec![input]).check();
}
