//! Every operator of the catalogue gives what DataFusion's gives: random operands of each signature, NULLs,
//! edges, and errors.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr, in_list,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidegate_pipeline::catalogue::{self, Options, ScalarEntry, Signature};
use tidegate_pipeline::{ArithmeticOp, CastFailure, CompareOp, Expr};

use crate::catalogue::{Call, Random};

fn arithmetic(name: &str) -> Option<(ArithmeticOp, Operator)> {
    Some(match name {
        "add" => (ArithmeticOp::Add, Operator::Plus),
        "subtract" => (ArithmeticOp::Subtract, Operator::Minus),
        "multiply" => (ArithmeticOp::Multiply, Operator::Multiply),
        "divide" => (ArithmeticOp::Divide, Operator::Divide),
        "modulo" => (ArithmeticOp::Modulo, Operator::Modulo),
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<(CompareOp, Operator)> {
    Some(match name {
        "equal" => (CompareOp::Eq, Operator::Eq),
        "not_equal" => (CompareOp::NotEq, Operator::NotEq),
        "less" => (CompareOp::Lt, Operator::Lt),
        "less_or_equal" => (CompareOp::LtEq, Operator::LtEq),
        "greater" => (CompareOp::Gt, Operator::Gt),
        "greater_or_equal" => (CompareOp::GtEq, Operator::GtEq),
        "is_distinct_from" => (CompareOp::IsDistinctFrom, Operator::IsDistinctFrom),
        "is_not_distinct_from" => (CompareOp::IsNotDistinctFrom, Operator::IsNotDistinctFrom),
        _ => return None,
    })
}

/// Returns an operator over columns on both sides; `None` for what is no operator.
fn call(entry: &ScalarEntry, signature: &Signature, schema: &SchemaRef) -> Option<Call> {
    let columns = signature.arguments.iter().enumerate();
    let ours: Vec<Expr> = columns
        .map(|(at, of)| Expr::column(at, of.clone()).unwrap())
        .collect();
    let theirs = (0..ours.len())
        .map(|at| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(&format!("c{at}"), at)) });
    let theirs: Vec<_> = theirs.collect();
    let (our, their) = (
        |at: usize| ours[at].clone(),
        |at: usize| Arc::clone(&theirs[at]),
    );
    let binary =
        |op| -> Arc<dyn PhysicalExpr> { Arc::new(BinaryExpr::new(their(0), op, their(1))) };
    let result = signature.result.clone();
    if let Some((op, theirs)) = arithmetic(entry.name) {
        let ours = Expr::arithmetic(op, our(0), our(1), result).unwrap();
        let theirs = binary(theirs);
        assert_eq!(
            theirs.data_type(schema).unwrap(),
            signature.result,
            "{theirs}"
        );
        return Some(Call { ours, theirs });
    }
    if let Some((op, theirs)) = comparison(entry.name) {
        let ours = Expr::compare(op, our(0), our(1)).unwrap();
        return Some(Call {
            ours,
            theirs: binary(theirs),
        });
    }
    let (ours, theirs): (_, Arc<dyn PhysicalExpr>) = match (entry.name, &signature.options) {
        ("and", _) => (Expr::and(our(0), our(1)), binary(Operator::And)),
        ("or", _) => (Expr::or(our(0), our(1)), binary(Operator::Or)),
        ("not", _) => (Expr::not(our(0)), Arc::new(NotExpr::new(their(0)))),
        ("negate", _) => (Expr::negate(our(0)), Arc::new(NegativeExpr::new(their(0)))),
        ("is_null", _) => (Expr::is_null(our(0)), Arc::new(IsNullExpr::new(their(0)))),
        ("is_not_null", _) => (
            Expr::is_not_null(our(0)),
            Arc::new(IsNotNullExpr::new(their(0))),
        ),
        ("case", _) => {
            let (pairs, rest) = ours.as_chunks::<2>();
            let branches = pairs.iter().cloned().map(|[when, then]| (when, then));
            let ours = Expr::case(branches.collect(), rest.first().cloned(), result);
            let (pairs, rest) = theirs.as_chunks::<2>();
            let branches = pairs.iter().cloned().map(|[when, then]| (when, then));
            let theirs = CaseExpr::try_new(None, branches.collect(), rest.first().cloned());
            (ours, Arc::new(theirs.unwrap()))
        }
        ("in", Options::Negated(negated)) => (
            Expr::in_list(our(0), ours[1..].to_vec(), *negated),
            in_list(their(0), theirs[1..].to_vec(), negated, schema).unwrap(),
        ),
        ("cast", Options::OnFailure(on_failure)) => {
            let theirs: Arc<dyn PhysicalExpr> = match on_failure {
                CastFailure::Raise => Arc::new(CastExpr::new(their(0), result.clone(), None)),
                CastFailure::Null => Arc::new(TryCastExpr::new(their(0), result.clone())),
            };
            (Expr::cast(our(0), result, *on_failure), theirs)
        }
        (
            "like",
            Options::Like {
                negated,
                case_insensitive,
            },
        ) => {
            let theirs = LikeExpr::new(*negated, *case_insensitive, their(0), their(1));
            let ours = Expr::like(our(0), our(1), *negated, *case_insensitive);
            (ours, Arc::new(theirs))
        }
        ("substr", Options::Substring { start, length }) => {
            let literal = |value: i64| -> Arc<dyn PhysicalExpr> {
                Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
            };
            let places = [Some(*start), *length].into_iter().flatten().map(literal);
            let args = [their(0)].into_iter().chain(places).collect();
            let udf = datafusion::functions::unicode::substr();
            let config = Arc::new(ConfigOptions::default());
            let theirs = ScalarFunctionExpr::try_new(udf, args, schema, config).unwrap();
            (
                Expr::substring(our(0), *start, *length, result),
                Arc::new(theirs),
            )
        }
        _ => return None,
    };
    Some(Call {
        ours: ours.unwrap(),
        theirs,
    })
}

#[test]
fn operators_give_what_datafusion_gives() {
    let mut left_out = Vec::new();
    for entry in catalogue::functions().filter(|entry| entry.datafusion.is_empty()) {
        for (index, signature) in (entry.signatures)().iter().enumerate() {
            let mut random = Random(index as u64);
            for round in 0..3 {
                // Beside wild operands also those of which most have a result.
                let batch = random.batch(&signature.arguments, round == 0);
                match call(entry, signature, &batch.schema()) {
                    Some(call) => call.hold(&batch, entry.accuracy),
                    None => left_out.push(entry.name),
                }
            }
        }
    }
    left_out.dedup();
    assert_eq!(left_out, ["date_part"], "operators without a counterpart");
}
