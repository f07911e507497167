//! Partial states of several tables: each table's groups leave as they are, and merging them gives what
//! one table gives.

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use rand::Rng;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::{ProgramOptions, StoreLimits};
use tidegate_pipeline::Pipeline;

use crate::cells::{Cell, rows_of, sorted_rows};
use crate::check::each_store;
use crate::data::{batch, cut, integers, random};
use crate::plan::{Plan, count, sum};
use crate::reference::interpret;
use crate::shim::{ShimMachine, options};

const ROWS: i128 = 900;
const KEYS: i128 = 40;

/// A key and a number, both with NULLs; later rows have larger numbers, so that folds widen what is known
/// of them.
fn input() -> RecordBatch {
    let mut random = random(97);
    let (mut keys, mut numbers) = (Vec::new(), Vec::new());
    for row in 0..ROWS {
        keys.push((row % 31 != 0).then_some(random.random_range(0..KEYS) * 1_000_003));
        let number = random.random_range(-100..100) << (row / 300 * 20);
        numbers.push((row % 7 != 0).then_some(number));
    }
    batch(vec![
        integers(&DataType::Int64, &keys),
        integers(&DataType::Int64, &numbers),
    ])
}

fn states(input: &RecordBatch) -> Pipeline {
    let plan = Plan::over(input);
    let calls = vec![sum(plan.col(1)), count()];
    let keys = vec![plan.col(0)];
    plan.partial(keys, calls).build()
}

/// Returns what leaves a pipeline that has tables of at most so many rows, after a fold for each batch.
pub(crate) fn leaving(
    pipeline: &Pipeline,
    folds: &[RecordBatch],
    limits: StoreLimits,
    finish: &FinishLimits,
    state_rows: u64,
) -> Vec<RecordBatch> {
    let machine = ShimMachine::new(5, 1 << 30);
    let options = ProgramOptions {
        state_rows,
        ..options(limits)
    };
    let left = machine.run(pipeline, &options, folds.chunks(1), finish);
    left.unwrap()
}

/// Merges states by their key, as a final aggregate does.
fn merged(states: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let plan = Plan::over(&states[0]);
    let calls = vec![sum(plan.col(1)), sum(plan.col(2))];
    let keys = vec![plan.col(0)];
    let merge = plan.group(keys, calls).build();
    sorted_rows(&interpret(&merge, states).unwrap())
}

/// Has the device finish the groups, however few they are.
pub(crate) fn on_device() -> FinishLimits {
    FinishLimits {
        slots_min: 0,
        groups_min: 0,
        copied_bytes_max: 0,
        ..FinishLimits::default()
    }
}

#[test]
fn leave_table_by_table_and_merge_to_the_same() {
    let input = input();
    let pipeline = states(&input);
    let one = interpret(&pipeline, std::slice::from_ref(&input)).unwrap();
    let num_groups: usize = one.iter().map(RecordBatch::num_rows).sum();
    let expected = merged(&one);
    for (store, limits) in each_store() {
        for finish in [&on_device(), &FinishLimits::default()] {
            for (size, state_rows) in [(300, 300), (150, 300), (100, 250)] {
                let folds = cut(&input, &vec![size; ROWS as usize / size]);
                let parts = leaving(&pipeline, &folds, limits, finish, state_rows);
                let num_rows: usize = parts.iter().map(RecordBatch::num_rows).sum();
                let name = format!("{store}, folds of {size}, tables of {state_rows}");
                assert!(num_rows > 2 * num_groups, "{name}: {num_rows} rows");
                assert_eq!(merged(&parts), expected, "{name}");
            }
        }
    }
}

#[test]
fn of_no_rows_and_of_one() {
    let input = input();
    let pipeline = states(&input);
    for num_rows in [0, 1] {
        let rows = input.slice(0, num_rows);
        let expected = interpret(&pipeline, std::slice::from_ref(&rows)).unwrap();
        let limits = each_store()[0].1;
        let states = leaving(&pipeline, &[rows], limits, &FinishLimits::default(), 1);
        assert_eq!(rows_of(&states), rows_of(&expected), "{num_rows} rows");
    }
}
