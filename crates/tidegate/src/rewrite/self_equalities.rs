//! Equalities of a value with an expression of it: `abs(c) = c`.
//!
//! DataFusion takes the first member of a class of equal expressions for all of them: `c` becomes `abs(c)`, which becomes
//! `abs(abs(c))` where it is looked at again, so that rows which are sorted by one are not by the other, and the plan is
//! refused. Such an equality begins with the value itself.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

/// Turns such equalities; comes after filters are where they stay.
pub(super) fn turn_self_equalities(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_) => {
            plan.map_expressions(|expr| expr.transform_up(|part| Ok(turned(part))))
        }
        plan => Ok(Transformed::no(plan)),
    }
}

fn turned(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) if is_of(&left, &right) => {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(right, Operator::Eq, left)))
        }
        expr => Transformed::no(expr),
    }
}

/// Tells whether an expression reads a value, and is not the value itself.
fn is_of(expr: &Expr, value: &Expr) -> bool {
    expr != value
        && !matches!(value, Expr::Literal(..))
        && expr.exists(|part| Ok(part == value)).unwrap_or(false)
}
