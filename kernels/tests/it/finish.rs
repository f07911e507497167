//! Groups that are finished on the device: read by another program, ordered, or let out as columns.
//!
//! A whole pipeline runs as an execution does on a GPU, with groups in each kind of store, and gives
//! the interpreter's rows. Float sums are of whole numbers, which no order rounds.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_device::DeviceError;
use tidegate_kernels::RunError;
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::StoreLimits;
use tidegate_pipeline::{CompareOp, Expr, Pipeline, Sort, SortKey, Step};

use crate::cells::{Cell, rows_of, sorted};
use crate::check::each_store;
use crate::data::{Shape, batch, column, cut, floats_as, integers, random, strings_as};
use crate::plan::{Plan, avg, cast, compare, count, count_of, filtered, max, min, multiply, sum};
use crate::reference::interpret;
use crate::shim::{ShimMachine, now, options};

use DataType::{
    Boolean, Date32, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64,
    UInt32, UInt64, Utf8,
};

const MEMORY: u64 = 1 << 30;

/// Everything is finished on the device, and no more rows leave than have to.
const LIMITS: FinishLimits = FinishLimits {
    slots_min: 0,
    groups_min: 0,
    copied_bytes_max: 0,
    first_rows_max: 64,
    spare_rows: 0,
};

struct Run {
    rows: Vec<Vec<Cell>>,
    host_reason: Option<String>,
    /// The kernels that were asked for.
    kernels: Vec<&'static str>,
}

fn run(
    machine: &ShimMachine,
    pipeline: &Pipeline,
    batches: &[RecordBatch],
    stores: StoreLimits,
    limits: &FinishLimits,
) -> Result<Run, RunError> {
    let mut execution = machine.execution(pipeline, &options(stores))?;
    now(execution.fold(machine, batches))?;
    let leaving = now(execution.finish(machine, limits))?;
    let host_reason = leaving.host_reason().map(str::to_owned);
    let rows = rows_of(&leaving.into_batches()?);
    Ok(Run {
        rows,
        host_reason,
        kernels: machine.asked.borrow().concat(),
    })
}

/// Holds a pipeline against the interpreter: its rows, in order if it ends with an ordering.
fn check(name: &str, pipeline: &Pipeline, batches: &[RecordBatch]) {
    let expected = interpret(pipeline, batches).map(|batches| rows_of(&batches));
    let is_ordered = matches!(pipeline.steps.last(), Some(Step::Sort(_)));
    for (store, stores) in each_store() {
        for seed in [1, 2] {
            let machine = ShimMachine::new(seed, MEMORY);
            let found = run(&machine, pipeline, batches, stores, &LIMITS);
            let used = tidegate_kernels::engine::Machine::budget(&machine).used();
            assert_eq!(used, 0, "{name}, {store}: bytes stay promised");
            let (expected, found) = match (&expected, found) {
                (Ok(expected), Ok(found)) => (expected.clone(), found),
                (Err(expected), Err(RunError::Eval(found))) => {
                    assert!(expected.is_arithmetic() && found.is_arithmetic(), "{found}");
                    continue;
                }
                (expected, found) => panic!(
                    "{name}, {store}: {:?} instead of {:?}",
                    found.map(|run| run.rows),
                    expected.as_ref().map(Vec::len)
                ),
            };
            assert_eq!(found.host_reason, None, "{name}, {store}");
            assert!(
                found.kernels.contains(&"finish"),
                "{name}: {:?}",
                found.kernels
            );
            let (expected, found) = if is_ordered {
                (expected, found.rows)
            } else {
                (sorted(expected), sorted(found.rows))
            };
            assert_eq!(found, expected, "{name}, {store}, seed {seed}\n{pipeline}");
        }
    }
}

/// Orders by columns, each descending or not and with NULLs first or not.
fn ordered(mut plan: Plan, keys: &[(usize, bool, bool)], fetch: Option<usize>) -> Pipeline {
    let keys = keys.iter().map(|(index, descending, nulls_first)| SortKey {
        expr: plan.col(*index),
        descending: *descending,
        nulls_first: *nulls_first,
    });
    let keys = keys.collect();
    plan.push(Step::Sort(Sort { keys, fetch }));
    plan.build()
}

/// A column of few and one of many integers, both with NULLs, whole floats, decimals and strings.
fn table(rows: usize) -> RecordBatch {
    let mut random = random(rows as u64 + 7);
    let floats = column(
        &mut random,
        &Int32,
        rows,
        Shape::within(-900, 900).nulls(10),
    );
    let floats = rows_of(&[batch(vec![floats])]);
    let floats: Vec<Option<f64>> = floats
        .iter()
        .map(|row| match row[0] {
            Cell::Integer(value) => Some(value as f64),
            _ => None,
        })
        .collect();
    batch(vec![
        column(&mut random, &Int32, rows, Shape::within(-3, 200).nulls(5)),
        column(
            &mut random,
            &Int64,
            rows,
            Shape::within(-1 << 40, 1 << 40).nulls(20),
        ),
        floats_as(&Float64, &floats),
        column(
            &mut random,
            &Decimal128(15, 2),
            rows,
            Shape::within(-9_999, 99_999).nulls(20),
        ),
        column(&mut random, &Utf8, rows, Shape::all().nulls(10)),
        column(&mut random, &Int16, rows, Shape::within(-40, 40)),
    ])
}

const KEY: usize = 0;
const WIDE: usize = 1;
const FLOAT: usize = 2;
const MONEY: usize = 3;
const TEXT: usize = 4;
const SMALL: usize = 5;

fn grouped(input: &RecordBatch, keys: &[usize]) -> Plan {
    let plan = Plan::over(input);
    let keys = keys.iter().map(|key| plan.col(*key)).collect();
    let calls = vec![
        count(),
        sum(plan.col(WIDE)),
        sum(plan.col(FLOAT)),
        avg(plan.col(SMALL)),
        sum(plan.col(MONEY)),
        max(plan.col(SMALL)),
    ];
    plan.group(keys, calls)
}

#[test]
fn having_and_projections() {
    let input = table(1500);
    let mut plan = grouped(&input, &[KEY]);
    let few = plan.int(Int64, 5);
    let many = compare(CompareOp::Gt, plan.col(1), few);
    let plan = plan.filter(many);
    check("having", &plan.clone().build(), &cut(&input, &[700]));
    let plus = plan.col(4);
    let columns = vec![plan.col(0), plus, plan.col(2), plan.col(6)];
    let projected = plan.project(columns);
    check(
        "having and a projection",
        &projected.build(),
        &cut(&input, &[700]),
    );
    // A pattern over the key, and a string that leaves.
    let mut plan = grouped(&input, &[TEXT, KEY]);
    let pattern = plan.text("a%");
    let like = Expr::like(plan.col(0), pattern, false, false).unwrap();
    let plan = plan.filter(like);
    check("having a pattern", &plan.build(), &cut(&input, &[3]));
}

#[test]
fn groups_of_groups() {
    let input = table(1500);
    let plan = grouped(&input, &[KEY]);
    let calls = vec![
        count(),
        sum(plan.col(2)),
        sum(plan.col(3)),
        avg(plan.col(5)),
        sum(plan.col(5)),
        max(plan.col(6)),
        min(plan.col(2)),
        count_of(plan.col(0)),
    ];
    let all = plan.clone().group(vec![], calls.clone());
    check("all groups", &all.build(), &cut(&input, &[700]));
    let again = plan.clone().group(vec![plan.col(1)], calls);
    check(
        "groups by their count",
        &again.clone().build(),
        &cut(&input, &[700]),
    );
    let third = again
        .clone()
        .group(vec![again.col(1)], vec![count(), sum(again.col(0))]);
    check(
        "groups of groups of groups",
        &third.build(),
        &cut(&input, &[]),
    );
    let by_text = grouped(&input, &[TEXT, SMALL]);
    let by_text = by_text.clone().group(
        vec![by_text.col(0)],
        vec![count(), sum(by_text.col(3)), max(by_text.col(1))],
    );
    check("strings again", &by_text.build(), &cut(&input, &[]));
    let mut filtered_plan = grouped(&input, &[KEY]);
    let zero = filtered_plan.int(Int64, 0);
    let positive = compare(CompareOp::Gt, filtered_plan.col(2), zero);
    let calls = vec![filtered(sum(filtered_plan.col(3)), positive), count()];
    let columns = filtered_plan.group(vec![], calls);
    check("filtered calls", &columns.build(), &cut(&input, &[]));
}

#[test]
fn no_groups_and_one() {
    let input = table(40);
    let none = input.slice(0, 0);
    let one = input.slice(3, 1);
    for (name, rows) in [("none", &none), ("one", &one)] {
        let plan = grouped(rows, &[KEY]);
        let calls = vec![count(), sum(plan.col(2)), avg(plan.col(3))];
        check(
            name,
            &plan.clone().group(vec![], calls).build(),
            std::slice::from_ref(rows),
        );
        check(name, &plan.build(), std::slice::from_ref(rows));
        let all = grouped(rows, &[]);
        let calls = vec![count(), sum(all.col(1))];
        check(
            name,
            &all.group(vec![], calls).build(),
            std::slice::from_ref(rows),
        );
    }
    // Rows, none of which is selected.
    let mut plan = Plan::over(&input);
    let beyond = plan.int(Int32, 1000);
    let never = compare(CompareOp::Gt, plan.col(KEY), beyond);
    let plan = plan.filter(never);
    let plan = plan
        .clone()
        .group(vec![plan.col(KEY)], vec![sum(plan.col(WIDE))]);
    let plan = plan.clone().group(vec![], vec![count(), sum(plan.col(1))]);
    check("nothing selected", &plan.build(), &[input]);
}

#[test]
fn integers_at_their_ends() {
    let ends: Vec<Option<i128>> = (0..600)
        .map(|row| match row % 5 {
            0 => Some(i128::from(i64::MAX)),
            1 => Some(i128::from(i64::MIN)),
            2 => None,
            _ => Some(row - 300),
        })
        .collect();
    let large: Vec<Option<i128>> = (0..600)
        .map(|row| Some((1 << 64) - 1 - i128::from(row % 7)))
        .collect();
    let by: Vec<Option<i128>> = (0..600).map(|row| Some(i128::from(row % 97))).collect();
    let input = batch(vec![
        integers(&Int32, &by),
        integers(&Int64, &ends),
        integers(&UInt64, &large),
    ]);
    let plan = Plan::over(&input);
    for key in [0, 1, 2] {
        let calls = vec![
            sum(plan.col(1)),
            sum(plan.col(2)),
            min(plan.col(1)),
            max(plan.col(2)),
            count(),
        ];
        let inner = plan.clone().group(vec![plan.col(key)], calls);
        let calls = vec![
            sum(inner.col(1)),
            sum(inner.col(2)),
            min(inner.col(3)),
            max(inner.col(4)),
            avg(inner.col(5)),
        ];
        check(
            "wrapped",
            &inner.clone().group(vec![], calls.clone()).build(),
            &cut(&input, &[]),
        );
        let keyed = inner.clone().group(vec![inner.col(0)], calls);
        check("wrapped, by the key", &keyed.build(), &cut(&input, &[]));
    }
}

#[test]
fn decimals_of_every_width() {
    for (data_type, most) in [
        (Decimal32(9, 2), 999_999_999_i128),
        (Decimal64(18, 2), 1 << 50),
        (Decimal128(15, 2), 1 << 40),
        (Decimal128(38, 2), 10_i128.pow(30)),
    ] {
        let mut random = random(5);
        let input = batch(vec![
            column(&mut random, &Int16, 400, Shape::within(0, 60)),
            column(
                &mut random,
                &data_type,
                400,
                Shape::within(-most, most).nulls(30),
            ),
            column(
                &mut random,
                &data_type,
                400,
                Shape::within(-20, 20).nulls(10),
            ),
        ]);
        let plan = Plan::over(&input);
        let mut calls = vec![sum(plan.col(1)), sum(plan.col(2))];
        if most < 1 << 60 {
            calls.extend([avg(plan.col(2)), avg(plan.col(1)), max(plan.col(1))]);
        }
        let inner = plan.clone().group(vec![plan.col(0)], calls);
        check(
            &format!("{data_type}"),
            &inner.clone().build(),
            &cut(&input, &[]),
        );
        let calls = vec![count_of(inner.col(1)), sum(inner.col(1)), sum(inner.col(2))];
        let again = inner.group(vec![], calls);
        check(
            &format!("{data_type} again"),
            &again.build(),
            &cut(&input, &[]),
        );
        if data_type == Decimal128(38, 2) {
            continue;
        }
        let by_money = plan
            .clone()
            .group(vec![plan.col(2)], vec![sum(plan.col(1))]);
        let two = multiply(by_money.col(0), by_money.col(0));
        let columns = by_money
            .clone()
            .project(vec![by_money.col(0), two, by_money.col(1)]);
        check(
            &format!("{data_type} as a key"),
            &columns.build(),
            &cut(&input, &[]),
        );
    }
}

#[test]
fn keys_of_floats_and_booleans() {
    let special = [
        Some(0.0),
        Some(-0.0),
        Some(f64::NAN),
        Some(-f64::NAN),
        Some(f64::INFINITY),
        None,
        Some(1.5),
    ];
    let floats: Vec<Option<f64>> = (0..300).map(|row| special[row % special.len()]).collect();
    let mut random = random(11);
    let input = batch(vec![
        floats_as(&Float64, &floats),
        floats_as(&Float32, &floats),
        column(&mut random, &Boolean, 300, Shape::all()),
        column(&mut random, &Date32, 300, Shape::within(0, 5)),
        column(&mut random, &UInt32, 300, Shape::all()),
        column(&mut random, &Int8, 300, Shape::all()),
    ]);
    let plan = Plan::over(&input);
    for keys in [vec![0], vec![1], vec![2, 3], vec![2, 5]] {
        let keys: Vec<Expr> = keys.into_iter().map(|key| plan.col(key)).collect();
        let num_keys = keys.len();
        let calls = vec![
            count(),
            max(plan.col(4)),
            min(plan.col(2)),
            min(plan.col(5)),
            min(plan.col(0)),
            max(plan.col(1)),
        ];
        let inner = plan.clone().group(keys, calls);
        check("special keys", &inner.clone().build(), &cut(&input, &[]));
        let again = inner.clone().group(
            vec![inner.col(0)],
            vec![
                sum(inner.col(num_keys)),
                count(),
                min(inner.col(num_keys + 3)),
                max(inner.col(num_keys + 4)),
                min(inner.col(num_keys + 5)),
            ],
        );
        check("special keys again", &again.build(), &cut(&input, &[]));
    }
}

#[test]
fn the_first_of_an_order() {
    let input = table(1500);
    let plan = grouped(&input, &[SMALL, KEY]);
    // Both keys at the end make the order total.
    for by in 2..plan.types().len() {
        for (descending, fetch) in [(true, 1), (false, 10), (true, 64)] {
            let nulls_first = (by + fetch) % 2 == 0;
            let keys = [
                (by, descending, nulls_first),
                (0, false, false),
                (1, true, true),
            ];
            let pipeline = ordered(plan.clone(), &keys, Some(fetch));
            check(
                &format!("first {fetch} by {by}"),
                &pipeline,
                &cut(&input, &[]),
            );
        }
    }
}

#[test]
fn orders_after_other_steps() {
    let input = table(1500);
    let mut plan = grouped(&input, &[SMALL, KEY]);
    let few = plan.int(Int64, 1);
    let many = compare(CompareOp::Gt, plan.col(2), few);
    let having = plan.filter(many);
    let columns = vec![
        having.col(3),
        having.col(0),
        having.col(1),
        cast(having.col(2), Float64),
    ];
    let projected = having.project(columns);
    let keys = [(0, true, false), (1, false, false), (2, false, true)];
    check(
        "after having",
        &ordered(projected.clone(), &keys, Some(7)),
        &cut(&input, &[]),
    );
    check(
        "without a limit",
        &ordered(projected.clone(), &keys, None),
        &cut(&input, &[]),
    );
    check(
        "a large limit",
        &ordered(projected, &keys, Some(400)),
        &cut(&input, &[]),
    );
    let inner = grouped(&input, &[SMALL, KEY]);
    let calls = vec![sum(inner.col(3)), count()];
    let again = inner.clone().group(vec![inner.col(1)], calls);
    let keys = [(1, true, false), (0, false, false)];
    check(
        "groups of groups",
        &ordered(again, &keys, Some(5)),
        &cut(&input, &[]),
    );
}

#[test]
fn ties_and_rows_that_are_all_equal() {
    let input = table(1500);
    let plan = grouped(&input, &[SMALL, KEY]);
    let plan = plan.clone().project(vec![plan.col(2)]);
    // Rows that tie are the same here.
    for fetch in [1, 5, 64] {
        let pipeline = ordered(plan.clone(), &[(0, false, false)], Some(fetch));
        check("ties", &pipeline, &cut(&input, &[]));
    }
    let distinct: Vec<Option<i128>> = (0..700).map(Some).collect();
    let same = integers(&Int64, &vec![Some(3); 700]);
    let input = batch(vec![integers(&Int32, &distinct), same]);
    let plan = Plan::over(&input);
    let plan = plan
        .clone()
        .group(vec![plan.col(0)], vec![sum(plan.col(1)), count()]);
    let plan = plan.clone().project(vec![plan.col(1), plan.col(2)]);
    let pipeline = ordered(plan, &[(0, true, false), (1, false, false)], Some(20));
    check("all equal", &pipeline, &cut(&input, &[]));
}

#[test]
fn an_order_of_strings_is_the_hosts() {
    let input = table(600);
    let plan = grouped(&input, &[TEXT, SMALL]);
    let pipeline = ordered(plan, &[(0, false, false), (1, false, false)], Some(5));
    check("strings", &pipeline, &cut(&input, &[]));
}

#[test]
fn what_the_host_finishes() {
    let input = table(600);
    let reason = |pipeline: &Pipeline, input: &RecordBatch, memory: u64, limits: &FinishLimits| {
        let machine = ShimMachine::new(3, memory);
        let stores = each_store()[1].1;
        let batches = std::slice::from_ref(input);
        let found = run(&machine, pipeline, batches, stores, limits).unwrap();
        let expected = rows_of(&interpret(pipeline, batches).unwrap());
        assert_eq!(sorted(found.rows), sorted(expected));
        assert_eq!(
            tidegate_kernels::engine::Machine::budget(&machine).used(),
            0
        );
        found.host_reason.unwrap()
    };
    let plan = grouped(&input, &[KEY]);
    let inner = plan.clone().build();
    let usual = FinishLimits::default();
    assert!(reason(&inner, &input, MEMORY, &usual).contains("slots are copied faster"));
    let over = plan
        .clone()
        .group(vec![], vec![count(), sum(plan.col(2))])
        .build();
    // Room for the table alone.
    assert!(reason(&over, &input, 36_000, &LIMITS).contains("out of memory"));
}

#[test]
fn few_groups_leave_before_what_follows() {
    let input = table(600);
    let plan = grouped(&input, &[KEY]);
    let pipeline = plan
        .clone()
        .group(vec![], vec![count(), sum(plan.col(2))])
        .build();
    let machine = ShimMachine::new(3, MEMORY);
    let limits = FinishLimits {
        groups_min: 10_000,
        ..LIMITS
    };
    let batches = std::slice::from_ref(&input);
    let found = run(&machine, &pipeline, batches, each_store()[2].1, &limits).unwrap();
    assert_eq!(found.host_reason, None);
    assert_eq!(found.rows, rows_of(&interpret(&pipeline, batches).unwrap()));
    assert_eq!(
        found.kernels.iter().filter(|name| **name == "fold").count(),
        1
    );
}

#[test]
fn a_table_grows_only_within_the_budget() {
    let keys: Vec<Option<i128>> = (0..300_000)
        .map(|row| Some(i128::from(row) * 77_777))
        .collect();
    let input = batch(vec![integers(&Int64, &keys)]);
    let plan = Plan::over(&input);
    let pipeline = plan.clone().group(vec![plan.col(0)], vec![count()]).build();
    let stores = each_store()[2].1;
    let first_table = ((1 << 18) + 2) * 16;
    let machine = ShimMachine::new(1, first_table + 4096);
    let found = run(
        &machine,
        &pipeline,
        std::slice::from_ref(&input),
        stores,
        &LIMITS,
    );
    let error = found.map(|run| run.rows.len()).unwrap_err();
    assert!(
        matches!(error, RunError::Device(DeviceError::OutOfMemory { .. })),
        "{error}"
    );
    assert_eq!(
        tidegate_kernels::engine::Machine::budget(&machine).used(),
        0
    );
    let machine = ShimMachine::new(1, MEMORY);
    let found = run(&machine, &pipeline, &[input], stores, &LIMITS).unwrap();
    assert_eq!(found.rows.len(), 300_000);
}

#[test]
fn strings_of_every_layout_leave() {
    let words: Vec<Option<&str>> = ["x", "", "a longer string than a view holds"]
        .into_iter()
        .map(Some)
        .chain([None])
        .cycle()
        .take(50)
        .collect();
    let layouts = [
        Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(Int32), Box::new(Utf8)),
    ];
    let columns: Vec<ArrayRef> = layouts
        .iter()
        .map(|layout| strings_as(layout, &words))
        .collect();
    let input = batch(columns);
    for key in 0..layouts.len() {
        let plan = Plan::over(&input);
        let plan = plan.clone().group(vec![plan.col(key)], vec![count()]);
        check("strings", &plan.build(), &cut(&input, &[13]));
    }
}
