//! Folds that are not waited for: what they have to say is read behind them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::DataType::Int64;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::{RadixLimits, StoreLimits};
use tidegate_pipeline::ArithmeticOp::Divide;
use tidegate_pipeline::{Expr, Pipeline};

use crate::cells::sorted_rows;
use crate::data::batch;
use crate::plan::{Plan, count, sum};
use crate::reference::interpret;
use crate::shim::{ShimMachine, now, options};

/// So many keys, and divisors on both sides of 0, of which one row has `divisor`.
fn rows(num_keys: i64, divisor: i64) -> RecordBatch {
    let divisors = (0..2000).map(|row| match row % 9 {
        _ if row == 1234 => divisor,
        0 => -1,
        other => other,
    });
    batch(vec![
        Arc::new(Int64Array::from_iter_values(
            (0..2000).map(|row| row % num_keys),
        )) as ArrayRef,
        Arc::new(Int64Array::from_iter_values(divisors)),
    ])
}

/// Counts and sums quotients by key.
fn pipeline(input: &RecordBatch) -> Pipeline {
    let plan = Plan::over(input);
    let (key, divisor) = (plan.col(0), plan.col(1));
    let quotient = Expr::arithmetic(Divide, plan.col(0), divisor, Int64).unwrap();
    plan.group(vec![key], vec![count(), sum(quotient)]).build()
}

#[test]
fn folds_after_the_first_are_not_waited_for_unless_their_table_may_grow() {
    let default = StoreLimits::default();
    let dense = StoreLimits {
        shared_bytes: 0,
        private_bytes: 0,
        radix: RadixLimits {
            dense_bytes_min: u64::MAX,
            ..default.radix
        },
        ..default
    };
    let hash = StoreLimits {
        dense_bytes: 0,
        ..dense
    };
    for (num_keys, limits, is_later) in [
        (1, default, true),
        (100, default, true),
        (100, dense, true),
        (700, dense, true),
        (700, hash, false),
    ] {
        let input = rows(num_keys, 5);
        let pipeline = pipeline(&input);
        let expected = sorted_rows(&interpret(&pipeline, &vec![input.clone(); 3]).unwrap());
        let machine = ShimMachine::new(3, 1 << 30).telling_later();
        let mut execution = machine.execution(&pipeline, &options(limits)).unwrap();
        let mut reads = Vec::new();
        for _ in 0..3 {
            let before = machine.calls.get().reads;
            now(execution.fold(&machine, std::slice::from_ref(&input))).unwrap();
            reads.push(machine.calls.get().reads - before);
        }
        assert!(reads[0] > 0, "the first may begin again");
        let told = machine.told();
        println!(
            "{num_keys} keys: {} bytes, {reads:?} {told:?}",
            execution.state_bytes()
        );
        match is_later {
            true => assert_eq!((&reads[1..], told), (&[0, 0][..], vec![false; 2])),
            false => assert!(reads[1] > 0 && told.is_empty(), "{reads:?}"),
        }
        let leaving = now(execution.finish(&machine, &FinishLimits::default())).unwrap();
        assert_eq!(sorted_rows(&leaving.into_batches().unwrap()), expected);
    }
}

#[test]
fn a_fold_whose_rows_raise_says_so_for_itself_alone() {
    let (good, bad) = (rows(100, 5), rows(100, 0));
    let pipeline = pipeline(&good);
    let machine = ShimMachine::new(3, 1 << 30).telling_later();
    let options = options(StoreLimits::default());
    let mut execution = machine.execution(&pipeline, &options).unwrap();
    // Nothing is learnt of the values after the first.
    for rows in [&good, &good, &bad, &good, &bad] {
        now(execution.fold(&machine, std::slice::from_ref(rows))).unwrap();
    }
    assert_eq!(machine.told(), [false, true, false, true]);
}
