//! What is the same is written once; what decides the kernel is told apart.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, CompareOp, Expr, Pipeline,
    Scalar, ScalarValue, Step,
};

use super::{Programs, Purpose};
use crate::program::{Interval, ProgramOptions, Slot, SlotFacts, SlotKind};

/// `count(*)` where the column is less than a parameter.
fn counting(limit: i64) -> Arc<Pipeline> {
    let input = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
    let column = Expr::column(0, DataType::Int64).unwrap();
    let parameter = Expr::parameter(0, DataType::Int64).unwrap();
    let less = Expr::compare(CompareOp::Lt, column, parameter).unwrap();
    let state = vec![Field::new("n", DataType::Int64, true)];
    let count = AggregateFunction::Count;
    let call = AggregateCall::new(count, None, None, DataType::Int64, state, "n").unwrap();
    let step = Step::Aggregate(Aggregate {
        keys: vec![],
        calls: vec![call],
        output: AggregateOutput::Value,
    });
    Arc::new(Pipeline {
        output: Arc::new(step.output_schema(&input)),
        input,
        parameters: vec![Scalar {
            data_type: DataType::Int64,
            value: ScalarValue::Int(limit),
        }],
        steps: vec![Step::Filter(less), step],
    })
}

fn purpose(pipeline: &Arc<Pipeline>, high: i128) -> Purpose {
    let data_type = DataType::Int64;
    let slot = Slot {
        expr: Expr::column(0, data_type.clone()).unwrap(),
        kind: SlotKind::Integer,
    };
    let facts = SlotFacts {
        range: Interval::new(0, high),
        ..SlotFacts::declared(&data_type, false)
    };
    Purpose {
        pipeline: Arc::clone(pipeline),
        facts: Some(vec![(slot, facts)]),
        wide_floats: false,
        fixed_floats: false,
        generated: None,
    }
}

#[test]
fn a_program_is_written_once_for_what_is_equal() {
    let (programs, options) = (Programs::default(), ProgramOptions::default());
    let get = |purpose| programs.get(purpose, &options).unwrap();
    let first = get(purpose(&counting(7), 100));
    assert!(Arc::ptr_eq(&first, &get(purpose(&counting(7), 100))));
    // Another value is another list of literals, and here the same kernel.
    let other = get(purpose(&counting(8), 100));
    assert!(!Arc::ptr_eq(&first, &other));
    assert_eq!(first.text, other.text);
    assert_ne!(first.literals, other.literals);
    let wider = get(purpose(&counting(7), 1 << 40));
    assert!(!Arc::ptr_eq(&first, &wider));
    let fixed = get(Purpose {
        fixed_floats: true,
        ..purpose(&counting(7), 100)
    });
    assert!(!Arc::ptr_eq(&first, &fixed));
    let declared = programs.declared(&counting(7), &options).unwrap();
    assert!(Arc::ptr_eq(
        &declared,
        &programs.declared(&counting(7), &options).unwrap()
    ));
    for limit in 0..2 * super::PROGRAMS_MAX as i64 {
        get(purpose(&counting(limit), 100));
    }
    assert_eq!(programs.known.lock().len(), super::PROGRAMS_MAX);
}
