//! More groups than a cache has room for: they become records while rows are folded, and, where they have
//! few rows each, rows do from then on. What comes out is what a run without records gives.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType::{Int64, Utf8};
use tidegate_kernels::host::{HostProgram, HostRun, Merge};
use tidegate_pipeline::{AggregateCall, Expr, Facts, Pipeline};

use super::{Way, fold};
use crate::cells::{compare_groups, rows_of};
use crate::data::{Shape, batch, column, cut, integers, random, strings_as};
use crate::plan::{Plan, avg, count, max, min, sum};

const ROWS: usize = 120_000;

/// Folds batches, with records or without, and returns the states of all groups.
fn states(program: &Arc<HostProgram>, batches: &[RecordBatch], records: bool) -> Vec<RecordBatch> {
    let strings = program.shared_strings();
    let mut run: HostRun = program.run();
    for batch in batches {
        assert!(!records || run.start_records(&strings, false));
        fold(&mut run, Way::Declared, batch).unwrap();
    }
    if !records {
        return run.take(8_192).unwrap();
    }
    assert!(run.num_groups() < 1 << 16, "{} groups", run.num_groups());
    run.record_groups().unwrap();
    let mut merge = Merge::new(program, &strings).unwrap();
    let mut found = Vec::new();
    for mut partition in run.take_records().unwrap() {
        while merge.add_some(&mut partition).unwrap() {}
        found.extend(merge.batches(None, 100).unwrap());
        merge.restart();
    }
    // The run goes on without records.
    assert!(run.take_records().is_none() && run.take(10).unwrap().is_empty());
    found
}

fn check(pipeline: &Pipeline, batches: &[RecordBatch], num_keys: usize, num_groups: usize) {
    let facts = |column: usize| Facts::declared(pipeline.input.field(column).data_type());
    let program = Arc::new(HostProgram::new(pipeline, &facts).unwrap());
    let wanted = rows_of(&states(&program, batches, false));
    let found = rows_of(&states(&program, batches, true));
    assert_eq!(found.len(), num_groups);
    compare_groups(&wanted, &found, num_keys, &|_, _| None).unwrap();
}

#[test]
fn host_groups_beyond_a_cache_become_records() {
    // As many groups as rows; four rows for each, side by side; and one half of all rows in one group.
    type Key = fn(usize) -> usize;
    let keys: [(Key, usize); 3] = [
        (|row| row * 7_919 % ROWS, ROWS),
        (|row| row / 3, ROWS / 3),
        (|row| if row % 2 == 0 { 1 } else { row }, ROWS / 2),
    ];
    for (key, num_groups) in keys {
        let number = (0..ROWS).map(|row| Some(key(row) as i128));
        let words: Vec<String> = (0..ROWS)
            .map(|row| format!("word {} of a longer text", key(row) % 700))
            .collect();
        let words: Vec<Option<&str>> = words
            .iter()
            .map(|word| (!word.contains("13")).then_some(word.as_str()))
            .collect();
        let number = integers(&Int64, &number.collect::<Vec<_>>());
        let values = column(
            &mut random(7),
            &Int64,
            ROWS,
            Shape::within(-900, 900).nulls(9),
        );
        let input = batch(vec![number, strings_as(&Utf8, &words), values]);
        let batches = cut(&input, &[50_000, 1, 69_999]);
        let calls = |value: Expr| {
            let same = |call: fn(Expr) -> AggregateCall| call(value.clone());
            vec![count(), same(sum), same(min), same(max), same(avg)]
        };
        let plan = Plan::over(&input);
        let (number, word, value) = (plan.col(0), plan.col(1), plan.col(2));
        let pipeline = plan.partial(vec![number.clone()], calls(value.clone()));
        check(&pipeline.build(), &batches, 1, num_groups);
        let pipeline = Plan::over(&input).partial(vec![word, number], calls(value));
        check(&pipeline.build(), &batches, 2, num_groups);
    }
}

#[test]
fn host_extremes_of_strings_are_no_records() {
    let words = strings_as(&Utf8, &[Some("a"), None]);
    let input = batch(vec![integers(&Int64, &[Some(1), Some(2)]), words]);
    let plan = Plan::over(&input);
    let (key, word) = (plan.col(0), plan.col(1));
    let pipeline = plan.partial(vec![key], vec![max(word)]).build();
    let facts = |column: usize| Facts::declared(pipeline.input.field(column).data_type());
    let program = Arc::new(HostProgram::new(&pipeline, &facts).unwrap());
    assert!(!program.run().start_records(&program.shared_strings(), true));
}
