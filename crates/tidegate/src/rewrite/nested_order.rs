//! `<`, `<=`, `>`, `>=` and BETWEEN of lists, structs and maps, which DataFusion compares with NULL before any value within
//! them: they become comparisons of their order ([`nested_order`]), which has it behind, as `ORDER BY` does. Their `min`
//! and `max` become those of the same order.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, WindowFunctionDefinition};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, lit};

use super::walk::{any_node, change_parts, holds_any};
use crate::floats::extremes::replacement;
use crate::functions::nested_order;
use crate::functions::nested_text::is_nested;

/// Rewrites such comparisons and aggregates; comes after types are coerced.
pub(super) fn order_nested(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    match any_node(&plan, orders_nested)? {
        true => change_parts(plan, in_part),
        false => Ok(plan),
    }
}

fn orders_nested(node: &LogicalPlan) -> Result<bool> {
    if !holds_any(node, |part| !compared(part).is_empty())? {
        return Ok(false);
    }
    let schema = merge_schema(&node.inputs());
    holds_any(node, |part| are_nested(part, &schema))
}

/// Returns the values that an expression puts in order.
fn compared(part: &Expr) -> Vec<&Expr> {
    match part {
        Expr::BinaryExpr(binary) => match binary.op {
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                vec![&binary.left, &binary.right]
            }
            _ => Vec::new(),
        },
        Expr::Between(between) => vec![&between.expr, &between.low, &between.high],
        Expr::AggregateFunction(call) if replacement(&call.func).is_some() => {
            call.params.args.iter().collect()
        }
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) if replacement(function).is_some() => {
                call.params.args.iter().collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn are_nested(part: &Expr, schema: &DFSchema) -> bool {
    let values = compared(part);
    // Columns of an outer query are of no schema that is known here, but know their type.
    let is_such = |value: &&Expr| value.get_type(schema).is_ok_and(|of| is_nested(&of));
    !values.is_empty() && values.iter().all(is_such)
}

fn in_part(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !are_nested(&part, schema) {
        return Ok(Transformed::no(part));
    }
    Ok(match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            Transformed::yes(ordered(*left, op, *right))
        }
        Expr::Between(Between {
            expr,
            negated,
            low,
            high,
        }) => {
            let above = ordered((*expr).clone(), Operator::GtEq, *low);
            let within = above.and(ordered(*expr, Operator::LtEq, *high));
            Transformed::yes(match negated {
                true => !within,
                false => within,
            })
        }
        Expr::AggregateFunction(mut call) => {
            if let Some(own) = replacement(&call.func) {
                call.func = Arc::clone(own);
            }
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(mut call) => {
            if let WindowFunctionDefinition::AggregateUDF(function) = &mut call.fun
                && let Some(own) = replacement(function)
            {
                *function = Arc::clone(own);
            }
            Transformed::yes(Expr::WindowFunction(call))
        }
        part => Transformed::no(part),
    })
}

fn ordered(left: Expr, op: Operator, right: Expr) -> Expr {
    let order = nested_order::function().call(vec![left, right]);
    binary_expr(order, op, lit(0_i8))
}
