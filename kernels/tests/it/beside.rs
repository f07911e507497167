//! Kernels that are compiled beside the work that waits for them: it begins once, and does nothing twice.

use arrow_array::RecordBatch;
use arrow_schema::DataType::{Int32, Int64, Utf8};
use tidegate_kernels::Sample;
use tidegate_kernels::engine::Machine;
use tidegate_kernels::execution::{Execution, FinishLimits};
use tidegate_kernels::program::StoreLimits;
use tidegate_pipeline::{CompareOp, Pipeline, Sort, SortKey, Step};

use crate::cells::sorted_rows;
use crate::data::{Shape, batch, column, random};
use crate::plan::{Plan, compare, count, max, sum};
use crate::reference::interpret;
use crate::shim::{Buffer, Calls, ShimMachine, now, options};

/// All that can be is done on the device.
const LIMITS: FinishLimits = FinishLimits {
    slots_min: 0,
    groups_min: 0,
    copied_bytes_max: 0,
    first_rows_max: 64,
    spare_rows: 0,
};

/// Keys of many and of few values, with NULLs, and a value.
fn table() -> RecordBatch {
    let mut random = random(5);
    let rows = 1200;
    batch(vec![
        column(&mut random, &Int32, rows, Shape::within(-3, 300).nulls(5)),
        column(&mut random, &Int64, rows, Shape::within(-9, 9).nulls(20)),
        column(&mut random, &Utf8, rows, Shape::all().nulls(10)),
    ])
}

/// Groups by the first column, then the groups by how many rows they have, `times` times.
fn regrouped(input: &RecordBatch, times: usize) -> Plan {
    let plan = Plan::over(input);
    let (key, value) = (plan.col(0), plan.col(1));
    let mut plan = plan.group(vec![key], vec![count(), sum(value)]);
    for _ in 0..times {
        let (key, value) = (plan.col(1), plan.col(2));
        plan = plan.group(vec![key], vec![count(), sum(value)]);
    }
    plan
}

fn execution(machine: &ShimMachine, pipeline: &Pipeline) -> Execution<Buffer> {
    let options = options(StoreLimits::default());
    machine.execution(pipeline, &options).unwrap()
}

/// Folds and ends; what waits for kernels asks the same of the machine as what has them all.
fn check(name: &str, pipeline: &Pipeline, input: &RecordBatch) {
    let batches = std::slice::from_ref(input);
    // The same rows come twice.
    let expected = interpret(pipeline, &[input.clone(), input.clone()]).unwrap();
    let expected = sorted_rows(&expected);
    assert!(!expected.is_empty());
    let machine = ShimMachine::new(3, 1 << 30).compiling_beside();
    let mut execution = execution(&machine, pipeline);
    let waits = [0, 1].map(|_| {
        let (folded, num_waits) = machine.compiling_for(execution.fold(&machine, batches));
        folded.unwrap();
        num_waits
    });
    // All that a fold needs is compiled at once, and the second needs nothing more.
    assert_eq!(waits, [1, 0], "{name}");
    let (leaving, num_waits) = machine.compiling_for(execution.finish(&machine, &LIMITS));
    let leaving = leaving.unwrap();
    assert!(num_waits > 1, "{name}");
    assert_eq!(leaving.host_reason(), None, "{name}");
    let found = sorted_rows(&leaving.into_batches().unwrap());
    assert!(machine.num_sources() > 2, "{name}");
    assert_eq!(Machine::budget(&machine).used(), 0, "{name}");
    assert_eq!(found, expected, "{name}");
    assert_eq!(
        machine.calls.get(),
        calls_without_waiting(pipeline, batches),
        "{name}"
    );
}

/// Folds and ends on a machine that compiles at once, and returns what was asked of it.
fn calls_without_waiting(pipeline: &Pipeline, batches: &[RecordBatch]) -> Calls {
    let machine = ShimMachine::new(3, 1 << 30);
    let mut execution = execution(&machine, pipeline);
    for _ in 0..2 {
        now(execution.fold(&machine, batches)).unwrap();
    }
    now(execution.finish(&machine, &LIMITS)).unwrap();
    machine.calls.get()
}

#[test]
fn the_end_of_groups_that_are_grouped_again_waits_for_no_compiler() {
    let input = table();
    check(
        "groups of groups of groups",
        &regrouped(&input, 2).build(),
        &input,
    );
    // What comes after the groups' groups is a program of its own.
    let mut plan = regrouped(&input, 1);
    let few = plan.int(Int64, 1);
    let many = compare(CompareOp::Gt, plan.col(1), few);
    let mut plan = plan.filter(many);
    let keys = [0, 1].map(|index| SortKey {
        expr: plan.col(index),
        descending: true,
        nulls_first: false,
    });
    plan.push(Step::Sort(Sort {
        keys: keys.to_vec(),
        fetch: Some(3),
    }));
    check("the first of an order", &plan.build(), &input);
}

#[test]
fn what_was_compiled_for_rows_is_what_folding_them_needs() {
    let input = table();
    let batches = vec![input.clone()];
    let plan = Plan::over(&input);
    let calls = vec![count(), max(plan.col(2)), sum(plan.col(1))];
    let pipeline = plan.clone().group(vec![plan.col(0)], calls).build();
    let expected = sorted_rows(&interpret(&pipeline, &batches).unwrap());
    let machine = ShimMachine::new(4, 1 << 30).compiling_beside();
    let mut ahead = execution(&machine, &pipeline);
    let sample = Sample::Loaded(batches.clone());
    ahead.survey(&machine, &sample).unwrap();
    let (compiled, num_waits) = machine.compiling_for(ahead.compile(&machine, &LIMITS));
    compiled.unwrap();
    assert_eq!(num_waits, 1);
    assert!(machine.num_sources() > 1);
    let mut execution = execution(&machine, &pipeline);
    now(execution.fold(&machine, &batches)).unwrap();
    let leaving = now(execution.finish(&machine, &LIMITS));
    let found = sorted_rows(&leaving.unwrap().into_batches().unwrap());
    assert_eq!(found, expected);
}
