//! Programs of whole pipelines: random ones held against the reference interpreter, and what lowering,
//! display and verification promise.

mod random;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, IntervalUnit};

use super::{Op, Raised, Reduce, RowProgram, Sink, ValueId, interpret, verify};
use crate::custom::{BodyFailed, CustomFunction, Host};
use crate::expr::{ArithmeticOp, CastFailure, CompareOp, Expr};
use crate::pipeline::{
    AggregateCall, AggregateFunction, AggregateOutput, Pipeline, Sort, SortKey, Step,
};
use crate::scalar::{Scalar, ScalarValue};
use crate::tests::building::{batch, call, col, group_by, named, param, pipeline, scalar};
use crate::tests::random::{Random, Shape, hold, hold_rows, programs, random_batch};

use DataType::{Boolean, Date32, Decimal128, Float64, Int32, Int64, Utf8};

fn int(value: i64) -> Scalar {
    scalar(Int64, ScalarValue::Int(value))
}

fn binary(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    let data_type = left.data_type.clone();
    Expr::arithmetic(op, left, right, data_type).unwrap()
}

fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
    Expr::compare(op, left, right).unwrap()
}

fn projected(batch: &RecordBatch, parameters: Vec<Scalar>, expr: Expr) -> Pipeline {
    let steps = vec![Step::Project(vec![named(expr, "v")])];
    pipeline(&batch.schema(), parameters, steps)
}

fn sum(argument: Expr) -> AggregateCall {
    let data_type = argument.data_type.clone();
    call(
        AggregateFunction::Sum,
        Some(argument),
        data_type.clone(),
        &[data_type],
    )
    .unwrap()
}

fn count() -> AggregateCall {
    call(AggregateFunction::Count, None, Int64, &[Int64]).unwrap()
}

fn first(stages: &[RowProgram], wanted: impl Fn(&Op) -> bool) -> Option<&Op> {
    let values = stages.iter().flat_map(|program| &program.values);
    values.map(|value| &value.op).find(|op| wanted(op))
}

#[test]
fn equal_operations_are_one_value() {
    let batch = random_batch(&mut Random(1), &[Int64, Int64], 40, Shape::AROUND);
    let product = || binary(ArithmeticOp::Multiply, col(0, &Int64), col(1, &Int64));
    let steps = vec![
        Step::Filter(compare(CompareOp::Gt, product(), param(0, &Int64))),
        group_by(
            vec![],
            vec![sum(product()), sum(product()), count()],
            AggregateOutput::Value,
        ),
    ];
    let pipeline = pipeline(&batch.schema(), vec![int(7)], steps);
    let stages = programs(&pipeline, std::slice::from_ref(&batch), true);
    let is_product = |op: &&super::Value| matches!(op.op, Op::Integer { .. });
    assert_eq!(stages[0].values.iter().filter(is_product).count(), 1);
    let Sink::Groups(groups) = &stages[0].sink else {
        panic!("{}", stages[0]);
    };
    assert_eq!(groups.accumulators.len(), 2);
    assert_eq!(groups.calls[0].accumulators, groups.calls[1].accumulators);
    hold(&pipeline, &[batch]);
}

#[test]
fn filters_are_conjunctions() {
    let batch = random_batch(&mut Random(12), &[Int64, Boolean], 60, Shape::AROUND);
    let above = compare(CompareOp::Gt, col(0, &Int64), param(0, &Int64));
    let below = compare(CompareOp::LtEq, col(0, &Int64), param(1, &Int64));
    let both = Expr::and(above, below).unwrap();
    let all = Expr::and(both, col(1, &Boolean)).unwrap();
    let steps = vec![Step::Filter(all)];
    let pipeline = pipeline(&batch.schema(), vec![int(1), int(100)], steps);
    for are_seen in [true, false] {
        let program = programs(&pipeline, std::slice::from_ref(&batch), are_seen).remove(0);
        let conjuncts = program.conjuncts(program.selected);
        let of = |wanted: fn(&Op) -> bool| {
            let ops = conjuncts.iter().map(|id| &program.value(*id).op);
            ops.filter(|op| wanted(op)).count()
        };
        assert_ne!(of(|op| matches!(op, Op::IsPresent(_))), 0, "{program}");
        assert_eq!(of(|op| matches!(op, Op::Compare { .. })), 2, "{program}");
        assert_eq!(
            of(|op| matches!(op, Op::Or(..) | Op::Not(_))),
            0,
            "{program}"
        );
    }
    hold_rows(&pipeline, &batch);
}

#[test]
fn narrow_facts_leave_no_checks() {
    let decimal = Decimal128(15, 2);
    let batch = random_batch(
        &mut Random(2),
        &[decimal.clone(), decimal.clone()],
        40,
        Shape::SMALL,
    );
    let product = Expr::arithmetic(
        ArithmeticOp::Multiply,
        col(0, &decimal),
        col(1, &decimal),
        Decimal128(31, 4),
    );
    let pipeline = projected(&batch, vec![], product.unwrap());
    let narrow = programs(&pipeline, std::slice::from_ref(&batch), true);
    assert!(narrow[0].raises.is_empty(), "{}", narrow[0]);
    assert!(first(&narrow, |op| matches!(op, Op::IsPresent(_))).is_none());
    let wide = programs(&pipeline, std::slice::from_ref(&batch), false);
    assert_eq!(wide[0].raises.len(), 1, "{}", wide[0]);
    assert!(matches!(wide[0].raises[0].error, Raised::Overflow { .. }));
    hold_rows(&pipeline, &batch);
}

#[test]
fn values_outside_of_their_facts_are_refused() {
    let seen = batch(vec![Arc::new(Int64Array::from(vec![1, 5]))]);
    let expr = binary(ArithmeticOp::Add, col(0, &Int64), col(0, &Int64));
    let pipeline = projected(&seen, vec![], expr);
    let stages = programs(&pipeline, &[seen], true);
    for outside in [Some(6), Some(0), None] {
        let batch = batch(vec![Arc::new(Int64Array::from(vec![Some(2), outside]))]);
        let error = interpret::run(&stages, &[batch], &pipeline.output).unwrap_err();
        assert!(error.to_string().contains("outside"), "{error}");
    }
}

#[test]
fn what_is_not_wanted_does_not_raise() {
    let batch = batch(vec![Arc::new(Int64Array::from(vec![
        Some(0),
        Some(3),
        None,
    ]))]);
    let a = || col(0, &Int64);
    let quotient = || binary(ArithmeticOp::Divide, param(0, &Int64), a());
    let is_zero = || compare(CompareOp::Eq, a(), param(1, &Int64));
    let big = || compare(CompareOp::Gt, quotient(), param(1, &Int64));
    let case = Expr::case(vec![(is_zero(), a())], Some(quotient()), Int64).unwrap();
    let exprs = [
        case,
        Expr::or(is_zero(), big()).unwrap(),
        Expr::and(Expr::not(is_zero()).unwrap(), big()).unwrap(),
        Expr::in_list(a(), vec![param(1, &Int64), quotient()], false).unwrap(),
        big(),
    ];
    for expr in exprs {
        hold_rows(&projected(&batch, vec![int(12), int(0)], expr), &batch);
    }
    let guarded = AggregateCall {
        filter: Some(Expr::not(is_zero()).unwrap()),
        ..sum(quotient())
    };
    let steps = vec![group_by(vec![], vec![guarded], AggregateOutput::Value)];
    hold_rows(
        &pipeline(&batch.schema(), vec![int(12), int(0)], steps),
        &batch,
    );
    let filtered = vec![
        Step::Filter(Expr::not(is_zero()).unwrap()),
        Step::Project(vec![named(quotient(), "v")]),
    ];
    hold_rows(
        &pipeline(&batch.schema(), vec![int(12), int(0)], filtered),
        &batch,
    );
}

#[test]
fn the_first_error_is_the_one_of_the_reference() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![0, 0, i64::MIN, 300])),
        Arc::new(Int64Array::from(vec![0, 5, -1, 1])),
    ];
    let batch = batch(columns);
    let (a, b) = (|| col(0, &Int64), || col(1, &Int64));
    let narrow = Expr::cast(a(), DataType::Int8, CastFailure::Raise).unwrap();
    let narrow = Expr::cast(narrow, Int64, CastFailure::Raise).unwrap();
    let pairs = [
        (binary(ArithmeticOp::Divide, a(), b()), narrow.clone()),
        (narrow, binary(ArithmeticOp::Divide, b(), a())),
    ];
    for (left, right) in pairs {
        let expr = binary(ArithmeticOp::Add, left, right);
        hold_rows(&projected(&batch, vec![], expr), &batch);
    }
}

#[test]
fn stages_follow_each_other() {
    let mut random = Random(5);
    let batch = random_batch(
        &mut random,
        &[DataType::Int8, Int64, Float64],
        200,
        Shape::AROUND,
    );
    let key = || named(col(0, &DataType::Int8), "k");
    let least = call(
        AggregateFunction::Min,
        Some(col(2, &Float64)),
        Float64,
        &[Float64],
    );
    let steps = vec![
        group_by(
            vec![key()],
            vec![sum(col(1, &Int64)), least.unwrap()],
            AggregateOutput::Value,
        ),
        Step::Filter(compare(CompareOp::Gt, col(1, &Int64), param(0, &Int64))),
        Step::Project(vec![
            named(col(2, &Float64), "x"),
            named(col(1, &Int64), "s"),
        ]),
        Step::Sort(Sort {
            keys: vec![
                SortKey {
                    expr: col(0, &Float64),
                    descending: true,
                    nulls_first: false,
                },
                SortKey {
                    expr: binary(ArithmeticOp::Multiply, col(1, &Int64), param(1, &Int64)),
                    descending: false,
                    nulls_first: true,
                },
            ],
            fetch: Some(17),
        }),
        group_by(
            vec![],
            vec![sum(col(1, &Int64)), count()],
            AggregateOutput::State,
        ),
    ];
    let pipeline = pipeline(&batch.schema(), vec![int(10), int(-1)], steps);
    assert_eq!(
        programs(&pipeline, std::slice::from_ref(&batch), true).len(),
        3
    );
    hold(&pipeline, &[batch.slice(0, 120), batch.slice(120, 80)]);
    hold(&pipeline, &[]);
}

#[test]
fn nothing_is_done_by_a_pipeline_without_steps() {
    let batch = random_batch(&mut Random(6), &[Int64, Utf8], 9, Shape::ALL);
    hold(&pipeline(&batch.schema(), vec![], vec![]), &[batch]);
}

/// Halves what is even, is NULL of 3 and fails for other odd numbers.
fn halves() -> Arc<CustomFunction> {
    let body = |arrays: &[ArrayRef]| {
        let values = arrays[0]
            .as_any()
            .downcast_ref::<Int64Array>()
            .ok_or_else(|| BodyFailed("no integers".to_owned()))?;
        let halved = values.iter().map(|value| match value {
            Some(3) | None => Ok(None),
            Some(value) if value % 2 == 0 => Ok(Some(value / 2)),
            Some(value) => Err(BodyFailed(format!("{value} is odd"))),
        });
        let halved: Int64Array = halved.collect::<Result<_, BodyFailed>>()?;
        Ok(Arc::new(halved) as ArrayRef)
    };
    Arc::new(CustomFunction {
        name: "halves".into(),
        arguments: vec![("a".into(), Int64)],
        returns: Int64,
        cuda: "a / 2".into(),
        host: Host(Some(Arc::new(body))),
    })
}

#[test]
fn functions_of_users_are_called_where_they_are_wanted() {
    let rows = vec![Some(4), None, Some(3), Some(7), Some(-6)];
    let batch = batch(vec![Arc::new(Int64Array::from(rows))]);
    let a = || col(0, &Int64);
    let half = Expr::custom(halves(), vec![a()]).unwrap();
    hold_rows(&projected(&batch, vec![], half.clone()), &batch);
    let is_seven = compare(CompareOp::Eq, a(), param(0, &Int64));
    let case = Expr::case(vec![(is_seven, a())], Some(half.clone()), Int64).unwrap();
    hold(
        &projected(&batch, vec![int(7)], case),
        std::slice::from_ref(&batch),
    );
    let is_there = Expr::is_null(half).unwrap();
    hold_rows(&projected(&batch, vec![], is_there), &batch);
}

#[test]
fn a_literal_interval_of_one_part_takes_one_step() {
    let unit = DataType::Interval(IntervalUnit::MonthDayNano);
    let batch = random_batch(&mut Random(8), &[Date32], 60, Shape::AROUND);
    let days = |days| {
        let value = ScalarValue::Interval {
            months: 0,
            days,
            nanoseconds: 0,
        };
        vec![scalar(unit.clone(), value)]
    };
    let moved = Expr::arithmetic(
        ArithmeticOp::Subtract,
        col(0, &Date32),
        param(0, &unit),
        Date32,
    );
    let pipeline = projected(&batch, days(90), moved.unwrap());
    let stages = programs(&pipeline, std::slice::from_ref(&batch), true);
    assert!(stages[0].raises.is_empty(), "{}", stages[0]);
    assert!(first(&stages, |op| matches!(op, Op::Call { .. })).is_none());
    hold_rows(&pipeline, &batch);
}

#[test]
fn averages_of_integers_sum_integers() {
    let big = [i64::MAX, i64::MAX - 2, 3, -5];
    let batch = batch(vec![Arc::new(Int64Array::from(big.to_vec()))]);
    let float = Expr::cast(col(0, &Int64), Float64, CastFailure::Raise).unwrap();
    let state = [DataType::UInt64, Float64];
    let avg = call(AggregateFunction::Avg, Some(float), Float64, &state).unwrap();
    let steps = vec![group_by(vec![], vec![avg], AggregateOutput::Value)];
    let pipeline = pipeline(&batch.schema(), vec![], steps);
    let stages = programs(&pipeline, std::slice::from_ref(&batch), true);
    let Sink::Groups(groups) = &stages[0].sink else {
        panic!("{}", stages[0]);
    };
    assert_eq!(
        groups.accumulators[1].reduce,
        Reduce::SumInteger { bits: 128 }
    );
    let found = interpret::run(&stages, &[batch], &pipeline.output).unwrap();
    let found = found[0]
        .column(0)
        .as_any()
        .downcast_ref::<Float64Array>()
        .unwrap();
    let exact: i128 = big.iter().map(|value| i128::from(*value)).sum();
    assert_eq!(found.value(0), exact as f64 / 4.0);
}

#[test]
fn a_program_reads_as_text() {
    let columns = vec![
        random_batch(&mut Random(3), &[Int32], 30, Shape::SMALL)
            .column(0)
            .slice(0, 30),
        random_batch(&mut Random(4), &[Int64], 30, Shape::AROUND)
            .column(0)
            .slice(0, 30),
        random_batch(&mut Random(4), &[Boolean], 30, Shape::SMALL)
            .column(0)
            .slice(0, 30),
    ];
    let batch = batch(columns);
    let quotient = binary(ArithmeticOp::Divide, col(1, &Int64), param(0, &Int64));
    let steps = vec![
        Step::Filter(col(2, &Boolean)),
        group_by(
            vec![named(col(0, &Int32), "k")],
            vec![sum(quotient), count()],
            AggregateOutput::Value,
        ),
    ];
    let pipeline = pipeline(&batch.schema(), vec![int(0)], steps);
    let text = programs(&pipeline, &[batch], false)[0].to_string();
    let expected = "\
\x20 v0   : bool                     = row exists
  v1   : bool                     = c
  v2   : bool                     = c is not null
  v3   : bool                     = v2 and v1
  v4   : bool                     = v0 and v3
  v5   : i32                      = a
  v6   : bool                     = a is not null
  v7   : i64                      = b
  v8   : bool                     = b is not null
  v9   : i32 0                    = parameter 0: 0
  v10  : i32 0                    = 0
  v11  : bool                     = v9 = v10
  v12  : bool                     = v4 and v8
  v13  : i64                      = v7 / v9
  raise division by zero where v12 and v11
  select v4
  key k Int32 = v5 if v6
  accumulate a0 = sum modulo 2^64 of v13 where v12
  accumulate a1 = count where v4
  call sum of a0:
    v0   : bool                     = row exists
    v1   : i64                      = sum
    v2   : bool                     = sum is not null
    select v0
    output v Int64 = v1 if v2
  call count of a1:
    v0   : bool                     = row exists
    v1   : i64 0..=9223372036854775807 = count
    v2   : bool                     = true
    select v0
    output v Int64 = v1
";
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn broken_programs_are_found() {
    let batch = random_batch(&mut Random(9), &[Int64, Boolean], 5, Shape::AROUND);
    let steps = vec![
        Step::Filter(col(1, &Boolean)),
        group_by(vec![], vec![sum(col(0, &Int64))], AggregateOutput::Value),
    ];
    let pipeline = pipeline(&batch.schema(), vec![], steps);
    let program = programs(&pipeline, &[batch], false).remove(0);
    let broken = |change: &dyn Fn(&mut RowProgram)| {
        let mut program = program.clone();
        change(&mut program);
        verify(&program).len()
    };
    assert_eq!(broken(&|_| {}), 0);
    assert!(broken(&|program| program.values.reverse()) > 0);
    assert!(broken(&|program| program.selected = ValueId(99)) > 0);
    let groups = |program: &mut RowProgram, change: &dyn Fn(&mut super::Accumulator)| {
        if let Sink::Groups(groups) = &mut program.sink {
            groups.accumulators.iter_mut().for_each(change);
        }
    };
    assert!(broken(&|program| groups(program, &|of| of.reduce = Reduce::SumFloat)) > 0);
    assert!(broken(&|program| groups(program, &|of| of.value = None)) > 0);
    let first = program
        .values
        .iter()
        .position(|value| value.op == Op::RowExists);
    let exists = ValueId(first.unwrap() as u32);
    assert!(broken(&|program| groups(program, &|of| of.rows = exists)) > 0);
}
