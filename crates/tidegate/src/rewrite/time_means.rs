//! Means of numbers and of times, which one name plans, become the functions that they are
//! ([`time_means`](crate::functions::time_means)).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, LogicalPlan, WindowFunctionDefinition,
};

use super::walk::{any_expression, change_parts};
use crate::functions::time_means::{decided, is_either};

/// Puts the functions that they are in the place of means; comes after types are coerced.
pub(super) fn decide_means(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    match any_expression(&plan, is_mean)? {
        true => change_parts(plan, |expr, schema| Ok(decide(expr, schema))),
        false => Ok(plan),
    }
}

fn is_mean(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => is_either(&call.func),
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => is_either(function),
            WindowFunctionDefinition::WindowUDF(_) => false,
        },
        _ => false,
    }
}

fn decide(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let function = |function: &AggregateUDF, args: &[Expr]| -> Option<Arc<AggregateUDF>> {
        let of = args.first()?.get_type(schema).ok()?;
        decided(function, &of)
    };
    match expr {
        Expr::AggregateFunction(mut call) => {
            let decided = function(&call.func, &call.params.args);
            let has_changed = decided.is_some();
            if let Some(decided) = decided {
                call.func = decided;
            }
            Transformed::new_transformed(Expr::AggregateFunction(call), has_changed)
        }
        Expr::WindowFunction(mut call) => {
            let decided = match &call.fun {
                WindowFunctionDefinition::AggregateUDF(of) => function(of, &call.params.args),
                WindowFunctionDefinition::WindowUDF(_) => None,
            };
            let has_changed = decided.is_some();
            if let Some(decided) = decided {
                call.fun = WindowFunctionDefinition::AggregateUDF(decided);
            }
            Transformed::new_transformed(Expr::WindowFunction(call), has_changed)
        }
        expr => Transformed::no(expr),
    }
}
