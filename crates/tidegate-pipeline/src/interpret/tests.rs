//! Whole pipelines: laziness, grouping, sorting, batching, and the faults of the caller.

mod aggregate;
mod arithmetic;
mod casts;
mod compare;
mod expressions;
mod sort;
mod temporal;

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};

use super::block::BATCH_ROWS;
use super::{EvalError, Interpreter};
use crate::expr::{ArithmeticOp, CompareOp, Expr};
use crate::pipeline::{AggregateFunction, AggregateOutput, Pipeline, Sort, SortKey, Step};
use crate::scalar::ScalarValue;
use crate::tests::building::{
    batch, call, col, group_by, named, param, pipeline, run, run_one, scalar, strings,
};

use DataType::{Float64, Int64, Utf8};

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn count_and_sum(column: usize) -> Vec<crate::pipeline::AggregateCall> {
    let sum = call(
        AggregateFunction::Sum,
        Some(col(column, &Int64)),
        Int64,
        &[Int64],
    );
    let count = call(AggregateFunction::Count, None, Int64, &[Int64]);
    vec![count.unwrap(), sum.unwrap()]
}

fn above(column: usize) -> Expr {
    Expr::compare(CompareOp::Gt, col(column, &Int64), param(0, &Int64)).unwrap()
}

fn five() -> Vec<crate::scalar::Scalar> {
    vec![scalar(Int64, ScalarValue::Int(5))]
}

#[test]
fn a_row_that_is_dropped_is_not_projected() {
    let input = batch(vec![ints(&[Some(0), Some(6), None])]);
    let ratio = Expr::arithmetic(
        ArithmeticOp::Divide,
        param(0, &Int64),
        col(0, &Int64),
        Int64,
    );
    let project = Step::Project(vec![named(ratio.unwrap(), "r"), named(col(0, &Int64), "a")]);
    let kept = vec![Step::Filter(above(0)), project.clone()];
    let found = run_one(&pipeline(&input.schema(), five(), kept), &input).unwrap();
    assert_eq!(found[0].columns(), [ints(&[Some(0)]), ints(&[Some(6)])]);
    let all = pipeline(&input.schema(), five(), vec![project]);
    let error = run_one(&all, &input).unwrap_err();
    assert!(matches!(error, EvalError::DivideByZero));
}

#[test]
fn without_rows() {
    let input = batch(vec![ints(&[])]);
    let row_wise = pipeline(&input.schema(), five(), vec![Step::Filter(above(0))]);
    assert!(run_one(&row_wise, &input).unwrap().is_empty());
    let keys = vec![named(col(0, &Int64), "a")];
    for output in [AggregateOutput::State, AggregateOutput::Value] {
        let grouped = group_by(keys.clone(), count_and_sum(0), output);
        let grouped = pipeline(&input.schema(), vec![], vec![grouped]);
        assert!(run_one(&grouped, &input).unwrap().is_empty());
        let alone = group_by(vec![], count_and_sum(0), output);
        let alone = pipeline(&input.schema(), vec![], vec![alone]);
        for batches in [vec![], vec![input.clone()]] {
            let found = run(&alone, &batches).unwrap();
            assert_eq!(found[0].columns(), [ints(&[Some(0)]), ints(&[None])]);
        }
    }
}

#[test]
fn batches_leave_in_8192_rows_under_the_declared_schema() {
    for rows in [
        1,
        BATCH_ROWS - 1,
        BATCH_ROWS,
        BATCH_ROWS + 1,
        3 * BATCH_ROWS,
    ] {
        let values: Vec<_> = (0..rows).map(|row| Some(row as i64)).collect();
        let input = batch(vec![ints(&values)]);
        let keys = vec![named(col(0, &Int64), "a")];
        let distinct = group_by(keys, vec![], AggregateOutput::Value);
        for steps in [vec![], vec![distinct]] {
            let pipeline = pipeline(&input.schema(), vec![], steps);
            let found = run_one(&pipeline, &input).unwrap();
            let sizes: Vec<_> = found.iter().map(RecordBatch::num_rows).collect();
            assert_eq!(sizes.iter().sum::<usize>(), rows);
            assert_eq!(sizes.len(), rows.div_ceil(BATCH_ROWS));
            for batch in &found {
                assert!(Arc::ptr_eq(batch.schema_ref(), &pipeline.output));
            }
            assert_eq!(
                found[0].column(0).slice(0, 1).as_ref(),
                ints(&[Some(0)]).as_ref()
            );
        }
    }
}

#[test]
fn groups_in_order_of_appearance_over_sliced_batches() {
    let names = strings(&[Some("z"), Some("b"), None, Some("b"), Some("a"), None]);
    let values = ints(&[Some(9), Some(1), Some(2), None, Some(4), Some(8)]);
    let whole = batch(vec![names, values]);
    let keys = vec![named(col(0, &Utf8), "a")];
    let steps = vec![group_by(keys, count_and_sum(1), AggregateOutput::Value)];
    let pipeline = Arc::new(pipeline(&whole.schema(), vec![], steps));
    let mut interpreter = Interpreter::new(Arc::clone(&pipeline)).unwrap();
    for (offset, len) in [(1, 2), (3, 0), (3, 3)] {
        interpreter.fold(&whole.slice(offset, len)).unwrap();
    }
    assert_eq!((interpreter.rows_in(), interpreter.num_groups()), (5, 3));
    assert!(interpreter.state_bytes() > 0);
    let found = interpreter.finish().unwrap();
    let expected = [
        strings(&[Some("b"), None, Some("a")]),
        ints(&[Some(2), Some(2), Some(1)]),
        ints(&[Some(1), Some(10), Some(4)]),
    ];
    assert_eq!(found[0].columns(), expected);
}

#[test]
fn float_keys() {
    let payload = f64::from_bits(f64::NAN.to_bits() | 1);
    let values = [
        Some(-0.0),
        Some(0.0),
        Some(f64::NAN),
        None,
        Some(payload),
        None,
    ];
    let input = batch(vec![Arc::new(Float64Array::from(values.to_vec()))]);
    let keys = vec![named(col(0, &Float64), "a")];
    let count = call(AggregateFunction::Count, None, Int64, &[Int64]).unwrap();
    let steps = vec![group_by(keys, vec![count], AggregateOutput::State)];
    let found = run_one(&pipeline(&input.schema(), vec![], steps), &input).unwrap();
    let expected: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.0), Some(f64::NAN), None]));
    assert_eq!(
        found[0].columns(),
        [expected, ints(&[Some(2), Some(2), Some(2)])]
    );
}

#[test]
fn a_filtered_aggregate() {
    let input = batch(vec![ints(&[Some(1), Some(6), None, Some(7)])]);
    let calls = count_and_sum(0)
        .into_iter()
        .map(|mut call| {
            call.filter = Some(above(0));
            call
        })
        .collect();
    let steps = vec![group_by(vec![], calls, AggregateOutput::Value)];
    let found = run_one(&pipeline(&input.schema(), five(), steps), &input).unwrap();
    assert_eq!(found[0].columns(), [ints(&[Some(2)]), ints(&[Some(13)])]);
}

/// Groups, keeps the groups above 5, sorts them, and groups again.
fn stages(input: &RecordBatch, fetch: usize) -> Pipeline {
    let keys = vec![named(col(0, &Utf8), "a")];
    let sort = Sort {
        keys: vec![SortKey {
            expr: col(2, &Int64),
            descending: true,
            nulls_first: false,
        }],
        fetch: Some(fetch),
    };
    let steps = vec![
        group_by(keys, count_and_sum(1), AggregateOutput::Value),
        Step::Filter(above(2)),
        Step::Sort(sort),
        group_by(vec![], count_and_sum(2), AggregateOutput::Value),
    ];
    pipeline(&input.schema(), five(), steps)
}

#[test]
fn several_steps_that_need_all_rows() {
    let names = strings(&[Some("x"), Some("y"), Some("z"), Some("x"), Some("w")]);
    let input = batch(vec![
        names,
        ints(&[Some(3), Some(9), Some(5), Some(4), Some(6)]),
    ]);
    // x 7, y 9, w 6; z is 5.
    for (fetch, count, sum) in [(10, 3, 22), (2, 2, 16), (1, 1, 9)] {
        let found = run_one(&stages(&input, fetch), &input).unwrap();
        assert_eq!(
            found[0].columns(),
            [ints(&[Some(count)]), ints(&[Some(sum)])]
        );
    }
    let found = run(&stages(&input, 3), &[]).unwrap();
    assert_eq!(found[0].columns(), [ints(&[Some(0)]), ints(&[None])]);
}

#[test]
fn keys_leave_in_the_layout_that_the_plan_declares() {
    let values: Vec<Option<&str>> = vec![Some("b"), None, Some("a"), Some("b")];
    let array: DictionaryArray<Int32Type> = values.into_iter().collect();
    let input = batch(vec![Arc::new(array)]);
    let data_type = input.column(0).data_type().clone();
    let count = call(AggregateFunction::Count, None, Int64, &[Int64]).unwrap();
    let keys = vec![named(col(0, &data_type), "a")];
    let steps = vec![group_by(keys, vec![count], AggregateOutput::State)];
    let found = run_one(&pipeline(&input.schema(), vec![], steps), &input).unwrap();
    let keys = found[0].column(0);
    assert_eq!(keys.data_type(), &data_type);
    let keys = keys
        .as_any()
        .downcast_ref::<DictionaryArray<Int32Type>>()
        .unwrap();
    let strings: Vec<_> = keys
        .downcast_dict::<StringArray>()
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(strings, [Some("b"), None, Some("a")]);
}

#[test]
fn no_columns_are_still_rows() {
    let input = batch(vec![ints(&[Some(1), Some(9)])]);
    let steps = vec![Step::Filter(above(0)), Step::Project(vec![])];
    let found = run_one(&pipeline(&input.schema(), five(), steps), &input).unwrap();
    assert_eq!((found[0].num_columns(), found[0].num_rows()), (0, 1));
}

#[test]
fn faults_of_the_caller() {
    let input = batch(vec![ints(&[Some(1), None])]);
    let mut pass = pipeline(&input.schema(), vec![], vec![]);
    let other = batch(vec![strings(&[Some("a")])]);
    let error = run(&pass, &[other]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "shape mismatch: column a is Utf8, not Int64"
    );
    let wider = batch(vec![ints(&[]), ints(&[])]);
    let error = run(&pass, &[wider]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "shape mismatch: 2 columns where 1 are read"
    );
    // A NULL under a schema that has none.
    pass.output = Arc::new(Schema::new(vec![Field::new("a", Int64, false)]));
    let error = run_one(&pass, &input).unwrap_err();
    assert!(matches!(error, EvalError::Arrow(_)), "{error}");
    assert!(!error.is_arithmetic());
    pass.output = Arc::new(Schema::empty());
    let error = run_one(&pass, &input).unwrap_err();
    assert!(matches!(error, EvalError::Invalid(_)), "{error}");
}
