//! States and values of every aggregate, by type, with nulls and without rows.

use std::sync::Arc;

use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type};
use arrow_array::{
    ArrayRef, BooleanArray, DurationSecondArray, Float64Array, Int64Array, PrimitiveArray,
    RecordBatch, UInt64Array,
};
use arrow_schema::DataType;

use crate::interpret::EvalError;
use crate::pipeline::{AggregateFunction, AggregateOutput};
use crate::tests::building::{batch, call, col, group_by, named, pipeline, run, strings};

use AggregateFunction::{Avg, Count, Max, Min, StddevPop, StddevSamp, Sum, VarPop, VarSamp};
use DataType::{Decimal32, Decimal64, Decimal128, Float64, Int64, UInt64};

/// The columns that one call over column `a` gives, grouped by column `b` if there is one.
fn aggregate(
    function: AggregateFunction,
    columns: &[ArrayRef],
    value: &DataType,
    state: &[DataType],
    output: AggregateOutput,
) -> Result<RecordBatch, EvalError> {
    let input = batch(columns.to_vec());
    let argument = col(0, columns[0].data_type());
    let call = call(function, Some(argument), value.clone(), state)?;
    let keys = columns
        .get(1)
        .map(|key| named(col(1, key.data_type()), "b"));
    let steps = vec![group_by(keys.into_iter().collect(), vec![call], output)];
    let pipeline = pipeline(&input.schema(), vec![], steps);
    let mut batches = run(&pipeline, &[input])?;
    Ok(batches.remove(0))
}

/// Checks one call without keys: its state's columns and its value.
fn check(function: AggregateFunction, values: &ArrayRef, state: &[ArrayRef], value: &ArrayRef) {
    let types: Vec<_> = state
        .iter()
        .map(|column| column.data_type().clone())
        .collect();
    let given = |output| {
        let columns = std::slice::from_ref(values);
        aggregate(function, columns, value.data_type(), &types, output).unwrap()
    };
    let states = given(AggregateOutput::State);
    assert_eq!(states.columns(), state, "state of {function} of {values:?}");
    let found = given(AggregateOutput::Value);
    assert_eq!(
        found.columns(),
        [Arc::clone(value)],
        "{function} of {values:?}"
    );
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn counts(values: &[Option<u64>]) -> ArrayRef {
    Arc::new(UInt64Array::from(values.to_vec()))
}

fn doubles(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn decimals(precision: u8, scale: i8, values: &[Option<i128>]) -> ArrayRef {
    let array = PrimitiveArray::<Decimal128Type>::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn count() {
    for (values, count) in [
        (vec![], 0),
        (vec![None, None], 0),
        (vec![Some(1), None, Some(1)], 2),
    ] {
        let counted = ints(&[Some(count)]);
        check(Count, &ints(&values), &[Arc::clone(&counted)], &counted);
    }
}

#[test]
fn sums_wrap() {
    let same = |values: ArrayRef, sum: ArrayRef| check(Sum, &values, &[Arc::clone(&sum)], &sum);
    same(ints(&[Some(1), None, Some(2)]), ints(&[Some(3)]));
    same(ints(&[Some(i64::MAX), Some(1)]), ints(&[Some(i64::MIN)]));
    same(ints(&[None]), ints(&[None]));
    same(ints(&[]), ints(&[None]));
    same(counts(&[Some(u64::MAX), Some(2)]), counts(&[Some(1)]));
    same(
        doubles(&[Some(0.5), Some(f64::INFINITY)]),
        doubles(&[Some(f64::INFINITY)]),
    );
    let wide = decimals(38, 2, &[Some(i128::MAX), Some(1)]);
    same(wide, decimals(38, 2, &[Some(i128::MIN)]));
    same(
        decimals(5, 2, &[Some(1), Some(2)]),
        decimals(15, 2, &[Some(3)]),
    );
    let narrow = |precision, values: Vec<i32>| -> ArrayRef {
        let array = PrimitiveArray::<Decimal32Type>::from(values);
        Arc::new(array.with_precision_and_scale(precision, 2).unwrap())
    };
    same(narrow(9, vec![i32::MAX, 1]), narrow(9, vec![i32::MIN]));
    let durations = |values: Vec<i64>| -> ArrayRef { Arc::new(DurationSecondArray::from(values)) };
    same(durations(vec![2, -5]), durations(vec![-3]));
}

#[test]
fn averages() {
    let nothing = [counts(&[None]), doubles(&[None])];
    check(Avg, &doubles(&[None]), &nothing, &doubles(&[None]));
    check(Avg, &doubles(&[]), &nothing, &doubles(&[None]));
    let state = [counts(&[Some(2)]), doubles(&[Some(4.0)])];
    check(
        Avg,
        &doubles(&[Some(1.0), None, Some(3.0)]),
        &state,
        &doubles(&[Some(2.0)]),
    );
    // Four more digits, truncated: 1.00 and 0.01 and 0.01 make 0.34.
    let values = decimals(5, 2, &[Some(100), Some(1), Some(1)]);
    let state = [counts(&[Some(3)]), decimals(38, 2, &[Some(102)])];
    check(Avg, &values, &state, &decimals(9, 6, &[Some(340_000)]));
    let values = decimals(5, 2, &[Some(-100), Some(0), Some(0)]);
    let state = [counts(&[Some(3)]), decimals(38, 2, &[Some(-100)])];
    check(Avg, &values, &state, &decimals(9, 6, &[Some(-333_333)]));
    let durations = |values: Vec<i64>| -> ArrayRef { Arc::new(DurationSecondArray::from(values)) };
    let state = [counts(&[Some(2)]), durations(vec![-5])];
    check(Avg, &durations(vec![-2, -3]), &state, &durations(vec![-2]));
}

#[test]
fn narrow_averages() {
    let narrow = |precision, scale, value: i32| -> ArrayRef {
        let array = PrimitiveArray::<Decimal32Type>::from(vec![value]);
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    };
    let sum = PrimitiveArray::<Decimal64Type>::from(vec![125_i64]);
    let state: [ArrayRef; 2] = [
        counts(&[Some(1)]),
        Arc::new(sum.with_precision_and_scale(18, 2).unwrap()),
    ];
    check(Avg, &narrow(5, 2, 125), &state, &narrow(9, 6, 1_250_000));
    // 9,999,999.99 has no room for four more digits in nine.
    let error = aggregate(
        Avg,
        &[narrow(9, 2, 999_999_999)],
        &Decimal32(9, 6),
        &[UInt64, Decimal128(38, 2)],
        AggregateOutput::Value,
    );
    assert!(matches!(error, Err(EvalError::Overflow { .. })));
    // The state of the same rows is no trouble.
    let state = aggregate(
        Avg,
        &[narrow(9, 2, 999_999_999)],
        &Decimal32(9, 6),
        &[UInt64, Decimal128(38, 2)],
        AggregateOutput::State,
    );
    assert!(state.is_ok());
    assert!(matches!(Decimal64(18, 2), Decimal64(..)));
}

#[test]
fn extremes() {
    let both = |values: ArrayRef, least: ArrayRef, greatest: ArrayRef| {
        check(Min, &values, &[Arc::clone(&least)], &least);
        check(Max, &values, &[Arc::clone(&greatest)], &greatest);
    };
    both(
        ints(&[Some(2), None, Some(-3)]),
        ints(&[Some(-3)]),
        ints(&[Some(2)]),
    );
    both(ints(&[None]), ints(&[None]), ints(&[None]));
    both(ints(&[]), ints(&[None]), ints(&[None]));
    let words = strings(&[Some("b"), None, Some("abc"), Some("")]);
    both(words, strings(&[Some("")]), strings(&[Some("b")]));
    let flags = |values: Vec<bool>| -> ArrayRef { Arc::new(BooleanArray::from(values)) };
    both(
        flags(vec![true, false]),
        flags(vec![false]),
        flags(vec![true]),
    );
    both(
        decimals(5, 2, &[Some(5), Some(-5)]),
        decimals(5, 2, &[Some(-5)]),
        decimals(5, 2, &[Some(5)]),
    );
    let one = |value: f64| doubles(&[Some(value)]);
    let list = |values: &[f64]| doubles(&values.iter().copied().map(Some).collect::<Vec<_>>());
    both(list(&[0.0, -0.0]), one(0.0), one(0.0));
    both(list(&[-0.0, -0.0]), one(0.0), one(0.0));
    both(list(&[1.0, f64::NAN, -1.0]), one(-1.0), one(f64::NAN));
    both(list(&[1.0, -f64::NAN, -1.0]), one(-1.0), one(f64::NAN));
    both(list(&[-f64::NAN]), one(f64::NAN), one(f64::NAN));
    both(
        list(&[f64::NEG_INFINITY]),
        one(f64::NEG_INFINITY),
        one(f64::NEG_INFINITY),
    );
}

#[test]
fn variances() {
    let moments = |count, mean, m2| {
        [
            counts(&[Some(count)]),
            doubles(&[Some(mean)]),
            doubles(&[Some(m2)]),
        ]
    };
    let cases = [
        (vec![], moments(0, 0.0, 0.0), [None; 4]),
        (vec![None], moments(0, 0.0, 0.0), [None; 4]),
        (
            vec![Some(3.0)],
            moments(1, 3.0, 0.0),
            [Some(0.0), None, Some(0.0), None],
        ),
        (
            vec![Some(1.0), None, Some(3.0)],
            moments(2, 2.0, 2.0),
            [Some(1.0), Some(2.0), Some(1.0), Some(2.0_f64.sqrt())],
        ),
    ];
    for (values, state, expected) in cases {
        let functions = [VarPop, VarSamp, StddevPop, StddevSamp];
        for (function, expected) in functions.into_iter().zip(expected) {
            check(function, &doubles(&values), &state, &doubles(&[expected]));
        }
    }
}

#[test]
fn a_single_infinity() {
    // DataFusion's two accumulators differ; each is followed where it is used.
    let values = doubles(&[Some(f64::INFINITY)]);
    let types = [UInt64, Float64, Float64];
    let alone = aggregate(
        VarPop,
        &[Arc::clone(&values)],
        &Float64,
        &types,
        AggregateOutput::Value,
    );
    assert_eq!(alone.unwrap().column(0), &doubles(&[Some(0.0)]));
    let keyed = [values, ints(&[Some(1)])];
    let grouped = aggregate(VarPop, &keyed, &Float64, &types, AggregateOutput::Value).unwrap();
    let variance = grouped
        .column(1)
        .as_any()
        .downcast_ref::<Float64Array>()
        .unwrap();
    assert!(variance.value(0).is_nan());
}

#[test]
fn groups_are_apart() {
    let values = ints(&[Some(1), Some(2), None, Some(4)]);
    let keys = ints(&[Some(7), None, Some(7), None]);
    let columns = [values, keys];
    let found = aggregate(Sum, &columns, &Int64, &[Int64], AggregateOutput::Value).unwrap();
    assert_eq!(found.column(0), &ints(&[Some(7), None]));
    assert_eq!(found.column(1), &ints(&[Some(1), Some(6)]));
    let keys = strings(&[Some("x"), Some("x"), Some("y"), Some("x")]);
    let columns = [Arc::clone(&columns[0]), keys];
    let found = aggregate(Max, &columns, &Int64, &[Int64], AggregateOutput::State).unwrap();
    assert_eq!(found.column(0), &strings(&[Some("x"), Some("y")]));
    assert_eq!(found.column(1), &ints(&[Some(4), None]));
}
