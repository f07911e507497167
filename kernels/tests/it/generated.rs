//! Arrays that a kernel makes from positions, held against those that the host makes: the groups of
//! every pipeline are the interpreter's over the host's rows, the values themselves bit for bit.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use tidegate_kernels::groups::{Groups, fill_float_scales, output_schema};
use tidegate_kernels::program::{
    DeviceProgram, Generated, GeneratedColumn, ProgramOptions, Sink, SlotFacts, first_aggregate,
    generate, values_kernel,
};
use tidegate_kernels::random::{Array, Part, Simd, Span, Values};
use tidegate_kernels::table::GroupTable;
use tidegate_pipeline::{CompareOp, Interpreter, Pipeline};

use crate::cells::{compare_groups, rows_of};
use crate::plan::{Plan, add, compare, count, max, min, sum};
use crate::shim::{Kernels, ShimEngine};

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
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for dimension in 0..array.shape().len() {
        let mut indices = vec![0; num_rows];
        array.read_indices(part, dimension, 0, &mut indices);
        fields.push(Field::new(format!("i{dimension}"), DataType::Int64, false));
        columns.push(Arc::new(Int64Array::from(indices)));
    }
    if array.values().are_integers() {
        let mut values = vec![0; num_rows];
        array.read_integers(Simd::widest(), part, 0, &mut values);
        fields.push(Field::new("value", DataType::Int64, false));
        columns.push(Arc::new(Int64Array::from(values)));
    } else {
        let mut values = vec![0.0; num_rows];
        array.read(Simd::widest(), part, 0, &mut values);
        fields.push(Field::new("value", DataType::Float64, false));
        columns.push(Arc::new(Float64Array::from(values)));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Returns the source of a kernel over the columns that [`rows`] gives.
fn source(array: &Array, step: u64) -> Arc<Generated> {
    let indices = (0..array.shape().len()).map(GeneratedColumn::Index);
    Arc::new(Generated {
        array: array.clone(),
        columns: indices.chain([GeneratedColumn::Value]).collect(),
        step,
    })
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
    let source = source(array, step);
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
            let batch = groups.to_batch(aggregate, &none, &output_schema(aggregate));
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
    let one = plan.int(data_type, 1);
    let calls = vec![
        sum(add(plan.col(value), one)),
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
    for values in [NORMAL, UNIFORM, DICE, SERIES, Values::Constant(1.0)] {
        let array = array(&[20_000], values);
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
    for values in [NORMAL, SERIES] {
        let plane = array(&[300, 1007], values);
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
        let cube = array(&[7, 30, 70], values);
        check(&totals(&cube), &cube, &[cube.whole()], 1);
        for dimension in 0..3 {
            check(&by_index(&cube, dimension), &cube, &[cube.whole()], 1);
            let slice = part(&[(2, 2, 2), (0, 7, 4), (3, 3, 20)]);
            check(&by_index(&cube, dimension), &cube, &[slice], 3);
        }
    }
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

#[test]
fn rows_are_counted_without_any_column() {
    let array = array(&[100, 70], NORMAL);
    let empty = rows(&array, &part(&[(0, 1, 0), (0, 1, 0)]));
    let pipeline = Plan::over(&empty).group(vec![], vec![count()]).build();
    check(&pipeline, &array, &[array.whole()], 1);
    check(&pipeline, &array, &[part(&[(3, 2, 40), (1, 1, 69)])], 1);
}

#[test]
fn a_part_of_another_step_is_refused() {
    let array = array(&[100], NORMAL);
    let source = source(&array, 2);
    let program = program_of(&totals(&array), &source, 64);
    let refused = source.segments(&program.slots, program.tile_rows, &[array.whole()]);
    assert!(
        refused
            .unwrap_err()
            .contains("a part of step 1 for a kernel of step 2")
    );
}

/// The texts, by name, for [`corpus`](crate::corpus).
pub(crate) fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for values in [NORMAL, UNIFORM, DICE, SERIES, Values::Constant(1.0)] {
        let array = array(&[500_000, 500_000], values);
        for step in [1, 2, 3] {
            for pipeline in [totals(&array), by_index(&array, 1)] {
                let program = program_of(&pipeline, &source(&array, step), 256);
                texts.push((format!("{values:?} by {step}"), program.text));
            }
        }
    }
    texts.extend([NORMAL, UNIFORM, DICE].map(|values| {
        let text = values_kernel(&array(&[64], values)).text;
        (format!("values of {values:?}"), text)
    }));
    texts
}
