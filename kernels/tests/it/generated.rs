//! Arrays that a kernel makes from positions, held against those that the host makes: the groups of
//! every pipeline are the interpreter's over the host's rows, the values themselves bit for bit.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use tidegate_kernels::GeneratedRun;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::generated::column_of;
use tidegate_kernels::groups::{Groups, fill_float_scales, output_schema};
use tidegate_kernels::program::{
    DeviceProgram, Generated, GeneratedColumn, ProgramOptions, Sink, SlotFacts, StoreLimits,
    first_aggregate, generate, roots_kernel, values_kernel,
};
use tidegate_kernels::random::{Array, Part, Span, Values};
use tidegate_kernels::table::GroupTable;
use tidegate_pipeline::{CompareOp, Interpreter, Pipeline};

use crate::cells::{compare_groups, rows_of, sorted_rows};
use crate::plan::{Plan, add, cast, compare, count, max, min, sum};
use crate::reference::interpret;
use crate::shim::{Kernels, ShimEngine, ShimMachine, now, options};

const NORMAL: Values = Values::Normal {
    location: 10.0,
    scale: 1.0,
};
const UNIFORM: Values = Values::Uniform {
    low: -1.0,
    width: 3.0,
};
const DICE: Values = Values::Integers { low: 1, count: 6 };
const SERIES: Values = Values::Series { start: -7, step: 3 };

fn array(shape: &[u64], values: Values) -> Array {
    Array::try_new(shape.to_vec(), values, 42 | 7 << 40).unwrap()
}

/// Arrays of every kind of values, reals in doubles and in singles.
fn every_kind(shape: &[u64]) -> Vec<Array> {
    let all = [NORMAL, UNIFORM, DICE, SERIES, Values::Constant(1.25)];
    let doubles = all.map(|values| array(shape, values));
    let singles =
        [NORMAL, UNIFORM, Values::Constant(1.1)].map(|values| array(shape, values).in_singles());
    doubles.into_iter().chain(singles).collect()
}

fn part(spans: &[(u64, u64, u64)]) -> Part {
    let span = |(start, step, count): &(u64, u64, u64)| Span {
        start: *start,
        step: *step,
        count: *count,
    };
    Part {
        spans: spans.iter().map(span).collect(),
    }
}

/// Returns the rows of a part as the host makes them: a column for each index, and the values.
fn rows(array: &Array, part: &Part) -> RecordBatch {
    let num_rows = part.num_values() as usize;
    let num_dimensions = array.shape().len();
    let columns = (0..=num_dimensions).map(|column| GeneratedColumn::of(array, column));
    let columns = columns.map(|column| column_of(array, part, column, 0, num_rows));
    let columns: Vec<ArrayRef> = columns.collect();
    let fields = columns.iter().enumerate();
    let fields = fields
        .map(|(index, column)| Field::new(format!("c{index}"), column.data_type().clone(), false));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Returns the source of a kernel over the columns that [`rows`] gives.
fn source(array: &Array, step: u64, parts: &[Part]) -> Arc<Generated> {
    let columns = (0..=array.shape().len()).map(|column| GeneratedColumn::of(array, column));
    let columns = columns.collect();
    Arc::new(Generated::new(array.clone(), columns, step, parts))
}

fn program_of(pipeline: &Pipeline, source: &Arc<Generated>, threads: u32) -> DeviceProgram {
    let options = ProgramOptions {
        threads,
        generated: Some(Arc::clone(source)),
        ..ProgramOptions::default()
    };
    let facts = |slot: &_| SlotFacts {
        nullable: true,
        ..source.facts(slot)
    };
    let mut program = generate(pipeline, &facts, &options).unwrap();
    if let Sink::Groups(plan) = &program.sink {
        fill_float_scales(plan, &mut program.literals);
    }
    program
}

/// Folds parts on the shim and holds the groups against the interpreter's.
fn check(pipeline: &Pipeline, array: &Array, parts: &[Part], step: u64) {
    let source = source(array, step, parts);
    let aggregate = first_aggregate(pipeline).unwrap();
    let batches: Vec<RecordBatch> = parts.iter().map(|part| rows(array, part)).collect();
    let mut interpreter = Interpreter::new(Arc::new(pipeline.clone())).unwrap();
    for batch in &batches {
        interpreter.fold(batch).unwrap();
    }
    let expected = rows_of(&interpreter.finish().unwrap());
    for threads in [64] {
        let program = program_of(pipeline, &source, threads);
        let Sink::Groups(plan) = &program.sink else {
            panic!("no groups");
        };
        let kernels = Kernels::compile(&program);
        for seed in 0..2 {
            let engine = ShimEngine::new(&kernels, seed);
            let mut table = GroupTable::new(&engine, &program, plan, None).unwrap();
            let segments = source
                .segments(&program.slots, program.tile_rows, parts)
                .unwrap();
            table.fold(&engine, &program, &segments).unwrap();
            let groups = Groups::merged(vec![table.read(&engine).unwrap()]);
            let none = vec![None; plan.keys.len()];
            let batch = groups.to_batch(&program.finishes, &none, &output_schema(aggregate));
            let found = rows_of(&[batch.unwrap()]);
            let within = |_: usize, column: usize| {
                let call = column.checked_sub(plan.keys.len())?;
                let is_sum = matches!(
                    aggregate.calls[call].function,
                    tidegate_pipeline::AggregateFunction::Sum
                );
                let is_float = aggregate.calls[call].data_type == DataType::Float64;
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                (is_sum && is_float).then_some(256.0 * f64::EPSILON * 20.0 * rows as f64)
            };
            compare_groups(&expected, &found, plan.keys.len(), &within)
                .unwrap_or_else(|why| panic!("{array:?} {parts:?} {threads} threads: {why}"));
        }
    }
}

/// sum(value + 1), count(*), min(value), max(value)
fn totals(array: &Array) -> Pipeline {
    let empty = rows(array, &part(&vec![(0, 1, 0); array.shape().len()]));
    let mut plan = Plan::over(&empty);
    let value = array.shape().len();
    let data_type = plan.types()[value].clone();
    let one = plan.int(data_type.clone(), 1);
    let mut more = add(plan.col(value), one);
    if data_type == DataType::Float32 {
        // As the planner does.
        more = cast(more, DataType::Float64);
    }
    let calls = vec![
        sum(more),
        count(),
        min(plan.col(value)),
        max(plan.col(value)),
    ];
    plan.group(vec![], calls).build()
}

/// The same values by an index, which with one dimension gives each value by itself.
fn by_index(array: &Array, dimension: usize) -> Pipeline {
    let empty = rows(array, &part(&vec![(0, 1, 0); array.shape().len()]));
    let plan = Plan::over(&empty);
    let value = array.shape().len();
    let calls = vec![max(plan.col(value)), min(plan.col(value)), count()];
    let key = plan.col(dimension);
    plan.group(vec![key], calls).build()
}

#[test]
fn every_value_has_the_same_bits() {
    for array in every_kind(&[20_000]) {
        let pipeline = by_index(&array, 0);
        check(&pipeline, &array, &[array.whole()], 1);
        check(
            &pipeline,
            &array,
            &[part(&[(37, 1, 1000)]), part(&[(5001, 1, 63)])],
            1,
        );
        for step in [2, 4, 32, 3, 64, 1000] {
            let count = 19_950 / step;
            check(&pipeline, &array, &[part(&[(33, step, count)])], step);
        }
    }
}

#[test]
fn parts_of_many_dimensions() {
    for (values, singles) in [(NORMAL, false), (NORMAL, true), (SERIES, false)] {
        let array = |shape: &[u64]| match singles {
            true => array(shape, values).in_singles(),
            false => array(shape, values),
        };
        let plane = array(&[300, 1007]);
        check(&totals(&plane), &plane, &[plane.whole()], 1);
        // Chunks that do not divide, and slices of them.
        let chunks: Vec<Part> = [(0, 200), (200, 100)]
            .iter()
            .flat_map(|rows| {
                [(0, 500), (500, 507)]
                    .map(|columns| part(&[(rows.0, 1, rows.1), (columns.0, 1, columns.1)]))
            })
            .collect();
        check(&totals(&plane), &plane, &chunks, 1);
        for dimension in 0..2 {
            check(&by_index(&plane, dimension), &plane, &chunks, 1);
            let slice = part(&[(1, 3, 90), (7, 2, 499)]);
            check(&by_index(&plane, dimension), &plane, &[slice], 2);
            let slice = part(&[(1, 2, 150), (1006, 5, 1)]);
            check(&by_index(&plane, dimension), &plane, &[slice], 5);
        }
        let cube = array(&[7, 30, 70]);
        check(&totals(&cube), &cube, &[cube.whole()], 1);
        for dimension in 0..3 {
            check(&by_index(&cube, dimension), &cube, &[cube.whole()], 1);
            let slice = part(&[(2, 2, 2), (0, 7, 4), (3, 3, 20)]);
            check(&by_index(&cube, dimension), &cube, &[slice], 3);
        }
    }
}

#[test]
fn short_runs() {
    for array in every_kind(&[500, 3]) {
        let source = source(&array, 1, &[array.whole()]);
        assert!(source.short_runs);
        check(&by_index(&array, 1), &array, &[array.whole()], 1);
        check(
            &by_index(&array, 0),
            &array,
            &[part(&[(3, 2, 100), (1, 1, 2)])],
            1,
        );
        check(
            &by_index(&array, 0),
            &array,
            &[part(&[(0, 7, 71), (2, 1, 1)])],
            1,
        );
    }
    let long = array(&[500, 3], NORMAL);
    let values = Generated::new(
        long.clone(),
        vec![GeneratedColumn::Value],
        1,
        &[long.whole()],
    );
    assert!(
        !values.short_runs,
        "rows join up where no index is asked for"
    );
}

#[test]
fn filters_on_indices_and_values() {
    let array = array(&[200, 333], NORMAL);
    let empty = rows(&array, &part(&[(0, 1, 0), (0, 1, 0)]));
    let mut plan = Plan::over(&empty);
    let (limit, row) = (plan.float(10.5), plan.int(DataType::Int64, 17));
    let (value, index) = (plan.col(2), plan.col(0));
    let plan = plan
        .filter(compare(CompareOp::Gt, value, limit))
        .filter(compare(CompareOp::GtEq, index, row));
    let calls = vec![
        count(),
        min(plan.col(2)),
        sum(plan.col(1)),
        sum(plan.col(0)),
    ];
    check(
        &plan.group(vec![], calls).build(),
        &array,
        &[array.whole()],
        1,
    );
}

/// What bounds a group's rows is the product of the dimensions that it is not told by.
#[test]
fn groups_of_indices_are_small() {
    let cube = array(&[7, 30, 70], NORMAL);
    let source = source(&cube, 1, &[]);
    let plan = Plan::over(&rows(&cube, &part(&[(0, 1, 0); 3])));
    let rows_max = |plan: Plan, keys: &[usize]| {
        let keys = keys.iter().map(|key| plan.col(*key)).collect();
        source.group_rows_max(&plan.group(keys, vec![count()]).build())
    };
    assert_eq!(rows_max(plan.clone(), &[]), None);
    assert_eq!(rows_max(plan.clone(), &[3]), None);
    assert_eq!(rows_max(plan.clone(), &[1]), Some(490));
    assert_eq!(rows_max(plan.clone(), &[3, 0, 0]), Some(2100));
    assert_eq!(rows_max(plan.clone(), &[0, 1, 2]), Some(1));
    let swapped = vec![plan.col(2), add(plan.col(0), plan.col(1)), plan.col(3)];
    let projected = plan.project(swapped);
    assert_eq!(rows_max(projected.clone(), &[0, 1]), Some(210));
    assert_eq!(rows_max(projected, &[1, 2]), None);
}

#[test]
fn rows_are_counted_without_any_column() {
    let array = array(&[100, 70], NORMAL);
    let empty = rows(&array, &part(&[(0, 1, 0), (0, 1, 0)]));
    let pipeline = Plan::over(&empty).group(vec![], vec![count()]).build();
    check(&pipeline, &array, &[array.whole()], 1);
    check(&pipeline, &array, &[part(&[(3, 2, 40), (1, 1, 69)])], 1);
}

/// An execution takes parts fold by fold, beside rows that came from the host, and finishes their groups
/// as it does all others.
#[test]
fn an_execution_folds_arrays_and_rows() {
    let plane = array(&[60, 130], DICE);
    let pipeline = by_index(&plane, 0);
    let source = source(&plane, 1, &[plane.whole()]);
    let parts =
        [(0, 20), (20, 20), (40, 20)].map(|(start, count)| part(&[(start, 1, count), (0, 1, 130)]));
    let batches: Vec<RecordBatch> = parts.iter().map(|part| rows(&plane, part)).collect();
    let expected = sorted_rows(&interpret(&pipeline, &batches).unwrap());
    for with_rows in [false, true] {
        for groups_min in [0, 1 << 40] {
            let machine = ShimMachine::new(3, 1 << 30);
            let options = options(StoreLimits::default());
            let mut execution = machine.execution(&pipeline, &options).unwrap();
            let generated = |parts: &[Part]| GeneratedRun {
                source: Arc::clone(&source),
                parts: parts.to_vec(),
            };
            now(execution.fold_generated(&machine, &generated(&parts[..1]))).unwrap();
            if with_rows {
                now(execution.fold(&machine, &batches[1..2])).unwrap();
            } else {
                now(execution.fold_generated(&machine, &generated(&parts[1..2]))).unwrap();
            }
            now(execution.fold_generated(&machine, &generated(&parts[2..]))).unwrap();
            let limits = FinishLimits {
                slots_min: 0,
                groups_min,
                ..FinishLimits::default()
            };
            let leaving = now(execution.finish(&machine, &limits)).unwrap();
            let found = sorted_rows(&leaving.into_batches().unwrap());
            assert_eq!(found, expected, "with rows: {with_rows}");
        }
    }
}

#[test]
fn a_part_of_another_step_is_refused() {
    let array = array(&[100], NORMAL);
    let source = source(&array, 2, &[]);
    let program = program_of(&totals(&array), &source, 64);
    let refused = source.segments(&program.slots, program.tile_rows, &[array.whole()]);
    assert!(
        refused
            .unwrap_err()
            .what
            .contains("a part of step 1 for a kernel of step 2")
    );
}

/// Values that are known to be neither far from the others nor near zero are not asked for it, and one
/// part holds all digits of singles.
#[test]
fn sums_ask_values_that_may_be_near_zero_only() {
    let near = Values::Normal {
        location: 0.5,
        scale: 1.0,
    };
    let negative = Values::Uniform {
        low: -3.0,
        width: 1.0,
    };
    let across = Values::Uniform {
        low: -3.0,
        width: 2.5,
    };
    for (values, asked) in [
        (NORMAL, false),
        (negative, false),
        (across, true),
        (near, true),
    ] {
        for singles in [false, true] {
            let doubles = array(&[300, 1007], values);
            let array = if singles {
                doubles.in_singles()
            } else {
                doubles
            };
            let pipeline = totals(&array);
            let source = source(&array, 1, &[array.whole()]);
            let program = program_of(&pipeline, &source, 64);
            let name = format!("{values:?} in {:?}", array.kind());
            assert_eq!(program.text.contains("const u32 distance"), asked, "{name}");
            let two_parts = asked || !singles;
            assert_eq!(program.text.contains("double part2 ="), two_parts, "{name}");
            if asked != singles {
                check(&pipeline, &array, &[array.whole()], 1);
            }
        }
    }
}

/// The sum of singles that share a unit is the exact one.
#[test]
fn a_sum_of_singles_is_exact() {
    let values = Values::Uniform {
        low: 2.0,
        width: 1.0,
    };
    let array = array(&[40_000], values).in_singles();
    let empty = rows(&array, &part(&[(0, 1, 0)]));
    let plan = Plan::over(&empty);
    let wide = cast(plan.col(1), DataType::Float64);
    let pipeline = plan.group(vec![], vec![sum(wide)]).build();
    let source = source(&array, 1, &[array.whole()]);
    let program = program_of(&pipeline, &source, 64);
    let Sink::Groups(plan) = &program.sink else {
        panic!("no groups");
    };
    let kernels = Kernels::compile(&program);
    let engine = ShimEngine::new(&kernels, 0);
    let mut table = GroupTable::new(&engine, &program, plan, None).unwrap();
    let segments = source.segments(&program.slots, program.tile_rows, &[array.whole()]);
    table.fold(&engine, &program, &segments.unwrap()).unwrap();
    let groups = Groups::merged(vec![table.read(&engine).unwrap()]);
    let aggregate = first_aggregate(&pipeline).unwrap();
    let batch = groups
        .to_batch(&program.finishes, &[], &output_schema(aggregate))
        .unwrap();
    let found = batch.column(0).as_primitive::<Float64Type>().value(0);
    let made = rows(&array, &array.whole());
    let made = made.column(1).as_primitive::<Float32Type>();
    // From 2 to 3 singles are multiples of 2^-22, so that no step of this sum rounds.
    let exact: f64 = made.values().iter().map(|value| f64::from(*value)).sum();
    assert_eq!(found.to_bits(), exact.to_bits());
}

fn name(array: &Array, step: u64) -> String {
    format!("{:?} in {:?} by {step}", array.values(), array.kind())
}

/// The texts, by name, for [`corpus`](crate::corpus).
pub(crate) fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for array in every_kind(&[500_000, 500_000]) {
        for step in [1, 2, 3] {
            for pipeline in [totals(&array), by_index(&array, 1)] {
                let program = program_of(&pipeline, &source(&array, step, &[]), 256);
                texts.push((name(&array, step), program.text.to_string()));
            }
        }
    }
    let singles = array(&[64], NORMAL).in_singles();
    texts.push(("roots of singles".into(), roots_kernel(&singles)));
    for array in every_kind(&[64]) {
        texts.push((
            format!("values of {}", name(&array, 1)),
            values_kernel(&array).text,
        ));
    }
    texts
}
