//! Special floats reach a grouped MIN or MAX by whatever way, and nothing else is refused.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, Expr, ExprKind,
    NamedExpr, Pipeline, Step,
};

use super::refuse_chunk;

/// The columns of every test: a key, two doubles and a float.
fn input() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Float64, true),
        Field::new("w", DataType::Float64, true),
        Field::new("f", DataType::Float32, true),
    ]))
}

fn batch(v: Vec<Option<f64>>, w: f64, f: f32) -> RecordBatch {
    let rows = v.len();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
        Arc::new(Float64Array::from(v)),
        Arc::new(Float64Array::from(vec![w; rows])),
        Arc::new(Float32Array::from(vec![f; rows])),
    ];
    RecordBatch::try_new(input(), columns).unwrap()
}

fn column(index: usize, data_type: DataType) -> Expr {
    Expr {
        kind: ExprKind::Column(index),
        data_type,
    }
}

fn double(index: usize) -> Expr {
    column(index, DataType::Float64)
}

fn sum_of(left: Expr, right: Expr) -> Expr {
    Expr {
        data_type: left.data_type.clone(),
        kind: ExprKind::Arithmetic {
            op: ArithmeticOp::Add,
            left: Box::new(left),
            right: Box::new(right),
        },
    }
}

fn named(expr: Expr) -> NamedExpr {
    NamedExpr {
        expr,
        name: "c".to_owned(),
    }
}

fn aggregate(keys: Vec<Expr>, function: AggregateFunction, argument: Expr) -> Step {
    Step::Aggregate(Aggregate {
        keys: keys.into_iter().map(named).collect(),
        calls: vec![AggregateCall {
            function,
            data_type: argument.data_type.clone(),
            state: vec![Field::new("s", argument.data_type.clone(), true)],
            argument: Some(argument),
            filter: None,
            name: "a".to_owned(),
        }],
        output: AggregateOutput::State,
    })
}

fn by_key(function: AggregateFunction, argument: Expr) -> Step {
    aggregate(vec![column(0, DataType::Int64)], function, argument)
}

fn check(steps: Vec<Step>, batch: &RecordBatch, expect: Option<&str>) {
    let pipeline = Pipeline {
        input: input(),
        parameters: vec![],
        steps,
        output: input(),
    };
    let expect = expect.map(|name| {
        format!("min/max over column {name}: the chunk holds NaN, an infinity or -0.0")
    });
    assert_eq!(refuse_chunk(&pipeline, batch), expect);
}

#[test]
fn a_special_float_under_a_grouped_min_or_max_is_refused() {
    let nan = batch(vec![Some(1.0), Some(f64::NAN)], 0.0, 0.0);
    let infinite = batch(vec![Some(1.0), Some(f64::INFINITY)], 0.0, 0.0);
    let negative_zero = batch(vec![Some(-0.0)], 0.0, 0.0);
    let clean = batch(vec![Some(1.0), Some(0.0)], 0.0, 0.0);
    for function in [AggregateFunction::Min, AggregateFunction::Max] {
        for special in [&nan, &infinite, &negative_zero] {
            check(vec![by_key(function, double(1))], special, Some("v"));
        }
        check(vec![by_key(function, double(1))], &clean, None);
    }
    let single = batch(vec![Some(1.0)], 0.0, f32::NAN);
    let float = by_key(AggregateFunction::Min, column(3, DataType::Float32));
    check(vec![float], &single, Some("f"));
}

#[test]
fn what_does_not_depend_on_order_is_not_refused() {
    let nan = batch(vec![Some(f64::NAN)], f64::NAN, f32::NAN);
    check(
        vec![aggregate(vec![], AggregateFunction::Min, double(1))],
        &nan,
        None,
    );
    check(vec![by_key(AggregateFunction::Sum, double(1))], &nan, None);
    check(
        vec![by_key(AggregateFunction::Min, column(0, DataType::Int64))],
        &nan,
        None,
    );
    check(vec![], &nan, None);
}

#[test]
fn only_the_argument_is_looked_at() {
    let other = batch(vec![Some(1.0)], f64::NAN, 0.0);
    check(
        vec![by_key(AggregateFunction::Max, double(1))],
        &other,
        None,
    );
    let both = sum_of(double(1), double(2));
    check(
        vec![by_key(AggregateFunction::Max, both)],
        &other,
        Some("w"),
    );
}

#[test]
fn columns_are_followed_through_projections() {
    let other = batch(vec![Some(1.0)], f64::NAN, 0.0);
    let swap = |first, second| Step::Project(vec![named(first), named(second)]);
    let key = || column(0, DataType::Int64);
    let reads_w = vec![
        swap(key(), double(2)),
        by_key(AggregateFunction::Max, double(1)),
    ];
    check(reads_w, &other, Some("w"));
    let reads_v = vec![
        swap(key(), double(1)),
        by_key(AggregateFunction::Max, double(1)),
    ];
    check(reads_v, &other, None);
}

#[test]
fn nulls_and_rows_outside_a_slice_do_not_count() {
    let max = || vec![by_key(AggregateFunction::Max, double(1))];
    let with_null = batch(vec![Some(1.0), None, Some(f64::NAN)], 0.0, 0.0);
    check(max(), &with_null, Some("v"));
    check(max(), &with_null.slice(0, 2), None);
    check(max(), &with_null.slice(2, 1), Some("v"));
    check(max(), &with_null.slice(0, 0), None);
    // A NaN under a NULL is nobody's value.
    let values = Float64Array::from(vec![Some(f64::NAN)]);
    let hidden = Float64Array::new(values.values().clone(), Some(vec![false].into()));
    let mut columns = batch(vec![Some(0.0)], 0.0, 0.0).columns().to_vec();
    columns[1] = Arc::new(hidden);
    let hidden = RecordBatch::try_new(input(), columns).unwrap();
    check(max(), &hidden, None);
}
