//! Planners of binary operators, each of which is a function.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};

/// What an operation becomes.
pub(crate) type Planned = Result<PlannerResult<RawBinaryExpr>>;

/// A planner, with what it makes of an operation.
#[derive(Debug)]
pub(crate) struct Operators(pub(crate) fn(RawBinaryExpr, &DFSchema) -> Planned);

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
        self.0(expr, schema)
    }
}
