//! `a // b` of integers, as DuckDB has it: an operator that DataFusion's planner does not know. Of other numbers systems
//! differ in what it is. `a / b` of integers is the same.
//!
//! DataFusion makes decimals of a `BIGINT UNSIGNED` and a signed integer, whose quotient has a fraction. A literal that is
//! not negative is as well unsigned; of other operands [`function`] computes the quotient.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MATH;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ScalarUDF, binary_expr, lit};
use sqlparser::ast::BinaryOperator;

use super::operators::Planned;
use super::plain::{self, Parts};

/// The digits of 2^64, and the type of quotients that may be negative or as large.
const DIGITS: u8 = 20;
const QUOTIENT: DataType = DataType::Decimal128(DIGITS, 0);

/// Plans `//`, and `/` of integers of which DataFusion would make decimals.
pub(crate) fn plan(expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
    let is_whole = match expr.op {
        BinaryOperator::DuckIntegerDivide => true,
        BinaryOperator::Divide => false,
        _ => return Ok(PlannerResult::Original(expr)),
    };
    let integer = |operand: &Expr| operand.get_type(schema).ok().filter(DataType::is_integer);
    let (Some(left), Some(right)) = (integer(&expr.left), integer(&expr.right)) else {
        return match is_whole {
            true => plan_err!(
                "a // b divides integers: write floor(a / b) or trunc(a / b) of other numbers"
            ),
            false => Ok(PlannerResult::Original(expr)),
        };
    };
    let quotient = match mixed(&left, &right) {
        true => quotient_of(expr.left, expr.right),
        // The quotient of integers is one.
        false if is_whole => binary_expr(expr.left, Operator::Divide, expr.right),
        false => return Ok(PlannerResult::Original(expr)),
    };
    Ok(PlannerResult::Planned(quotient))
}

/// Tells whether one of two types of integers is `BIGINT UNSIGNED` and the other one signed.
fn mixed(left: &DataType, right: &DataType) -> bool {
    (*left == DataType::UInt64 && right.is_signed_integer())
        || (left.is_signed_integer() && *right == DataType::UInt64)
}

fn quotient_of(left: Expr, right: Expr) -> Expr {
    let unsigned = |operand: &Expr| match operand {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => u64::try_from(*value).ok(),
        _ => None,
    };
    match (unsigned(&left), unsigned(&right)) {
        (Some(left), _) => binary_expr(lit(left), Operator::Divide, right),
        (_, Some(right)) => binary_expr(left, Operator::Divide, lit(right)),
        _ => function().call(vec![left, right]),
    }
}

/// Returns the quotient of a `BIGINT UNSIGNED` and a signed integer, or the other way round.
pub(super) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["whole_quotient"],
        section: DOC_SECTION_MATH,
        description: "Divides a BIGINT UNSIGNED and a signed integer, without a fraction.",
        syntax: "whole_quotient(a, b)",
        takes: |given| match given {
            [DataType::UInt64, right] if right.is_signed_integer() => {
                Ok(vec![DataType::UInt64, DataType::Int64])
            }
            [left, DataType::UInt64] if left.is_signed_integer() => {
                Ok(vec![DataType::Int64, DataType::UInt64])
            }
            _ => plan_err!("whole_quotient takes a BIGINT UNSIGNED and a signed integer"),
        },
        returns: |_| QUOTIENT,
        computes: quotients,
    })
}

fn quotients(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [left, right] = given else {
        return internal_err!("whole_quotient of {} arguments", given.len());
    };
    let quotients = match left.data_type() {
        DataType::UInt64 => try_binary::<_, _, _, Decimal128Type>(
            left.as_primitive::<UInt64Type>(),
            right.as_primitive::<Int64Type>(),
            |left, right| quotient(left.into(), right.into()),
        )?,
        _ => try_binary::<_, _, _, Decimal128Type>(
            left.as_primitive::<Int64Type>(),
            right.as_primitive::<UInt64Type>(),
            |left, right| quotient(left.into(), right.into()),
        )?,
    };
    Ok(Arc::new(quotients.with_data_type(QUOTIENT)))
}

fn quotient(left: i128, right: i128) -> Result<i128, ArrowError> {
    left.checked_div(right).ok_or(ArrowError::DivideByZero)
}
