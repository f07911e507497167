//! `a || b` as a call, so that it asks for memory as other functions do.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::kernels::concat_elements::concat_elements_dyn;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::optimizer::ApplyOrder;

use super::{Bounded, FunctionMemory};
use crate::functions::bounded::sizes::{Estimate, sum};
use crate::functions::plain::{self, Parts};
use crate::node_rule::LogicalRule;

/// Returns the rule that writes `a || b` of two strings as a call of a function that asks for memory.
pub(crate) fn bounded_concat(memory: &FunctionMemory) -> Arc<dyn OptimizerRule + Send + Sync> {
    let function = ScalarUDF::new_from_impl(Bounded {
        inner: Arc::new(string_concat()),
        estimate: Estimate::Exact(sum),
        memory: memory.clone(),
    });
    let rewrite = move |plan| concat_by(&function, plan);
    Arc::new(LogicalRule("bounded_concat", ApplyOrder::BottomUp, rewrite))
}

fn concat_by(function: &ScalarUDF, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_any = false;
    for expr in plan.expressions() {
        has_any |= expr.exists(|part| Ok(is_concat(part)))?;
    }
    if !has_any {
        return Ok(Transformed::no(plan));
    }
    let schema = match &plan {
        LogicalPlan::TableScan(scan) => Arc::clone(&scan.projected_schema),
        plan => Arc::new(merge_schema(&plan.inputs())),
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| match part {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::StringConcat,
                right,
            }) => {
                let of = left.get_type(&schema).ok();
                let is_string = of.as_ref().is_some_and(DataType::is_string);
                if is_string && of == right.get_type(&schema).ok() {
                    let call = function.call(vec![*left, *right]);
                    return Ok(Transformed::yes(call));
                }
                let kept = BinaryExpr::new(left, Operator::StringConcat, right);
                Ok(Transformed::no(Expr::BinaryExpr(kept)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })
}

fn is_concat(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::StringConcat,
            ..
        })
    )
}

/// Two strings of one type, one behind the other; NULL if either is.
fn string_concat() -> ScalarUDF {
    plain::function(Parts {
        names: &["string_concat"],
        section: DOC_SECTION_STRING,
        description: "Returns two strings, one behind the other.",
        syntax: "string_concat(left, right)",
        takes: |given| match given {
            [left, right] if left == right && left.is_string() => Ok(given.to_vec()),
            _ => plan_err!("string_concat takes two strings of one type"),
        },
        returns: |given| given.first().cloned().unwrap_or(DataType::Null),
        computes: joined,
    })
}

fn joined(given: &[ArrayRef]) -> Result<ArrayRef> {
    match given {
        [left, right] => Ok(concat_elements_dyn(left, right)?),
        _ => internal_err!("string_concat takes two strings"),
    }
}
