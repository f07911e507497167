//! What short queries ask of a device beside their kernel, counted: a few groups over rows that are
//! there, folded and finished as a prepared statement does.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_kernels::engine::Machine;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::StoreLimits;
use tidegate_pipeline::{ArithmeticOp, CompareOp, Expr, Pipeline, Sort, SortKey, Step};

use crate::cells::rows_of;
use crate::data::{batch, integers};
use crate::plan::{Plan, arithmetic, avg, compare, count, multiply, sum};
use crate::reference::interpret;
use crate::shim::{Calls, ShimMachine, now, options};
use crate::steps::stored;

const MONEY: DataType = DataType::Decimal128(15, 2);
const ROWS: i128 = 1_000;

/// Ship date, discount, quantity, price, tax, return flag, line status.
fn lineitem() -> RecordBatch {
    let column = |data_type: &DataType, value: &dyn Fn(i128) -> i128| -> ArrayRef {
        let values: Vec<Option<i128>> = (0..ROWS).map(|row| Some(value(row))).collect();
        integers(data_type, &values)
    };
    batch(vec![
        column(&DataType::Date32, &|row| 8036 + row * 7919 % 2526),
        column(&MONEY, &|row| row % 11),
        column(&MONEY, &|row| 100 + row % 50 * 100),
        column(&MONEY, &|row| 90_000 + row * 104_729 % 10_404_951),
        column(&MONEY, &|row| row % 9),
        column(&DataType::Int8, &|row| row * 7 % 3),
        column(&DataType::Int8, &|row| row % 2),
    ])
}

/// TPC-H Q6.
fn q6(input: &RecordBatch) -> Pipeline {
    let mut plan = Plan::over(input);
    let (from, to) = (
        plan.int(DataType::Date32, 8766),
        plan.int(DataType::Date32, 9131),
    );
    let (low, less) = (plan.int(MONEY, 5), plan.int(MONEY, 2400));
    let conditions = [
        compare(CompareOp::GtEq, plan.col(0), from),
        compare(CompareOp::Lt, plan.col(0), to),
        compare(CompareOp::GtEq, plan.col(1), low),
        compare(CompareOp::Lt, plan.col(2), less),
    ];
    let all = conditions
        .into_iter()
        .reduce(|all, next| Expr::and(all, next).unwrap());
    let plan = plan.filter(all.unwrap());
    let revenue = multiply(plan.col(3), plan.col(1));
    plan.group(vec![], vec![sum(revenue)]).build()
}

/// TPC-H Q1, in the order of its groups.
fn q1(input: &RecordBatch) -> Pipeline {
    let mut plan = Plan::over(input);
    let date = plan.int(DataType::Date32, 10_471);
    let one = plan.int(MONEY, 100);
    let until = compare(CompareOp::LtEq, plan.col(0), date);
    let plan = plan.filter(until);
    let [discount, quantity, price, tax] = [1, 2, 3, 4].map(|index| plan.col(index));
    let left = arithmetic(ArithmeticOp::Subtract, one.clone(), discount.clone());
    let discounted = multiply(price.clone(), left);
    let charge = multiply(discounted.clone(), arithmetic(ArithmeticOp::Add, one, tax));
    let calls = vec![
        sum(quantity.clone()),
        sum(price.clone()),
        sum(discounted),
        sum(charge),
        avg(quantity),
        avg(price),
        avg(discount),
        count(),
    ];
    let keys = vec![plan.col(5), plan.col(6)];
    let groups = plan.group(keys, calls);
    let columns = groups.cols();
    let mut plan = groups.project(columns);
    let keys = [0, 1].map(|index| SortKey {
        expr: plan.col(index),
        descending: false,
        nulls_first: false,
    });
    plan.push(Step::Sort(Sort {
        keys: keys.into(),
        fetch: None,
    }));
    plan.build()
}

/// Runs a pipeline twice over columns that are there, and returns what the second time asks for.
fn warm(name: &str, pipeline: Pipeline, input: &RecordBatch) -> Calls {
    let expected = rows_of(&interpret(&pipeline, std::slice::from_ref(input)).unwrap());
    let machine = ShimMachine::new(3, 1 << 30);
    let options = options(StoreLimits::default());
    let (columns, buffers): (Vec<_>, Vec<_>) = (0..input.num_columns())
        .map(|index| stored(&machine, input, index))
        .unzip();
    let run = |folds: usize| {
        machine.calls.take();
        let mut execution = machine.execution(&pipeline, &options).unwrap();
        for _ in 0..folds {
            let rows = input.num_rows() as u64;
            now(execution.fold_resident(&machine, rows, &columns)).unwrap();
        }
        let leaving = now(execution.finish(&machine, &FinishLimits::default())).unwrap();
        (
            rows_of(&leaving.into_batches().unwrap()),
            machine.calls.get(),
        )
    };
    assert_eq!(run(1).0, expected, "{name}");
    let (rows, calls) = run(1);
    assert_eq!(rows, expected, "{name}");
    // What one launch has brought to the host is not the answer of two.
    let twice = [input.clone(), input.clone()];
    let expected = rows_of(&interpret(&pipeline, &twice).unwrap());
    assert_eq!(run(2).0, expected, "{name}, folded twice");
    drop(buffers);
    assert_eq!(Machine::budget(&machine).used(), 0, "{name}");
    calls
}

#[test]
fn a_few_groups_take_one_launch_and_one_copy() {
    let input = lineitem();
    // The rows' description, which a cached table keeps, and the groups with the launch's flags.
    let expected = Calls {
        allocations: 2,
        writes: 1,
        fills: 1,
        launches: 1,
        reads: 1,
    };
    assert_eq!(warm("Q6", q6(&input), &input), expected);
    assert_eq!(warm("Q1", q1(&input), &input), expected);
}

#[test]
fn groups_that_bits_tell_come_with_their_bits() {
    let input = lineitem();
    let plan = Plan::over(&input);
    // Nothing among these calls tells whether a group has a row.
    let (keys, calls) = (vec![plan.col(5), plan.col(6)], vec![sum(plan.col(3))]);
    let groups = plan.group(keys, calls);
    let by = groups.col(2);
    let pipeline = groups.sort(by, None).build();
    let calls = warm("bits", pipeline, &input);
    assert_eq!((calls.launches, calls.reads), (1, 1));
}

#[test]
fn many_groups_are_read_by_themselves() {
    let input = lineitem();
    let plan = Plan::over(&input);
    let (keys, calls) = (
        vec![plan.col(0), plan.col(1)],
        vec![sum(plan.col(3)), count()],
    );
    let groups = plan.group(keys, calls);
    let by = groups.col(2);
    let pipeline = groups.sort(by, None).build();
    let calls = warm("many groups", pipeline, &input);
    assert_eq!((calls.launches, calls.reads), (1, 2));
}
