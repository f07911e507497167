//! Aggregate function calls to the IR's.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::stddev::{Stddev, StddevPop};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::functions_aggregate::variance::{VariancePopulation, VarianceSample};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use tidegate_pipeline::{AggregateCall, AggregateFunction};

use super::expr::ExprLowering;
use crate::floats::extremes;

/// Lowers one call over rows of `input`. `None` means that a reason was noted.
pub(crate) fn lower_call(
    lowering: &mut ExprLowering,
    call: &AggregateFunctionExpr,
    filter: Option<&Arc<dyn PhysicalExpr>>,
    input: &Schema,
) -> Option<AggregateCall> {
    let name = call.fun().name();
    let Some(function) = function(call.fun()) else {
        lowering.reasons.push(format!("function {name}"));
        return None;
    };
    if call.is_distinct() {
        lowering.reasons.push(format!("{name}(DISTINCT)"));
        return None;
    }
    if !call.order_bys().is_empty() {
        lowering.reasons.push(format!("{name} with ORDER BY"));
        return None;
    }
    let argument = match call.expressions().as_slice() {
        [argument] if function == AggregateFunction::Count && is_value(argument) => Some(None),
        // A device's extremes are canonical whatever their argument.
        [argument] if matches!(function, AggregateFunction::Min | AggregateFunction::Max) => {
            lowering.lower_operand(argument, input).map(Some)
        }
        [argument] => lowering.lower(argument, input).map(Some),
        _ => {
            lowering
                .reasons
                .push(format!("{name} of several arguments"));
            None
        }
    };
    let filter = match filter {
        Some(filter) => lowering.lower(filter, input).map(Some),
        None => Some(None),
    };
    let state = match call.state_fields() {
        Ok(fields) => fields.iter().map(|field| Field::clone(field)).collect(),
        Err(error) => {
            lowering.reasons.push(format!("{name}: {error}"));
            return None;
        }
    };
    let data_type = call.field().data_type().clone();
    let lowered = AggregateCall::new(
        function,
        argument?,
        filter?,
        data_type,
        state,
        call.name().to_string(),
    );
    lowering.reasons.keep(lowered)
}

/// Returns whether an argument is a constant that is not NULL, so that `count` counts rows.
fn is_value(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = expr.downcast_ref::<Literal>().map(Literal::value);
    literal.is_some_and(|value: &ScalarValue| !value.is_null())
}

/// Identifies a function by its implementation, for anybody may register another one by that name.
fn function(udf: &AggregateUDF) -> Option<AggregateFunction> {
    let inner = udf.inner();
    if let Some(greatest) = extremes::is_greatest(udf) {
        return Some(match greatest {
            true => AggregateFunction::Max,
            false => AggregateFunction::Min,
        });
    }
    if inner.is::<Count>() {
        Some(AggregateFunction::Count)
    } else if inner.is::<Sum>() {
        Some(AggregateFunction::Sum)
    } else if inner.is::<Min>() {
        Some(AggregateFunction::Min)
    } else if inner.is::<Max>() {
        Some(AggregateFunction::Max)
    } else if inner.is::<Avg>() {
        Some(AggregateFunction::Avg)
    } else if inner.is::<VarianceSample>() {
        Some(AggregateFunction::VarSamp)
    } else if inner.is::<VariancePopulation>() {
        Some(AggregateFunction::VarPop)
    } else if inner.is::<Stddev>() {
        Some(AggregateFunction::StddevSamp)
    } else if inner.is::<StddevPop>() {
        Some(AggregateFunction::StddevPop)
    } else {
        None
    }
}
