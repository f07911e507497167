//! The invariants of a pipeline hold however it was made, out of JSON too.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};

use crate::check::Unsupported;
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::pipeline::{AggregateFunction, AggregateOutput, Pipeline, Sort, SortKey, Step};
use crate::scalar::ScalarValue;
use crate::tests::building::{call, col, group_by, named, param, pipeline, scalar, text};

use DataType::{Boolean, Date32, Decimal32, Float32, Int8, Int64, Utf8, Utf8View};

fn refusal<T: std::fmt::Debug>(result: Result<T, Unsupported>) -> String {
    result.unwrap_err().what
}

fn input() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("k", Utf8, true),
        Field::new("v", Int64, true),
    ]))
}

fn example() -> Pipeline {
    let keep = Expr::compare(CompareOp::Gt, col(1, &Int64), param(0, &Int64)).unwrap();
    let total = call(
        AggregateFunction::Sum,
        Some(col(1, &Int64)),
        Int64,
        &[Int64],
    )
    .unwrap();
    let keys = vec![named(col(0, &Utf8), "k")];
    let sort = Sort {
        keys: vec![SortKey {
            expr: col(0, &Utf8),
            descending: false,
            nulls_first: true,
        }],
        fetch: Some(3),
    };
    pipeline(
        &input(),
        vec![scalar(Int64, ScalarValue::Int(5))],
        vec![
            Step::Filter(keep),
            group_by(keys, vec![total], AggregateOutput::Value),
            Step::Sort(sort),
        ],
    )
}

#[test]
fn pipeline_invariants() {
    assert_eq!(example().validate(), Ok(()));
    let broken = |change: fn(&mut Pipeline)| {
        let mut pipeline = example();
        change(&mut pipeline);
        refusal(pipeline.validate())
    };
    let no_parameter = broken(|pipeline| pipeline.parameters.clear());
    assert!(no_parameter.contains("not there"), "{no_parameter}");
    let other_type = broken(|pipeline| pipeline.parameters[0] = text("5"));
    assert_eq!(other_type, "a reference as Int64 to Utf8");
    let held = broken(|pipeline| pipeline.parameters[0].value = ScalarValue::UInt(5));
    assert_eq!(held, "a parameter of Int64 held as UInt(5)");
    let output = broken(|pipeline| pipeline.output = Arc::new(Schema::empty()));
    assert_eq!(output, "an output of (): the steps give (Utf8, Int64)");
    let filter = broken(|pipeline| pipeline.steps[0] = Step::Filter(col(1, &Int64)));
    assert_eq!(filter, "a filter of type Int64, not Boolean");
    let column = broken(|pipeline| pipeline.steps[0] = Step::Filter(col(7, &Boolean)));
    assert!(column.contains("not there"), "{column}");
}

#[test]
fn scalars_in_range() {
    let good = [
        scalar(Int8, ScalarValue::Int(-128)),
        scalar(Date32, ScalarValue::Int(-1)),
        scalar(DataType::UInt8, ScalarValue::UInt(255)),
        scalar(Float32, ScalarValue::Float(0.5)),
        scalar(Float32, ScalarValue::Float(f64::NAN)),
        scalar(Decimal32(9, 2), ScalarValue::Decimal(5)),
        scalar(Utf8View, ScalarValue::Null),
    ];
    let bad = [
        scalar(Int8, ScalarValue::Int(128)),
        scalar(Date32, ScalarValue::Int(1 << 40)),
        scalar(DataType::UInt8, ScalarValue::UInt(256)),
        scalar(Float32, ScalarValue::Float(0.1)),
        scalar(Decimal32(9, 2), ScalarValue::Decimal(1 << 40)),
        scalar(Utf8View, ScalarValue::Boolean(true)),
    ];
    let with = |parameter| pipeline(&input(), vec![parameter], vec![]).validate();
    for parameter in good {
        assert_eq!(with(parameter), Ok(()));
    }
    for parameter in bad {
        assert!(with(parameter.clone()).is_err(), "{parameter:?}");
    }
}

#[test]
fn json_round_trip() {
    let pipeline = example();
    let json = serde_json::to_string(&pipeline).unwrap();
    let back: Pipeline = serde_json::from_str(&json).unwrap();
    assert_eq!(back, pipeline);
    assert_eq!(back.validate(), Ok(()));
}

#[test]
fn a_forged_tree_is_refused() {
    let mut pipeline = example();
    // What no constructor builds: text where a number is declared.
    let mut forged = Expr::negate(col(1, &Int64)).unwrap();
    forged.children_mut()[0] = col(0, &Utf8);
    forged.data_type = Utf8;
    let mut refused = |forged: &Expr| {
        pipeline.steps = vec![Step::Project(vec![named(forged.clone(), "x")])];
        refusal(pipeline.validate())
    };
    assert_eq!(refused(&forged), "negation of Utf8");
    // And a call without its operand.
    if let ExprKind::Call { arguments, .. } = &mut forged.kind {
        arguments.clear();
    }
    assert_eq!(refused(&forged), "negate of 0 arguments");
}
