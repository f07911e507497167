//! Every case on the host's block backend, held against the interpreter: plain arrays as they are, and the
//! same columns as codes of dictionaries, raw values above a base, and both within one group of rows.

mod mostly;
mod recoded;
mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use tidegate_kernels::groups::output_schema;
use tidegate_kernels::host::{
    ArrowBlocks, Declined, GroupValues, HostProgram, HostRun, Merge, PARTITIONS, Selected,
};
use tidegate_kernels::program::first_aggregate;
use tidegate_pipeline::{AggregateOutput, Facts, Pipeline, Step};

use crate::cells::rows_of;
use crate::check::Case;
use crate::reference::Reference;
use crate::{
    aggregates, conversions, customs, encodings, errors, expressions, extremes, keys, random, rows,
    shifts, variances, wide,
};
use recoded::Recoded;

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Arrays as they are, and what the types say.
    Declared,
    /// Arrays as they are, and what holds of them.
    Seen,
    /// Other encodings of the same values.
    Recoded(u64),
}

const WAYS: [Way; 5] = [
    Way::Declared,
    Way::Seen,
    Way::Recoded(0),
    Way::Recoded(1),
    Way::Recoded(2),
];

/// Returns a pipeline up to and with its first aggregate.
fn upto(pipeline: &Pipeline) -> Pipeline {
    let Some(aggregate) = first_aggregate(pipeline) else {
        return pipeline.clone();
    };
    let is_aggregate = |step: &Step| matches!(step, Step::Aggregate(_));
    let last = pipeline.steps.iter().position(is_aggregate).unwrap();
    Pipeline {
        steps: pipeline.steps[..=last].to_vec(),
        output: output_schema(aggregate),
        ..pipeline.clone()
    }
}

fn facts_of(case: &Case, column: usize, are_seen: bool) -> Facts {
    let data_type = case.pipeline.input.field(column).data_type();
    let arrays = case.batches.iter().map(|batch| batch.column(column));
    match are_seen {
        true => Facts::seen(data_type, arrays.map(|array| array as &dyn Array)).unwrap(),
        false => Facts::declared(data_type),
    }
}

/// Folds a batch, and holds what rules it out against what is selected.
fn fold(run: &mut HostRun, way: Way, batch: &RecordBatch) -> Result<(), Declined> {
    let program = Arc::clone(run.program());
    if let Way::Recoded(seed) = way {
        let group = Recoded::new(&program, batch, seed);
        run.begin(&group.entries(), batch.num_rows())?;
        let is_ruled_out = run.is_ruled_out() && group.is_coded();
        for at in 0..group.num_blocks() {
            let (rows, chunks) = group.block(at);
            // Inputs that the selection does not read are not there yet.
            let filters = program.inputs().iter().zip(&chunks);
            let first: Vec<_> = filters
                .map(|(input, chunk)| input.filters.then_some(*chunk))
                .collect();
            let all: Vec<_> = chunks.into_iter().map(Some).collect();
            if let Selected::Some(selected) = run.select(rows, &first)? {
                assert!(
                    selected <= rows && !is_ruled_out,
                    "{selected} of {rows} rows"
                );
                run.fold(rows, &all)?;
            }
        }
        return Ok(());
    }
    let mut blocks = ArrowBlocks::new(&program, batch)?;
    run.begin(&blocks.entries(), blocks.num_rows())?;
    while let Some((rows, chunks)) = blocks.next_block() {
        if run.select(rows, &chunks)? != Selected::None {
            run.fold(rows, &chunks)?;
        }
    }
    Ok(())
}

fn run(
    program: &Arc<HostProgram>,
    way: Way,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, Declined> {
    let mut run = program.run();
    let mut found = Vec::new();
    for batch in batches {
        fold(&mut run, way, batch)?;
        found.extend(run.rows(700, false)?);
    }
    found.extend(run.rows(700, true)?);
    if program.pipeline().aggregates() {
        let num_groups = run.num_groups();
        found.extend(run.take(1_000)?);
        let rows: usize = found.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, num_groups);
        // Nothing is left, and the run goes on.
        let left: usize = run.take(10)?.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(left, run.num_groups());
    }
    assert!(found.iter().all(|batch| batch.schema() == program.output()));
    Ok(found)
}

/// Returns the groups of a case out of records that two runs made, one of rows and one of groups; values that
/// leave are made of states. `None` if groups are no records.
fn through_records(
    pipeline: &Pipeline,
    facts: &dyn Fn(usize) -> Facts,
    way: Way,
    batches: &[RecordBatch],
) -> Result<Option<Vec<RecordBatch>>, Declined> {
    let mut states = pipeline.clone();
    let values = match states.steps.last_mut() {
        Some(Step::Aggregate(aggregate)) if !aggregate.keys.is_empty() => {
            let was = std::mem::replace(&mut aggregate.output, AggregateOutput::State);
            states.output = output_schema(aggregate);
            was == AggregateOutput::Value
        }
        _ => return Ok(None),
    };
    let program = Arc::new(HostProgram::new(&states, facts).unwrap());
    let values = values.then(|| GroupValues::new(&program, pipeline.output.clone()).unwrap());
    let strings = program.shared_strings();
    let mut runs = [program.run(), program.run()];
    for (place, batch) in batches.iter().enumerate() {
        let [rows, groups] = &mut runs;
        fold(groups, way, &batch.slice(0, batch.num_rows() / 3))?;
        if place == 0
            && !(rows.start_records(&strings, true) && groups.start_records(&strings, false))
        {
            return Ok(None);
        }
        let third = batch.num_rows() / 3;
        fold(rows, way, &batch.slice(third, batch.num_rows() - third))?;
        if place % 2 == 0 {
            groups.record_groups()?;
        }
    }
    let mut parts = Vec::new();
    for run in &mut runs {
        if run.start_records(&strings, true) {
            run.record_groups()?;
        }
        assert_eq!(run.num_groups(), 0);
        parts.push(run.take_records().unwrap().into_iter());
    }
    let mut merge = Merge::new(&program, &strings)?;
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        for part in &mut parts {
            let mut records = part.next().unwrap();
            while merge.add_some(&mut records)? {}
            assert_eq!(records.memory_bytes(), 0);
        }
        // Several partitions at a time are as good as one.
        if partition % 5 == 0 || partition + 1 == PARTITIONS {
            found.extend(merge.batches(values.as_ref(), 900)?);
            merge.restart();
        }
    }
    assert!(found.iter().all(|batch| batch.schema() == pipeline.output));
    Ok(Some(found))
}

/// Returns why the host does not run a case, if it does not.
fn check(case: &Case, way: Way, reference: &Reference) -> Result<Option<String>, String> {
    let pipeline = upto(&case.pipeline);
    let facts = |column: usize| facts_of(case, column, way != Way::Declared);
    let program = match HostProgram::new(&pipeline, &facts) {
        Ok(program) => Arc::new(program),
        Err(refusal) => return Ok(Some(refusal.what)),
    };
    let shown = |what: String| format!("{what}\n{}", program.program());
    match (&reference.rows, run(&program, way, &case.batches)) {
        (Ok(_), Ok(found)) => reference.compare(&rows_of(&found)).map_err(shown)?,
        (Err(_), Err(Declined::Raises)) => {}
        (Err(expected), found) => {
            let found = found.map(|_| "rows".to_owned());
            let found = found.unwrap_or_else(|declined| declined.to_string());
            return Err(shown(format!("{found} instead of {expected}")));
        }
        (Ok(_), Err(declined)) => return Err(shown(format!("{declined}, instead of rows"))),
    }
    if reference.rows.is_ok() {
        let found = through_records(&pipeline, &facts, way, &case.batches);
        let found = found.map_err(|declined| shown(format!("{declined}, instead of records")))?;
        if let Some(found) = found {
            let compared = reference.compare(&rows_of(&found));
            compared.map_err(|why| shown(format!("through records: {why}")))?;
        }
    }
    Ok(None)
}

/// Runs cases every way, and returns how often each refusal came.
fn check_all(cases: Vec<Case>) -> BTreeMap<String, usize> {
    let mut refused = BTreeMap::new();
    let (mut run, mut failed) = (0, Vec::new());
    for case in cases {
        let reference = Reference::of(&case);
        for way in WAYS {
            match check(&case, way, &reference) {
                Ok(None) => run += 1,
                Ok(Some(why)) => *refused.entry(why).or_insert(0) += 1,
                Err(why) => {
                    failed.push(format!("{} ({way:?}): {}\n{why}", case.name, case.pipeline))
                }
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{}: {}",
        failed.len(),
        failed.join("\n\n")
    );
    assert!(run > 0, "{refused:?}");
    refused
}

/// Refuses to pass if the host refused anything but these.
fn only(refused: BTreeMap<String, usize>, known: &[&str]) {
    for (why, times) in refused {
        let is_known = known.iter().any(|known| why.contains(known));
        assert!(is_known, "{times} times {why}");
    }
}

#[test]
fn host_expressions() {
    only(check_all(expressions::cases()), &[]);
}

#[test]
fn host_conversions_and_shifts() {
    only(
        check_all([conversions::cases(), shifts::cases()].concat()),
        &[],
    );
}

#[test]
fn host_groups() {
    let co_moments = "a sum of products of distances";
    only(check_all(aggregates::cases()), &[co_moments]);
    only(check_all([keys::cases(), wide::cases()].concat()), &[]);
}

#[test]
fn host_groups_of_most_rows() {
    only(check_all(mostly::cases()), &[]);
}

#[test]
fn host_extremes_and_variances() {
    only(
        check_all([extremes::cases(), variances::cases()].concat()),
        &[],
    );
}

#[test]
fn host_errors_rows_and_encodings() {
    let cases = [errors::cases(), rows::cases(), encodings::cases()];
    only(check_all(cases.concat()), &[]);
}

#[test]
fn host_refuses_functions_of_users() {
    let mut refused = BTreeMap::new();
    for case in customs::cases() {
        let facts = |column: usize| facts_of(&case, column, false);
        let refusal = HostProgram::new(&upto(&case.pipeline), &facts).err();
        *refused
            .entry(refusal.map(|refusal| refusal.what))
            .or_insert(0) += 1;
    }
    let names = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains("user"));
    assert!(refused.keys().all(names), "{refused:?}");
}

#[test]
fn host_random_cases() {
    only(check_all(random::cases()), &[]);
}
