//! Aggregate function calls to the IR's.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use tidegate_pipeline::catalogue::aggregate_of_datafusion;
use tidegate_pipeline::{AggregateCall, AggregateFunction, Expr};

use super::expr::ExprLowering;
use crate::floats::{extremes, spreads};

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
    let given = call.expressions();
    let arguments: Option<Vec<Expr>> = match given.as_slice() {
        [argument] if function == AggregateFunction::Count && is_value(argument) => Some(vec![]),
        // A device's extremes are canonical whatever their argument.
        [argument] if matches!(function, AggregateFunction::Min | AggregateFunction::Max) => {
            lowering
                .lower_operand(argument, input)
                .map(|argument| vec![argument])
        }
        arguments => {
            let lowered = arguments.iter();
            let lowered: Vec<_> = lowered
                .map(|argument| lowering.lower(argument, input))
                .collect();
            lowered.into_iter().collect()
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
    let lowered = AggregateCall::with_arguments(
        function,
        arguments?,
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
    if let Some(greatest) = extremes::is_greatest(udf) {
        return Some(match greatest {
            true => AggregateFunction::Max,
            false => AggregateFunction::Min,
        });
    }
    static DEFAULTS: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
        let functions = datafusion::functions_aggregate::all_default_aggregate_functions();
        let functions = functions.into_iter();
        functions
            .map(|function| (function.name().to_owned(), function))
            .collect()
    });
    let udf = spreads::of_datafusion(udf).map_or(udf, Arc::as_ref);
    let known = aggregate_of_datafusion(udf.name())?;
    let own = DEFAULTS.get(udf.name())?;
    (own.as_ref() == udf).then_some(known)
}
