//! Folds against the same values one by one.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_schema::{DataType, Field, Schema};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, Expr, ExprKind,
    Pipeline, Scalar, ScalarValue, Step,
};

use super::{Added, ArrayFold, BLOCK};
use crate::program::Generated;
use crate::program::GeneratedColumn;
use crate::random::{Array, Part, Simd, Span, Values};

use AggregateFunction::{Avg, Count, Max, Min, Sum};
use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};

const NORMAL: Values = Values::Normal {
    location: 10.0,
    scale: 1.0,
};

fn float(kind: ExprKind) -> Expr {
    Expr {
        kind,
        data_type: DataType::Float64,
    }
}

fn value() -> Expr {
    float(ExprKind::Column(0))
}

fn parameter(index: usize) -> Expr {
    float(ExprKind::Parameter(index))
}

fn of(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    Expr::arithmetic(op, left, right, DataType::Float64).unwrap()
}

fn call(function: AggregateFunction, argument: Option<Expr>) -> AggregateCall {
    let column = |name: &str, data_type| Field::new(name, data_type, true);
    let state = match function {
        Count => vec![column("count", DataType::Int64)],
        Avg => vec![
            column("count", DataType::UInt64),
            column("sum", DataType::Float64),
        ],
        _ => vec![column("value", DataType::Float64)],
    };
    AggregateCall {
        function,
        argument,
        more: Vec::new(),
        filter: None,
        data_type: DataType::Float64,
        state,
        name: String::new(),
    }
}

fn pipeline_of(calls: Vec<AggregateCall>, parameters: &[f64]) -> Pipeline {
    let states = calls.iter().flat_map(|call| call.state.clone());
    let output = Arc::new(Schema::new(states.collect::<Vec<_>>()));
    let float = |value: &f64| Scalar {
        data_type: DataType::Float64,
        value: ScalarValue::Float(*value),
    };
    let aggregate = Aggregate {
        keys: Vec::new(),
        calls,
        output: AggregateOutput::State,
    };
    let x = Field::new("x", DataType::Float64, false);
    Pipeline {
        input: Arc::new(Schema::new(vec![x])),
        parameters: parameters.iter().map(float).collect(),
        steps: vec![Step::Aggregate(aggregate)],
        output,
    }
}

fn fold_of(array: &Array, pipeline: &Pipeline) -> Option<ArrayFold> {
    let whole = [array.whole()];
    let columns = vec![GeneratedColumn::Value];
    let source = Generated::new(array.clone(), columns, 1, &whole);
    ArrayFold::of(pipeline, &source, &pipeline.output)
}

fn array(shape: &[u64], values: Values) -> Array {
    Array::try_new(shape.to_vec(), values, 7).unwrap()
}

fn all_of(array: &Array, part: &Part) -> Vec<f64> {
    let mut values = vec![f64::NAN; part.num_values() as usize];
    array.read(Simd::widest(), part, 0, &mut values);
    values
}

/// Parts whole, narrow and of every step.
fn parts(shape: &[u64]) -> Vec<Part> {
    let span = |start, step, count| Span { start, step, count };
    let (rows, columns) = (shape[0], shape[1]);
    let mut parts = vec![array(shape, NORMAL).whole()];
    for (start, step) in [
        (0, 1),
        (3, 1),
        (0, 2),
        (1, 2),
        (5, 4),
        (0, 7),
        (2, 32),
        (1, 33),
    ] {
        parts.push(Part {
            spans: vec![
                span(1, 2, (rows - 1) / 2),
                span(start, step, (columns - start) / step),
            ],
        });
    }
    parts.push(Part {
        spans: vec![span(0, 1, rows), span(9, 1, 1)],
    });
    parts
}

#[test]
fn blocks_are_the_rows_in_order() {
    let shape = [9, 1000];
    let array = array(&shape, NORMAL);
    for part in parts(&shape) {
        let wanted = all_of(&array, &part);
        for block in [1, 63, 64, 65, 512, 1024] {
            for from in [0, 1, 77.min(wanted.len()), wanted.len()] {
                let mut seen = Vec::new();
                let rows = from as u64..wanted.len() as u64;
                let mut block = vec![0.0; block];
                array.read_blocks(Simd::widest(), &part, rows, &mut block, |values| {
                    assert!(!values.is_empty());
                    seen.extend(values.iter().map(|value| value.to_bits()));
                });
                let wanted = wanted[from..].iter().map(|value| value.to_bits());
                assert!(seen.into_iter().eq(wanted), "{part:?} from {from}");
            }
        }
    }
}

#[test]
fn every_function_of_every_operator() {
    let shape = [5, 3 * BLOCK as u64 + 100];
    let standard = Values::Normal {
        location: 0.0,
        scale: 1.0,
    };
    for op in [Add, Subtract, Multiply, Divide] {
        let arguments = [
            (
                of(op, value(), parameter(0)),
                (|x, op| op(x, 3.0)) as fn(f64, &dyn Fn(f64, f64) -> f64) -> f64,
            ),
            (of(op, parameter(0), value()), |x, op| op(3.0, x)),
            (
                of(op, of(op, value(), parameter(0)), of(op, value(), value())),
                |x, op| op(op(x, 3.0), op(x, x)),
            ),
            (of(op, value(), Expr::negate(value()).unwrap()), |x, op| {
                op(x, -x)
            }),
        ];
        let apply: &dyn Fn(f64, f64) -> f64 = match op {
            Add => &|a, b| a + b,
            Subtract => &|a, b| a - b,
            Multiply => &|a, b| a * b,
            _ => &|a, b| a / b,
        };
        for (argument, function) in arguments {
            let calls =
                [Count, Sum, Min, Max, Avg].map(|function| call(function, Some(argument.clone())));
            let pipeline = pipeline_of(calls.to_vec(), &[3.0]);
            let array = array(&shape, standard);
            let fold = fold_of(&array, &pipeline).unwrap();
            assert_eq!(fold.values.len(), 1);
            for part in parts(&shape) {
                let mut states = fold.begin();
                let (num_rows, half) = (part.num_values(), part.num_values() / 2);
                states.add(&part, 0..half);
                states.add(&part, half..num_rows);
                let row = states.row().unwrap();
                let floats =
                    |column: usize| row.column(column).as_primitive::<Float64Type>().value(0);
                let wanted: Vec<f64> = all_of(&array, &part)
                    .into_iter()
                    .map(|x| function(x, apply))
                    .collect();
                let sum: f64 = wanted.iter().sum();
                let scale: f64 = wanted.iter().map(|value| value.abs()).sum();
                assert_eq!(
                    row.column(0).as_primitive::<Int64Type>().value(0),
                    num_rows as i64
                );
                assert!(
                    (floats(1) - sum).abs() <= 1e-12 * scale,
                    "{} {sum}",
                    floats(1)
                );
                let least = wanted.iter().copied().min_by(f64::total_cmp).unwrap();
                let greatest = wanted.iter().copied().max_by(f64::total_cmp).unwrap();
                assert_eq!(floats(2).to_bits(), least.to_bits());
                assert_eq!(floats(3).to_bits(), greatest.to_bits());
                assert_eq!(
                    row.column(4).as_primitive::<UInt64Type>().value(0),
                    num_rows
                );
                assert_eq!(floats(5).to_bits(), floats(1).to_bits());
                let calls = vec![call(Sum, Some(argument.clone()))];
                let alone = fold_of(&array, &pipeline_of(calls, &[3.0])).unwrap();
                let mut states = alone.begin();
                states.add(&part, 0..num_rows);
                let row = states.row().unwrap();
                let alone = row.column(0).as_primitive::<Float64Type>().value(0);
                assert!((alone - sum).abs() <= 1e-12 * scale, "{alone} {sum}");
            }
        }
    }
}

#[test]
fn what_is_no_number_and_what_has_no_sign() {
    let zeros = array(&[3, 50], Values::Constant(0.0));
    let fold_all = |argument: Expr| {
        let calls = [Sum, Min, Max].map(|function| call(function, Some(argument.clone())));
        let fold = fold_of(&zeros, &pipeline_of(calls.to_vec(), &[0.0, -1.0])).unwrap();
        let mut states = fold.begin();
        states.add(&zeros.whole(), 0..150);
        let row = states.row().unwrap();
        [0, 1, 2].map(|column| row.column(column).as_primitive::<Float64Type>().value(0))
    };
    let [sum, least, greatest] = fold_all(of(Divide, value(), parameter(0)));
    assert!(sum.is_nan() && least.is_nan() && greatest.is_nan());
    let [sum, least, greatest] = fold_all(of(Divide, parameter(1), value()));
    assert_eq!([sum, least, greatest], [f64::NEG_INFINITY; 3]);
    let [_, least, greatest] = fold_all(of(Multiply, value(), parameter(1)));
    // The extremes of −0.0 alone are the one zero.
    assert_eq!([least, greatest].map(f64::to_bits), [0; 2]);
}

#[test]
fn nothing_is_null_and_counts_to_zero() {
    let array = array(&[4, 4], NORMAL);
    let calls = vec![
        call(Count, None),
        call(Sum, Some(value())),
        call(Avg, Some(value())),
        call(Min, Some(value())),
    ];
    let fold = fold_of(&array, &pipeline_of(calls, &[])).unwrap();
    let row = fold.begin().row().unwrap();
    assert_eq!(row.column(0).as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(row.column(2).as_primitive::<UInt64Type>().value(0), 0);
    for column in [1, 3, 4] {
        assert_eq!(row.column(column).null_count(), 1);
    }
}

#[test]
fn anything_else_is_left_alone() {
    let doubles = array(&[4, 4], NORMAL);
    let sum = || call(Sum, Some(value()));
    assert!(fold_of(&doubles, &pipeline_of(vec![sum()], &[])).is_some());
    let with_keys = |pipeline: &mut Pipeline, change: &dyn Fn(&mut Aggregate)| {
        let Some(Step::Aggregate(aggregate)) = pipeline.steps.last_mut() else {
            panic!("no aggregate");
        };
        change(aggregate);
    };
    let changes: [&dyn Fn(&mut Aggregate); 4] = [
        &|aggregate| aggregate.output = AggregateOutput::Value,
        &|aggregate| aggregate.calls[0].filter = Some(value()),
        &|aggregate| aggregate.calls[0].function = AggregateFunction::VarPop,
        &|aggregate| aggregate.calls[0].argument = Some(of(Modulo, value(), value())),
    ];
    for change in changes {
        let mut pipeline = pipeline_of(vec![sum()], &[]);
        with_keys(&mut pipeline, change);
        assert!(fold_of(&doubles, &pipeline).is_none());
    }
    let filtered = Pipeline {
        steps: vec![
            Step::Filter(value()),
            pipeline_of(vec![sum()], &[]).steps.remove(0),
        ],
        ..pipeline_of(vec![sum()], &[])
    };
    assert!(fold_of(&doubles, &filtered).is_none());
    let singles = doubles.clone().in_singles();
    assert!(fold_of(&singles, &pipeline_of(vec![sum()], &[])).is_none());
    let integers = array(&[4, 4], Values::Integers { low: 1, count: 6 });
    assert!(fold_of(&integers, &pipeline_of(vec![sum()], &[])).is_none());
}

/// Whichever instructions a host has, it adds in one order: 16 lanes, halved, and then the rest.
#[test]
fn sums_are_of_one_order_on_every_machine() {
    type Of = fn(f64) -> f64;
    let all: [(Option<(ArithmeticOp, f64)>, Of); 6] = [
        (None, |value| value),
        (Some((Add, 1.0)), |value| value + 1.0),
        (Some((Subtract, 0.3)), |value| value - 0.3),
        (Some((Multiply, 1e-7)), |value| value * 1e-7),
        (Some((Divide, 3.0)), |value| value / 3.0),
        (Some((Modulo, 7.0)), |value| value % 7.0),
    ];
    for len in [0, 1, 15, 16, 17, 63, 1000, BLOCK] {
        let value = |index| {
            let sign_and_digits = (index * 7919 % 1013) as f64 - 500.0;
            sign_and_digits * 1.1_f64.powi(index as i32 % 300)
        };
        let values: Vec<f64> = (0..len).map(value).collect();
        for (with, of) in all {
            let mut lanes = [0.0_f64; 16];
            let rest = len / 16 * 16;
            for (index, value) in values[..rest].iter().enumerate() {
                lanes[index % 16] += of(*value);
            }
            for width in [8, 4, 2, 1] {
                for lane in 0..width {
                    lanes[lane] += lanes[lane + width];
                }
            }
            let rest = values[rest..].iter();
            let expected = rest.fold(lanes[0], |sum, value| sum + of(*value));
            for simd in Simd::ALL {
                let values = &values;
                let found = simd.run(Added { values, with });
                assert_eq!(
                    found.to_bits(),
                    expected.to_bits(),
                    "{} {with:?} {len}",
                    simd.name()
                );
            }
        }
    }
}
