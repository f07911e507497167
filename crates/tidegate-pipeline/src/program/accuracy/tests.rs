//! What may differ decides nothing.

use arrow_schema::DataType::{Float64, Int64};
use arrow_schema::{Field, Schema};

use super::inexact_decision;
use crate::catalogue::Function;
use crate::expr::{CastFailure, CompareOp, Expr};
use crate::pipeline::{AggregateFunction, AggregateOutput, Step};
use crate::tests::building::{call, col, group_by, named, param, pipeline};

fn refused(steps: Vec<Step>) -> Option<&'static str> {
    let input = Schema::new(vec![Field::new("a", Float64, true)]);
    let zero = crate::Scalar {
        data_type: Float64,
        value: crate::ScalarValue::Float(0.0),
    };
    let why = inexact_decision(&pipeline(&input.into(), vec![zero], steps))?;
    assert_eq!(why.function, "ln");
    Some(why.place)
}

fn apply(name: &str, argument: Expr) -> Expr {
    Expr::call(
        Function::named(name).unwrap(),
        vec![],
        vec![argument],
        Float64,
    )
    .unwrap()
}

#[test]
fn what_may_differ_decides_nothing() {
    let (a, ln) = (|| col(0, &Float64), || apply("ln", col(0, &Float64)));
    let compare = |expr: Expr| Expr::compare(CompareOp::Gt, expr, param(0, &Float64)).unwrap();
    let project = |expr: Expr| Step::Project(vec![named(expr, "v")]);
    let group = |key: Option<Expr>, function, argument: Expr| {
        let calls = vec![call(function, Some(argument), Float64, &[Float64]).unwrap()];
        let keys = key.into_iter().map(|key| named(key, "k")).collect();
        group_by(keys, calls, AggregateOutput::Value)
    };
    let (sum, max) = (AggregateFunction::Sum, AggregateFunction::Max);
    assert_eq!(refused(vec![project(ln())]), None);
    assert_eq!(refused(vec![project(apply("exp", ln()))]), None);
    assert_eq!(refused(vec![project(apply("floor", a()))]), None);
    assert_eq!(refused(vec![group(None, sum, ln())]), None);
    assert_eq!(refused(vec![group(Some(a()), max, a())]), None);
    let cast = Expr::cast(ln(), Int64, CastFailure::Null).unwrap();
    for (steps, place) in [
        (vec![Step::Filter(compare(ln()))], "a comparison"),
        (
            vec![project(ln()), Step::Filter(compare(a()))],
            "a comparison",
        ),
        (vec![project(cast)], "a cast"),
        (vec![project(apply("floor", ln()))], "another function"),
        (vec![group(Some(ln()), sum, a())], "a key"),
        (vec![group(None, max, ln())], "MIN or MAX"),
        (
            vec![group(None, sum, ln()), Step::Filter(compare(a()))],
            "a comparison",
        ),
    ] {
        assert_eq!(refused(steps), Some(place));
    }
}
