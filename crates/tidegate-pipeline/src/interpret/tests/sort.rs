//! Directions, nulls, ties and a small fetch.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};

use crate::expr::{ArithmeticOp, Expr};
use crate::interpret::block::BATCH_ROWS;
use crate::pipeline::{Sort, SortKey, Step};
use crate::tests::building::{batch, col, pipeline, run, run_one, strings};

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn key(expr: Expr, descending: bool, nulls_first: bool) -> SortKey {
    SortKey {
        expr,
        descending,
        nulls_first,
    }
}

fn sorted(input: &RecordBatch, keys: Vec<SortKey>, fetch: Option<usize>) -> Vec<RecordBatch> {
    let steps = vec![Step::Sort(Sort { keys, fetch })];
    run(
        &pipeline(&input.schema(), vec![], steps),
        std::slice::from_ref(input),
    )
    .unwrap()
}

#[test]
fn directions_and_nulls() {
    let input = batch(vec![ints(&[Some(2), None, Some(3), Some(1)])]);
    let cases = [
        (false, false, [Some(1), Some(2), Some(3), None]),
        (false, true, [None, Some(1), Some(2), Some(3)]),
        (true, false, [Some(3), Some(2), Some(1), None]),
        (true, true, [None, Some(3), Some(2), Some(1)]),
    ];
    for (descending, nulls_first, expected) in cases {
        let by = || {
            vec![key(
                col(0, input.column(0).data_type()),
                descending,
                nulls_first,
            )]
        };
        let whole = sorted(&input, by(), None);
        assert_eq!(whole[0].column(0), &ints(&expected));
        let first = sorted(&input, by(), Some(2));
        assert_eq!(first[0].column(0), &ints(&expected[..2]));
        assert!(sorted(&input, by(), Some(0)).is_empty());
    }
}

#[test]
fn zeros_and_nans_are_ties() {
    let values = vec![
        0.0,
        f64::NAN,
        -0.0,
        f64::NEG_INFINITY,
        -f64::NAN,
        f64::INFINITY,
    ];
    let rows: Vec<Option<i64>> = (0..6).map(Some).collect();
    let input = batch(vec![Arc::new(Float64Array::from(values)), ints(&rows)]);
    let by = |descending| vec![key(col(0, input.column(0).data_type()), descending, false)];
    let ascending = sorted(&input, by(false), None);
    let expected = [Some(3), Some(0), Some(2), Some(5), Some(1), Some(4)];
    assert_eq!(ascending[0].column(1), &ints(&expected));
    let descending = sorted(&input, by(true), None);
    let expected = [Some(1), Some(4), Some(5), Some(0), Some(2), Some(3)];
    assert_eq!(descending[0].column(1), &ints(&expected));
}

#[test]
fn later_keys_break_ties_and_ties_keep_their_order() {
    let input = batch(vec![
        strings(&[Some("b"), Some("a"), Some("b"), Some("a"), Some("a")]),
        ints(&[Some(1), Some(2), Some(3), Some(2), Some(9)]),
        ints(&[Some(0), Some(1), Some(2), Some(3), Some(4)]),
    ]);
    let number = input.column(1).data_type();
    let by = vec![
        key(col(0, input.column(0).data_type()), false, false),
        key(Expr::negate(col(1, number)).unwrap(), true, false),
    ];
    let found = sorted(&input, by, None);
    let order = [Some(1), Some(3), Some(4), Some(0), Some(2)];
    assert_eq!(found[0].column(2), &ints(&order));
}

#[test]
fn many_rows_and_a_small_fetch() {
    let rows = 12 * BATCH_ROWS + 5;
    // A permutation, since 7919 has no factor in common with the number of rows.
    let values: Vec<_> = (0..rows)
        .map(|row| Some((row * 7919 % rows) as i64))
        .collect();
    let whole = batch(vec![ints(&values)]);
    let input: Vec<_> = [0, 1, BATCH_ROWS, 9 * BATCH_ROWS + 1, rows]
        .windows(2)
        .map(|ends| whole.slice(ends[0], ends[1] - ends[0]))
        .collect();
    let by = |fetch| {
        let keys = vec![key(col(0, whole.column(0).data_type()), true, false)];
        let steps = vec![Step::Sort(Sort { keys, fetch })];
        run(&pipeline(&whole.schema(), vec![], steps), &input).unwrap()
    };
    let top = by(Some(3));
    let last = rows as i64 - 1;
    assert_eq!(
        top[0].column(0),
        &ints(&[Some(last), Some(last - 1), Some(last - 2)])
    );
    let all = by(None);
    let sizes: Vec<_> = all.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes.len(), 13);
    assert!(sizes[..12].iter().all(|size| *size == BATCH_ROWS));
    assert_eq!(sizes[12], 5);
    assert_eq!(
        all[12].column(0).slice(4, 1).as_ref(),
        ints(&[Some(0)]).as_ref()
    );
}

#[test]
fn a_key_may_raise() {
    let input = batch(vec![ints(&[Some(0)])]);
    let zero = || col(0, input.column(0).data_type());
    let data_type = input.column(0).data_type().clone();
    let ratio = Expr::arithmetic(ArithmeticOp::Divide, zero(), zero(), data_type).unwrap();
    let steps = vec![Step::Sort(Sort {
        keys: vec![key(ratio, false, false)],
        fetch: None,
    })];
    let error = run_one(&pipeline(&input.schema(), vec![], steps), &input).unwrap_err();
    assert_eq!(error.to_string(), "division by zero");
}
