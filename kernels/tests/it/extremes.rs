//! The first and last strings of groups: dictionaries that grow from fold to fold, every layout of
//! strings, NULLs, groups without a string, groups of several tables.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field};
use rand::Rng;
use tidegate_kernels::program::{STATE_ROWS_MAX, StoreLimits};
use tidegate_pipeline::{AggregateCall, AggregateFunction, CompareOp, Expr, Pipeline};

use crate::cells::{Cell, sorted_rows};
use crate::check::{Case, each_store};
use crate::data::{batch, cut, integers, random, strings_as};
use crate::parts::{leaving, on_device};
use crate::plan::{Plan, compare, count, filtered, sum};
use crate::reference::interpret;

const ROWS: usize = 700;

fn layouts() -> [DataType; 4] {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary,
    ]
}

/// A key, strings of which new ones come to the end, and a number. One group has no string, and the
/// first and last of others come late.
fn input(data_type: &DataType, num_keys: i128) -> RecordBatch {
    let mut random = random(81);
    let mut keys = Vec::new();
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for row in 0..ROWS {
        let key = random.random_range(0..num_keys);
        keys.push((row % 31 != 0).then_some(key * 1_000_003));
        numbers.push((row % 7 != 0).then_some(random.random_range(-100..100)));
        let place = random.random_range(0..=row / 4);
        let text = match place % 5 {
            0 => String::new(),
            1 => format!("é{place}"),
            2 => "z".repeat(place % 40),
            3 => format!("Z{place:03}"),
            _ => format!("{}", 900 - place),
        };
        texts.push((key != 1 && row % 11 != 0).then_some(text));
    }
    let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
    batch(vec![
        integers(&DataType::Int64, &keys),
        strings_as(data_type, &texts),
        integers(&DataType::Int64, &numbers),
    ])
}

fn extreme(function: AggregateFunction, expr: Expr) -> AggregateCall {
    let data_type = match &expr.data_type {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    let state = vec![Field::new("s", data_type.clone(), true)];
    AggregateCall::new(function, Some(expr), None, data_type, state, "v").unwrap()
}

fn pipeline(input: &RecordBatch, keyed: bool, partial: bool) -> Pipeline {
    use AggregateFunction::{Max, Min};

    let mut plan = Plan::over(input);
    let zero = plan.int(DataType::Int64, 0);
    let text = || plan.col(1);
    let below = compare(CompareOp::Lt, plan.col(2), zero);
    let start = Expr::substring(text(), 1, Some(2), text().data_type);
    let mut calls = vec![
        extreme(Min, text()),
        sum(plan.col(2)),
        extreme(Max, text()),
        filtered(extreme(Max, text()), below),
        count(),
    ];
    if let Ok(start) = start {
        calls.push(extreme(Min, start));
    }
    let keys = if keyed { vec![plan.col(0)] } else { vec![] };
    match partial {
        true => plan.partial(keys, calls).build(),
        false => plan.group(keys, calls).build(),
    }
}

/// Runs a pipeline with tables of at most so many rows, a fold for each batch.
fn run(
    pipeline: &Pipeline,
    folds: &[RecordBatch],
    limits: StoreLimits,
    state_rows: u64,
) -> Vec<Vec<Cell>> {
    // The device is asked to finish the groups, and leaves these to the host.
    sorted_rows(&leaving(pipeline, folds, limits, &on_device(), state_rows))
}

fn check(name: &str, pipeline: &Pipeline, input: &RecordBatch) {
    let expected = sorted_rows(&interpret(pipeline, std::slice::from_ref(input)).unwrap());
    for (store, limits) in each_store() {
        for (sizes, state_rows) in [(vec![300, 1, 200], STATE_ROWS_MAX), (vec![240], 250)] {
            let folds = cut(input, &sizes);
            let rows = run(pipeline, &folds, limits, state_rows);
            assert_eq!(expected, rows, "{name}, store {store}, folds of {sizes:?}");
        }
    }
}

#[test]
fn of_every_layout() {
    for data_type in layouts() {
        let input = input(&data_type, 9);
        let pipeline = pipeline(&input, true, false);
        let expected = sorted_rows(&interpret(&pipeline, std::slice::from_ref(&input)).unwrap());
        let rows = run(&pipeline, &[input], each_store()[0].1, STATE_ROWS_MAX);
        assert_eq!(expected, rows, "{data_type}");
    }
}

#[test]
fn of_one_group_and_of_many() {
    let one = input(&DataType::Utf8View, 9);
    check("one group", &pipeline(&one, false, false), &one);
    let many = input(&DataType::Utf8, 300);
    check("many groups", &pipeline(&many, true, false), &many);
}

/// Merges states by their key, as a final aggregate does.
fn merged(states: &[RecordBatch]) -> Vec<Vec<Cell>> {
    use AggregateFunction::{Max, Min};

    let plan = Plan::over(&states[0]);
    let calls = vec![
        extreme(Min, plan.col(1)),
        sum(plan.col(2)),
        extreme(Max, plan.col(3)),
        extreme(Max, plan.col(4)),
        sum(plan.col(5)),
        extreme(Min, plan.col(6)),
    ];
    let keys = vec![plan.col(0)];
    let merge = plan.group(keys, calls).build();
    sorted_rows(&interpret(&merge, states).unwrap())
}

#[test]
fn partial_states() {
    let input = input(&DataType::Utf8, 9);
    let pipeline = pipeline(&input, true, true);
    let expected = interpret(&pipeline, std::slice::from_ref(&input)).unwrap();
    // New strings make another table, whose groups leave by themselves.
    for sizes in [&[ROWS][..], &[250]] {
        let folds = cut(&input, sizes);
        let limits = each_store()[2].1;
        let states = leaving(&pipeline, &folds, limits, &on_device(), STATE_ROWS_MAX);
        assert_eq!(merged(&states), merged(&expected), "folds of {sizes:?}");
    }
}

#[test]
fn no_string_and_no_row() {
    let none: Vec<Option<&str>> = vec![None; 40];
    let keys: Vec<Option<i128>> = (0..40).map(|row| Some(row % 3)).collect();
    let numbers = integers(&DataType::Int64, &keys);
    let nulls = batch(vec![
        Arc::clone(&numbers),
        strings_as(&DataType::Utf8, &none),
        numbers,
    ]);
    for keyed in [false, true] {
        let pipeline = pipeline(&nulls, keyed, false);
        for input in [nulls.clone(), nulls.slice(0, 1), nulls.slice(0, 0)] {
            let expected =
                sorted_rows(&interpret(&pipeline, std::slice::from_ref(&input)).unwrap());
            let rows = run(&pipeline, &[input], each_store()[0].1, STATE_ROWS_MAX);
            assert_eq!(expected, rows, "keyed {keyed}");
        }
    }
}

/// What is compiled for GPUs.
pub(crate) fn cases() -> Vec<Case> {
    let input = input(&DataType::Utf8, 9);
    let of = |keyed: bool| {
        let pipeline = pipeline(&input, keyed, false);
        Case::new(
            format!("strings, keyed {keyed}"),
            pipeline,
            vec![input.clone()],
        )
    };
    let (one, few) = (of(false), of(true));
    let (dense, hash) = (few.clone().dense(), few.clone().hash(1 << 10));
    vec![one, few, dense, hash]
}
