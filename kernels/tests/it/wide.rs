//! Group keys that need more than 64 bits.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::ProgramOptions;
use tidegate_kernels::{RunError, Unsuited};
use tidegate_pipeline::{AggregateFunction, CompareOp, Pipeline, Sort, SortKey, Step};

use crate::calls::every_call;
use crate::cells::sorted_rows;
use crate::check::{Case, check_all, each_store};
use crate::data::{SPECIAL_FLOATS, Shape, batch, column, cut, floats_as, integers, random};
use crate::parts::{leaving, on_device};
use crate::plan::{Plan, compare, count, filtered, max, min, sum, variance};
use crate::reference::interpret;
use crate::shim::{ShimMachine, options};

use DataType::{Decimal128, Float64, Int32, Int64, UInt64, Utf8};

const SIZES: [usize; 4] = [1, 700, 33, 500];
const ROWS: usize = 1500;

fn grouped(name: impl Into<String>, keys: Vec<ArrayRef>) -> Case {
    every_call(name, keys, &SIZES)
}

/// The ends of 64 bits and what lies beside them, over and over, each row's `turn` of them.
fn ends(data_type: &DataType, turn: impl Fn(usize) -> usize, nulls: bool) -> ArrayRef {
    let (low, high) = match data_type {
        UInt64 => (0, i128::from(u64::MAX)),
        Int32 => (i32::MIN.into(), i32::MAX.into()),
        Decimal128(..) => (1 - 10_i128.pow(38), 10_i128.pow(38) - 1),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let ends = [
        low,
        high,
        low + 1,
        high - 1,
        0_i128.max(low),
        1,
        high / 2,
        77,
    ];
    let value = |row: usize| (!nulls || row % 11 != 3).then(|| ends[turn(row) % ends.len()]);
    integers(data_type, &(0..ROWS).map(value).collect::<Vec<_>>())
}

fn slow(row: usize) -> usize {
    row / 9
}

fn fast(row: usize) -> usize {
    row % 5
}

/// Floats of every kind, the NULL among them.
fn floats() -> ArrayRef {
    let float = |row: usize| (row % 13 != 5).then(|| SPECIAL_FLOATS[row % SPECIAL_FLOATS.len()]);
    floats_as(&Float64, &(0..ROWS).map(float).collect::<Vec<_>>())
}

fn texts() -> ArrayRef {
    column(&mut random(9), &Utf8, ROWS, Shape::within(0, 3).nulls(10))
}

/// Keys of every type that fills 64 bits or more, with each other and with smaller ones.
fn kinds() -> Vec<(&'static str, Vec<ArrayRef>)> {
    let whole = |turn: fn(usize) -> usize, nulls| ends(&Int64, turn, nulls);
    let decimals = |nulls| ends(&Decimal128(38, 4), slow, nulls);
    let constant = integers(&Int64, &vec![Some(5); ROWS]);
    vec![
        ("two", vec![whole(slow, false), whole(fast, false)]),
        ("two with nulls", vec![whole(slow, true), whole(fast, true)]),
        ("with a double", vec![whole(slow, false), floats()]),
        ("a decimal", vec![decimals(false)]),
        (
            "a decimal with nulls",
            vec![decimals(true), ends(&Int32, fast, true)],
        ),
        (
            "three of 32 bits",
            vec![
                ends(&Int32, slow, true),
                ends(&Int32, fast, true),
                ends(&Int32, slow, false),
            ],
        ),
        // All of 64 bits and no more: one word, of which each is a key.
        (
            "two of 32 bits",
            vec![ends(&Int32, slow, false), ends(&Int32, fast, false)],
        ),
        ("with a constant", vec![whole(fast, false), constant]),
        (
            "with strings",
            vec![texts(), whole(slow, true), ends(&UInt64, fast, false)],
        ),
        (
            "four",
            vec![
                whole(slow, false),
                whole(fast, true),
                decimals(false),
                ends(&UInt64, slow, true),
            ],
        ),
    ]
}

/// In a table that grows from one slot, and in one that need not grow.
pub(crate) fn stores() -> Vec<Case> {
    let case = |(name, keys): (&str, Vec<ArrayRef>)| grouped(name, keys).hash(1);
    let mut cases: Vec<Case> = kinds().into_iter().map(case).collect();
    let key = |at: usize| ends(&Int64, move |row| row / (at + 1), at.is_multiple_of(3));
    let mut many = grouped("so many that few are hot", (0..40).map(key).collect());
    many.limits.radix.block_bytes = 16 << 10;
    cases.push(many);
    cases[0] = cases[0].clone().declared();
    cases[3] = cases[3].clone().declared();
    cases
}

/// Sorted by partition first.
pub(crate) fn sorted() -> Vec<Case> {
    let case = |(name, keys): (&str, Vec<ArrayRef>)| {
        grouped(format!("{name}, sorted"), keys)
            .hash(64)
            .sorted(4 << 10)
    };
    kinds().into_iter().step_by(4).map(case).collect()
}

/// Few and many groups, one with half of all rows, and variances.
pub(crate) fn laws() -> Vec<Case> {
    let rows = 3000_i128;
    let spread = |row: i128| (row * 0x0123_4567_89ab_cdef) as i64;
    let of = |key: &dyn Fn(i128) -> i64| {
        let keys: Vec<_> = (0..rows).map(|row| Some(i128::from(key(row)))).collect();
        integers(&Int64, &keys)
    };
    let distinct = vec![of(&spread), of(&|row| !spread(row + 7))];
    let skew = |row: i128| {
        if row % 2 == 0 {
            i64::MIN
        } else {
            spread(row % 300)
        }
    };
    let skewed = vec![of(&skew), of(&|row| skew(row).wrapping_mul(-1))];
    let same = vec![of(&|row| spread(row % 2)), of(&|row| spread(row % 2))];
    let mut cases = Vec::new();
    for (name, keys) in [
        ("distinct", distinct),
        ("skewed", skewed),
        ("two groups", same),
    ] {
        cases.push(grouped(name, keys.clone()).hash(2));
        cases.push(
            grouped(format!("{name}, sorted"), keys)
                .hash(2)
                .sorted(2 << 10),
        );
    }
    let input = batch(vec![
        ends(&Int64, slow, true),
        ends(&Int64, fast, false),
        floats(),
    ]);
    let plan = Plan::over(&input);
    let (first, second, value) = (plan.col(0), plan.col(1), plan.col(2));
    let finite = compare(CompareOp::Eq, value.clone(), value.clone());
    let calls = vec![
        variance(AggregateFunction::VarPop, plan.col(1)),
        filtered(count(), finite),
    ];
    let pipeline = plan.group(vec![first, second], calls).build();
    cases.push(Case::new("variances", pipeline, cut(&input, &SIZES)).hash(8));
    cases
}

/// No row, one row, and as many as a tile has or one more.
pub(crate) fn sizes() -> Vec<Case> {
    let sizes = [0, 1, 1024, 1025].into_iter();
    let case = |rows: usize| {
        let keys = [1, 2].map(|seed| column(&mut random(seed), &Int64, rows, Shape::all()));
        grouped(format!("{rows} rows"), keys.to_vec())
            .of_types_only()
            .hash(4)
    };
    sizes.map(case).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    [stores(), sorted(), laws(), sizes()].concat()
}

#[test]
fn keys_of_every_kind() {
    check_all(stores());
}

#[test]
fn keys_that_are_sorted_first() {
    check_all(sorted());
}

#[test]
fn laws_of_keys() {
    check_all(laws());
}

#[test]
fn sizes_around_a_tile() {
    check_all(sizes());
}

/// Pairs of which those with equal second keys meet under a seed of zero.
fn pairs(firsts: std::ops::Range<i128>) -> RecordBatch {
    let (mut first, mut second, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..400 {
        let span = firsts.end - firsts.start;
        let at = firsts.start + row % span;
        first.push(Some(if at == 0 {
            i64::MIN.into()
        } else {
            i128::from(i64::MAX) - at
        }));
        second.push(Some(if row % 3 == 0 {
            i64::MIN.into()
        } else {
            i128::from(i64::MAX) - row % 7
        }));
        value.push((row % 5 != 0).then_some(row));
    }
    batch(
        [first, second, value]
            .map(|values| integers(&Int64, &values))
            .to_vec(),
    )
}

fn over_pairs(input: &RecordBatch) -> Plan {
    let plan = Plan::over(input);
    let calls = vec![count(), sum(plan.col(2))];
    let keys = plan.cols()[..2].to_vec();
    plan.group(keys, calls)
}

/// Folds batch by batch under a first seed, and ends on the device or on the host.
fn run(
    machine: &ShimMachine,
    pipeline: &Pipeline,
    folds: &[RecordBatch],
    key_seed: u64,
    finish: &FinishLimits,
) -> Result<Vec<RecordBatch>, RunError> {
    let options = ProgramOptions {
        key_seed,
        ..options(each_store()[2].1)
    };
    machine.run(pipeline, &options, folds.chunks(1), finish)
}

/// How often keys were looked at for having met.
fn looks(machine: &ShimMachine) -> usize {
    let asked = machine.asked.borrow().concat();
    asked
        .iter()
        .filter(|kernel| **kernel == "count_met")
        .count()
}

#[test]
fn that_meet_are_folded_again_under_another_seed() {
    let input = pairs(0..9);
    let pipeline = over_pairs(&input).build();
    let expected = sorted_rows(&interpret(&pipeline, std::slice::from_ref(&input)).unwrap());
    for finish in [on_device(), FinishLimits::default()] {
        let count = |seed| {
            let machine = ShimMachine::new(3, 1 << 30);
            let folds = std::slice::from_ref(&input);
            let found = run(&machine, &pipeline, folds, seed, &finish).unwrap();
            assert_eq!(sorted_rows(&found), expected, "seed {seed}");
            looks(&machine)
        };
        assert_eq!(count(0), count(1) + 1);
    }
}

#[test]
fn that_meet_when_it_is_too_late_are_noticed() {
    let many = pairs(0..9);
    // Keys that do not meet, and between which all others lie.
    let (low, high) = (i128::from(i64::MIN), i128::from(i64::MAX));
    let alone = [
        [low, high, low + 1, 3].map(Some),
        [low, high, 5, low + 1].map(Some),
        [Some(1), Some(2), None, Some(399)],
    ];
    let alone = alone.map(|values| integers(&Int64, &values));
    let pipeline = over_pairs(&many).build();
    let folds = [batch(alone.to_vec()), many];
    for finish in [on_device(), FinishLimits::default()] {
        let machine = ShimMachine::new(3, 1 << 30);
        let found = run(&machine, &pipeline, &folds, 0, &finish);
        let why = found.unwrap_err().to_string();
        assert!(why.contains(&Unsuited::KeysMet.to_string()), "{why}");
        let machine = ShimMachine::new(3, 1 << 30);
        let found = run(&machine, &pipeline, &folds, 1, &finish).unwrap();
        let expected = interpret(&pipeline, &folds).unwrap();
        assert_eq!(sorted_rows(&found), sorted_rows(&expected));
    }
}

#[test]
fn of_groups_that_stay_on_the_device() {
    let input = pairs(0..9);
    let grouped = over_pairs(&input);
    let few = |mut plan: Plan| {
        let least = plan.int(Int64, 7);
        let many = compare(CompareOp::GtEq, plan.col(2), least);
        plan.filter(many)
    };
    let again = {
        let plan = few(grouped.clone());
        let calls = vec![count(), sum(plan.col(3)), min(plan.col(0))];
        plan.clone().group(vec![plan.col(1), plan.col(2)], calls)
    };
    let mut first = few(grouped.clone());
    let keys = [(0, true), (1, false)].map(|(column, descending)| SortKey {
        expr: first.col(column),
        descending,
        nulls_first: true,
    });
    first.push(Step::Sort(Sort {
        keys: keys.to_vec(),
        fetch: Some(5),
    }));
    let money = batch(vec![
        ends(&Decimal128(38, 2), slow, true),
        ends(&Int64, fast, true),
        integers(&Int64, &(0..ROWS as i128).map(Some).collect::<Vec<_>>()),
    ]);
    let by_money = {
        let plan = over_pairs(&money);
        let calls = vec![count(), sum(plan.col(2)), max(plan.col(1))];
        plan.clone().group(vec![plan.col(0), plan.col(3)], calls)
    };
    let over = [input.clone(), input.clone(), input.clone(), money];
    let plans = [
        ("having", few(grouped)),
        ("again", again),
        ("first", first),
        ("money", by_money),
    ];
    for ((name, plan), input) in plans.into_iter().zip(&over) {
        let pipeline = plan.build();
        let folds = std::slice::from_ref(input);
        let expected = sorted_rows(&interpret(&pipeline, folds).unwrap());
        let machine = ShimMachine::new(4, 1 << 30);
        let found = run(&machine, &pipeline, folds, 1, &on_device()).unwrap();
        assert_eq!(sorted_rows(&found), expected, "{name}");
        let asked = machine.asked.borrow().concat();
        assert!(asked.contains(&"finish"), "{name}: {asked:?}");
    }
}

#[test]
fn of_several_tables() {
    let input = pairs(0..9);
    let plan = Plan::over(&input);
    let keys = vec![plan.col(0), plan.col(1)];
    let calls = vec![sum(plan.col(2)), count()];
    let states = plan.partial(keys, calls).build();
    let folds = cut(&input, &[100, 100, 100]);
    for finish in [on_device(), FinishLimits::default()] {
        let parts = leaving(&states, &folds, each_store()[2].1, &finish, 150);
        let merged = |states: &[RecordBatch]| {
            let plan = Plan::over(&states[0]);
            let calls = vec![sum(plan.col(2)), sum(plan.col(3))];
            let merge = plan.clone().group(plan.cols()[..2].to_vec(), calls).build();
            sorted_rows(&interpret(&merge, states).unwrap())
        };
        let expected = interpret(&states, std::slice::from_ref(&input)).unwrap();
        assert_eq!(merged(&parts), merged(&expected));
    }
}
