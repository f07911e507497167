//! The parameters of prepared statements, from plan to program.
//!
//! A physical plan has no placeholders. To lower a statement before its values are known, each
//! placeholder becomes a call of a function of no arguments that stands for it. What is computed of
//! such calls alone is one parameter of the pipeline, whose value follows from the statement's.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidegate_pipeline::{Pipeline, Scalar};

use super::{Binding, expr};
use crate::rewrite::walk::change_named;

/// Stands for a placeholder in a physical plan.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ParameterFunc {
    name: String,
    /// From 0.
    number: usize,
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for ParameterFunc {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("parameter {} was not bound", self.name)
    }
}

/// Returns the number of a placeholder such as `$1`, from 0; `None` if it has a name instead.
pub(crate) fn number_of(id: &str) -> Option<usize> {
    let number: usize = id.strip_prefix('$')?.parse().ok()?;
    number.checked_sub(1)
}

/// Replaces the placeholders of an optimized plan by what stands for them in a physical one.
pub(crate) fn symbolic(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    let replace = |expr: Expr| {
        let Expr::Placeholder(placeholder) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let number = number_of(&placeholder.id);
        let Some((number, data_type)) = number.and_then(|at| Some((at, types.get(at)?))) else {
            return internal_err!("parameter {} has no type", placeholder.id);
        };
        let function = ScalarUDF::from(ParameterFunc {
            name: placeholder.id.clone(),
            number,
            data_type: data_type.clone(),
            // Nothing may be computed of it before it has a value.
            signature: Signature::nullary(Volatility::Volatile),
        });
        Ok(Transformed::yes(function.call(vec![])))
    };
    let replaced = plan.transform_up_with_subqueries(|node| {
        change_named(node, |expr| expr.transform_up(replace))
    })?;
    Ok(replaced.data)
}

/// Returns whether an expression is computed of parameters and literals alone.
pub(super) fn is_late(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let (mut reads_rows, mut has_parameter) = (false, false);
    let walked = expr.apply(|node| {
        reads_rows |= node.is::<Column>() || node.is::<ScalarSubqueryExpr>();
        has_parameter |= number(node).is_some();
        Ok(if reads_rows {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    walked.is_ok() && has_parameter && !reads_rows
}

fn number(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function = call.fun().inner().downcast_ref::<ParameterFunc>()?;
    Some(function.number)
}

/// Returns whether each binding's value follows from the statement's parameters.
pub(crate) fn are_parameters(bindings: &[Binding]) -> bool {
    bindings.iter().all(|binding| is_late(&binding.expr))
}

/// Gives the pipeline's late parameters the values that follow from the statement's.
///
/// # Errors
/// What computing them raises.
pub(crate) fn bind_values(
    pipeline: &Arc<Pipeline>,
    bindings: &[Binding],
    values: &[ScalarValue],
) -> Result<Arc<Pipeline>> {
    if bindings.is_empty() {
        return Ok(Arc::clone(pipeline));
    }
    let mut bound = Pipeline::clone(pipeline);
    for binding in bindings {
        let value = value_of(&binding.expr, values)?;
        let Some(scalar) = expr::scalar(&value) else {
            return internal_err!("a parameter cannot hold {value}");
        };
        let declared = &mut bound.parameters[binding.parameter];
        *declared = Scalar {
            data_type: declared.data_type.clone(),
            value: scalar.value,
        };
    }
    Ok(Arc::new(bound))
}

fn value_of(expr: &Arc<dyn PhysicalExpr>, values: &[ScalarValue]) -> Result<ScalarValue> {
    let value = |number: usize| match values.get(number) {
        Some(value) => Ok(value.clone()),
        None => internal_err!("parameter ${} has no value", number + 1),
    };
    if let Some(number) = number(expr) {
        return value(number);
    }
    let bound = Arc::clone(expr).transform_up(|node| match number(&node) {
        Some(number) => {
            let literal: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(value(number)?));
            Ok(Transformed::yes(literal))
        }
        None => Ok(Transformed::no(node)),
    })?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    match bound.data.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}
