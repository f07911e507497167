//! Every entry with every signature that it names: over random arguments with NULLs and edges, the program
//! that knows what its input has gives what the one gives that knows types only. What functions mean, the
//! tests of the crate `tidegate` compare with DataFusion.

use arrow_schema::{DataType, Field};

use super::{
    AggregateEntry, CallTypes, Function, Options, ScalarEntry, Signature, aggregate, aggregates,
    functions,
};
use crate::check::check_node;
use crate::expr::{CastFailure, Expr, ExprKind};
use crate::pipeline::{AggregateCall, AggregateOutput, Step};
use crate::tests::building::{batch, col, group_by, named, param, pipeline};
use crate::tests::random::{Random, Shape, column, hold_rows, random_batch, value};

/// Returns a call of a function.
fn expr_of(entry: &ScalarEntry, signature: &Signature, args: &[Expr]) -> Expr {
    let expr = Expr {
        kind: ExprKind::Call {
            function: Function::named(entry.name).unwrap(),
            options: signature.options.clone(),
            arguments: args.to_vec(),
        },
        data_type: signature.result.clone(),
    };
    check_node(&expr).unwrap();
    expr
}

const ROWS: usize = 120;

/// Holds a function against the reference, its arguments being columns, or literals for the last one.
fn check(entry: &ScalarEntry, signature: &Signature, random: &mut Random) {
    let types = &signature.arguments;
    let columns = types.iter().enumerate();
    let columns: Vec<Expr> = columns.map(|(index, of)| col(index, of)).collect();
    let expr = expr_of(entry, signature, &columns);
    for shape in [Shape::ALL, Shape::SMALL, Shape::AROUND] {
        let batch = random_batch(random, types, ROWS, shape);
        let steps = vec![Step::Project(vec![named(expr.clone(), "v")])];
        let pipeline = pipeline(&batch.schema(), vec![], steps);
        hold_rows(&pipeline, &batch);
    }
    let Some((last, before)) = types.split_last() else {
        return;
    };
    for shape in [Shape::ALL, Shape::AROUND, Shape::AROUND] {
        let batch = random_batch(random, types, ROWS, shape);
        let literal = (!random.one_in(4)).then(|| value(random, last, shape));
        let mut args = columns[..before.len()].to_vec();
        args.push(param(0, last));
        let steps = vec![Step::Project(vec![named(
            expr_of(entry, signature, &args),
            "v",
        )])];
        let parameters = vec![crate::tests::random::scalar(literal, last)];
        hold_rows(&pipeline(&batch.schema(), parameters, steps), &batch);
    }
}

fn check_functions(wanted: &dyn Fn(&str) -> bool) {
    let mut checked = 0;
    for entry in functions().filter(|entry| wanted(entry.name)) {
        for (index, signature) in (entry.signatures)().iter().enumerate() {
            check(entry, signature, &mut Random(index as u64));
            checked += 1;
        }
    }
    assert!(checked > 0);
}

const CALENDAR: [&str; 1] = ["date_part"];
const ARITHMETIC: [&str; 6] = ["add", "subtract", "multiply", "divide", "modulo", "negate"];

#[test]
fn arithmetic() {
    check_functions(&|name| ARITHMETIC.contains(&name));
}

#[test]
fn casts() {
    check_functions(&|name| name == "cast");
}

#[test]
fn calendar_fields() {
    check_functions(&|name| CALENDAR.contains(&name));
}

#[test]
fn other_functions() {
    let others = |name: &str| {
        !ARITHMETIC.contains(&name)
            && !CALENDAR.contains(&name)
            && name != "cast"
            && name != "custom"
    };
    check_functions(&others);
}

#[test]
fn names_are_of_one_function_each() {
    let names: Vec<&str> = functions().map(|entry| entry.name).collect();
    let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len());
}

/// Returns a call of the aggregate of columns from a place on, with the types that it gives.
fn call_of(entry: &AggregateEntry, arguments: &[DataType], from: usize) -> AggregateCall {
    let declared = match arguments.first() {
        Some(DataType::Dictionary(_, value)) => value.as_ref().clone(),
        _ if entry.name == "regr_count" => DataType::UInt64,
        Some(other) => other.clone(),
        None => DataType::Int64,
    };
    let types = match arguments {
        [] => CallTypes::of_value(DataType::Int64),
        _ => (entry.types)(arguments, &declared).unwrap(),
    };
    let state = types.state.iter().enumerate();
    let state = state.map(|(index, of)| Field::new(format!("s{index}"), of.clone(), true));
    let columns = arguments.iter().enumerate();
    AggregateCall::with_arguments(
        entry.function,
        columns.map(|(index, of)| col(from + index, of)).collect(),
        None,
        types.value,
        state.collect(),
        "v",
    )
    .unwrap()
}

fn check_aggregate(entry: &AggregateEntry, arguments: &[DataType], random: &mut Random) {
    let key = DataType::Int8;
    for shape in [Shape::ALL, Shape::SMALL, Shape::AROUND] {
        let mut columns = vec![
            column(random, &key, ROWS, Shape::SMALL),
            column(random, &DataType::Boolean, ROWS, Shape::AROUND),
        ];
        for argument in arguments {
            columns.push(column(random, argument, ROWS, shape));
        }
        let batch = batch(columns);
        for output in [AggregateOutput::Value, AggregateOutput::State] {
            for keys in [vec![], vec![named(col(0, &key), "k")]] {
                let plain = call_of(entry, arguments, 2);
                let filtered = AggregateCall {
                    filter: Some(col(1, &DataType::Boolean)),
                    ..plain.clone()
                };
                let steps = vec![group_by(keys, vec![plain, filtered], output)];
                hold_rows(&pipeline(&batch.schema(), vec![], steps), &batch);
            }
        }
    }
}

#[test]
fn aggregate_functions() {
    for entry in aggregates() {
        assert_eq!(aggregate(entry.function).name, entry.name);
        assert_eq!(entry.function.to_string(), entry.name);
        for (index, arguments) in (entry.arguments)().iter().enumerate() {
            check_aggregate(entry, arguments, &mut Random(index as u64));
        }
    }
}

#[test]
fn what_signatures_say_is_said_once() {
    for entry in functions() {
        let signatures = (entry.signatures)();
        let shown: Vec<String> = signatures.iter().map(|of| format!("{of:?}")).collect();
        let distinct: std::collections::BTreeSet<&String> = shown.iter().collect();
        assert_eq!(distinct.len(), shown.len(), "{}", entry.name);
        let casts = signatures
            .iter()
            .filter(|of| matches!(of.options, Options::OnFailure(CastFailure::Null)));
        assert!(entry.name != "cast" || casts.count() > 200);
    }
}
