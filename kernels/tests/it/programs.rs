//! The row programs of every case, interpreted: they give what the reference interpreter gives.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use tidegate_kernels::groups::output_schema;
use tidegate_kernels::program::first_aggregate;
use tidegate_pipeline::program::{Facts, interpret, lower, verify};

use crate::cells::rows_of;
use crate::check::Case;
use crate::reference::Reference;
use crate::{
    aggregates, conversions, customs, encodings, errors, expressions, extremes, keys, random, rows,
    shifts, variances, wide,
};

/// Interprets the programs of the first stage, made from what the types say or from what the input has.
fn check(case: &Case, are_seen: bool, reference: &Reference) -> Result<(), String> {
    let pipeline = &case.pipeline;
    let facts = |column: usize| {
        let data_type = pipeline.input.field(column).data_type();
        let arrays = case.batches.iter().map(|batch| batch.column(column));
        match are_seen {
            true => Facts::seen(data_type, arrays.map(|array| array as &dyn Array)).unwrap(),
            false => Facts::declared(data_type),
        }
    };
    let stages = lower(pipeline, &facts).map_err(|why| why.to_string())?;
    let broken: Vec<String> = stages.iter().flat_map(verify).collect();
    if !broken.is_empty() {
        return Err(broken.join("; "));
    }
    let (stages, output) = match first_aggregate(pipeline) {
        Some(aggregate) => (&stages[..1], output_schema(aggregate)),
        None => (stages.as_slice(), Arc::clone(&pipeline.output)),
    };
    let found = interpret::run(stages, &case.batches, &output);
    let shown = |what: String| {
        let stages: Vec<String> = stages.iter().map(ToString::to_string).collect();
        format!("{what}\n{}", stages.join("\n"))
    };
    match (&reference.rows, found) {
        (Ok(_), Ok(found)) => reference.compare(&rows_of(&found)).map_err(shown),
        (Err(expected), Err(found)) => {
            let is_same = std::mem::discriminant(expected) == std::mem::discriminant(&found);
            let what = || shown(format!("{found} instead of {expected}"));
            is_same.then_some(()).ok_or_else(what)
        }
        (Err(expected), Ok(_)) => Err(shown(format!("no error instead of {expected}"))),
        (Ok(_), Err(found)) => Err(shown(format!("{found}, and no error was expected"))),
    }
}

fn check_all(cases: Vec<Case>) {
    for case in cases {
        let num_rows: usize = case.batches.iter().map(RecordBatch::num_rows).sum();
        // Whoever has more rows is about stores.
        if num_rows > 20_000 {
            continue;
        }
        let reference = Reference::of(&case);
        for are_seen in [false, true] {
            if let Err(why) = check(&case, are_seen, &reference) {
                panic!("{} (seen: {are_seen}): {}\n{why}", case.name, case.pipeline);
            }
        }
    }
}

#[test]
fn programs_of_expressions() {
    check_all([expressions::cases(), conversions::cases(), shifts::cases()].concat());
}

#[test]
fn programs_of_groups() {
    check_all([aggregates::cases(), keys::cases(), wide::cases()].concat());
    check_all([extremes::cases(), variances::cases()].concat());
}

#[test]
fn programs_of_what_raises_and_of_rows() {
    check_all(
        [
            errors::cases(),
            rows::cases(),
            encodings::cases(),
            customs::cases(),
        ]
        .concat(),
    );
}

#[test]
fn programs_of_the_random_cases() {
    check_all(random::cases());
}
