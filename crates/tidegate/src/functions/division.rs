//! `a // b` of integers, as DuckDB has it: an operator that DataFusion's planner does not know. Of other numbers systems
//! differ in what it is.

use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr};
use sqlparser::ast::BinaryOperator;

/// Plans `//`.
#[derive(Debug)]
pub(crate) struct WholeQuotients;

impl ExprPlanner for WholeQuotients {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::DuckIntegerDivide {
            return Ok(PlannerResult::Original(expr));
        }
        let is_whole = |operand: &Expr| operand.get_type(schema).is_ok_and(|of| of.is_integer());
        if !is_whole(&expr.left) || !is_whole(&expr.right) {
            return plan_err!(
                "a // b divides integers: write floor(a / b) or trunc(a / b) of other numbers"
            );
        }
        // The quotient of integers is one.
        let quotient = binary_expr(expr.left, Operator::Divide, expr.right);
        Ok(PlannerResult::Planned(quotient))
    }
}
