//! Float sums with the same bits on every run: whatever the order of rows, folds and blocks, the number
//! of blocks, and where the groups are.

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use rand::Rng;
use rand::seq::SliceRandom;
use tidegate_kernels::RunError;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::{ProgramOptions, STATE_ROWS_MAX, StoreLimits};
use tidegate_pipeline::{AggregateFunction, Pipeline};

use crate::cells::{Cell, rows_of, sorted_rows};
use crate::check::each_store;
use crate::data::{batch, cut, floats_as, integers, random};
use crate::plan::{Plan, avg, count, multiply, sum, variance};
use crate::shim::{ShimMachine, now, options};

use DataType::{Float64, Int64};

const ROWS: usize = 1200;
const RUNS: u64 = 20;

/// Columns of a key, of values of mixed sizes, and of values with 40 bits after the point.
fn input() -> RecordBatch {
    let mut random = random(41);
    let mut keys = Vec::new();
    let mut mixed = Vec::new();
    let mut fixed = Vec::new();
    for row in 0..ROWS {
        // Keys and values grow, so that what is known of them does too.
        let key = random.random_range(0..1 + row as i128 / 20);
        keys.push((row % 13 != 0).then_some(key * key * 1_000_003));
        let size = 10_f64.powi(random.random_range(-12..=row as i32 / 100));
        let value = random.random_range(-1.0..1.0) * size;
        mixed.push((row % 17 != 0).then_some(value));
        fixed.push(Some(
            random.random_range(-1_i64 << 52..1 << 52) as f64 / 2_f64.powi(40),
        ));
    }
    batch(vec![
        integers(&Int64, &keys),
        floats_as(&Float64, &mixed),
        floats_as(&Float64, &fixed),
    ])
}

fn pipeline(input: &RecordBatch, keyed: bool) -> Pipeline {
    let plan = Plan::over(input);
    let (mixed, fixed) = (plan.col(1), plan.col(2));
    let calls = vec![
        sum(mixed.clone()),
        sum(fixed.clone()),
        avg(multiply(mixed.clone(), fixed.clone())),
        variance(AggregateFunction::VarSamp, fixed),
        count(),
        avg(mixed),
    ];
    let keys = if keyed { vec![plan.col(0)] } else { vec![] };
    plan.group(keys, calls).build()
}

/// Runs a pipeline with fixed digits over so many folds, each of some batches, with tables of at most
/// so many rows, unless a fold has more.
fn run_within(
    state_rows: u64,
    pipeline: &Pipeline,
    folds: &[Vec<RecordBatch>],
    limits: StoreLimits,
    seed: u64,
) -> Result<Vec<Vec<Cell>>, RunError> {
    let machine = ShimMachine::new(seed, 1 << 30);
    let options = ProgramOptions {
        fixed_floats: true,
        state_rows,
        ..options(limits)
    };
    let folds = folds.iter().map(Vec::as_slice);
    let left = machine.run(pipeline, &options, folds, &FinishLimits::default())?;
    Ok(sorted_rows(&left))
}

fn run(
    pipeline: &Pipeline,
    folds: &[Vec<RecordBatch>],
    limits: StoreLimits,
    seed: u64,
) -> Result<Vec<Vec<Cell>>, RunError> {
    run_within(STATE_ROWS_MAX, pipeline, folds, limits, seed)
}

#[test]
fn twenty_shuffled_runs_have_the_same_bits() {
    let input = input();
    for keyed in [false, true] {
        let pipeline = pipeline(&input, keyed);
        let mut first = None;
        for seed in 0..RUNS {
            let mut random = random(seed);
            let piece = random.random_range(40..400);
            let mut batches = cut(&input, &[piece]);
            batches.shuffle(&mut random);
            let folds: Vec<Vec<RecordBatch>> = batches
                .chunks(random.random_range(1..=batches.len()))
                .map(<[RecordBatch]>::to_vec)
                .collect();
            let limits = each_store()[seed as usize % 3].1;
            let rows = run(&pipeline, &folds, limits, seed).unwrap();
            let first = first.get_or_insert_with(|| rows.clone());
            assert_eq!(*first, rows, "keyed {keyed}, run {seed}");
        }
    }
}

/// Rows that fill several tables: which rows share one differs from run to run, and the bits do not.
#[test]
fn tables_that_are_full_are_added_up_exactly() {
    let input = input();
    for keyed in [false, true] {
        let pipeline = pipeline(&input, keyed);
        let whole = run(&pipeline, &[vec![input.clone()]], each_store()[0].1, 0).unwrap();
        for seed in 0..6 {
            let mut random = random(seed);
            let state_rows = random.random_range(1..400);
            let mut batches = cut(&input, &[random.random_range(20..200)]);
            batches.shuffle(&mut random);
            let folds: Vec<Vec<RecordBatch>> =
                batches.into_iter().map(|batch| vec![batch]).collect();
            let limits = each_store()[seed as usize % 3].1;
            let rows = run_within(state_rows, &pipeline, &folds, limits, seed).unwrap();
            assert_eq!(whole, rows, "keyed {keyed}, tables of {state_rows} rows");
        }
    }
}

/// What a group's words cannot count is refused before it is read.
#[test]
fn more_rows_at_once_than_a_state_counts_are_refused() {
    let input = input();
    let plan = Plan::over(&input);
    let pipeline = plan.group(vec![], vec![count()]).build();
    let machine = ShimMachine::new(1, 1 << 30);
    let options = ProgramOptions::default();
    let mut execution = machine.execution(&pipeline, &options).unwrap();
    let rows = STATE_ROWS_MAX + 1;
    let error = now(execution.fold_resident(&machine, rows, &[])).unwrap_err();
    assert!(error.to_string().contains("rows at once"), "{error}");
}

/// Sums that doubles hold exactly come out exactly.
#[test]
fn sums_are_the_values_sums() {
    let input = input();
    let pipeline = pipeline(&input, false);
    let rows = run(&pipeline, &[vec![input.clone()]], each_store()[0].1, 1).unwrap();
    let values = rows_of(std::slice::from_ref(&input));
    let whole = |row: &Vec<Cell>| (row[2].float().unwrap() * 2_f64.powi(40)) as i128;
    let exact: i128 = values.iter().map(whole).sum();
    assert_eq!(rows[0][1].float().unwrap(), exact as f64 / 2_f64.powi(40));
}

#[test]
fn values_beyond_the_digits_are_an_error() {
    for value in [1e20, 1e-40, f64::NAN, f64::NEG_INFINITY] {
        let values = vec![Some(1.5), Some(value)];
        let input = batch(vec![floats_as(&Float64, &values)]);
        let plan = Plan::over(&input);
        let calls = vec![sum(plan.col(0))];
        let pipeline = plan.group(vec![], calls).build();
        let error = run(&pipeline, &[vec![input]], each_store()[0].1, 1).unwrap_err();
        assert!(error.to_string().contains("outside of"), "{error}");
    }
}
