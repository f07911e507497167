//! Exact sums in the place of those that round, in physical plans: what `tidegate.float_sums = 'ordered'` asks for.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::floats::exact::replacement;
use crate::functions::linear;

/// Returns a plan whose float sums are exact, but those of plans that are `kept`.
pub(crate) fn with_exact_sums(
    plan: &Arc<dyn ExecutionPlan>,
    kept: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if kept(plan) {
        return Ok(Arc::clone(plan));
    }
    let inputs = plan.children().into_iter();
    let changed = inputs
        .map(|input| with_exact_sums(input, kept))
        .collect::<Result<Vec<_>>>()?;
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && let [input] = &changed[..]
        && aggregate.aggr_expr().iter().any(|call| rounds(call))
    {
        return exact_aggregate(aggregate, input);
    }
    replace_children_if_necessary(Arc::clone(plan), changed)
}

/// Returns an aggregate whose calls are exact where they can be.
fn exact_aggregate(
    aggregate: &AggregateExec,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = aggregate.input_schema();
    let calls = aggregate.aggr_expr().iter().map(|call| {
        let exact = replacement(call.fun()).filter(|_| rounds(call) && !call.is_distinct());
        let Some(exact) = exact else {
            return Ok(Arc::clone(call));
        };
        let call = AggregateExprBuilder::new(exact, call.expressions())
            .schema(Arc::clone(&schema))
            .alias(call.name())
            .build()?;
        Ok(Arc::new(call))
    });
    let aggregate = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        calls.collect::<Result<_>>()?,
        aggregate.filter_expr().to_vec(),
        Arc::clone(input),
        schema,
    )?
    .with_limit_options(aggregate.limit_options());
    Ok(Arc::new(aggregate))
}

/// Functions that round what they add up or multiply, and have no exact form. Those of linear algebra are others.
const INEXACT: [&str; 8] = [
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "entropy",
    "kurtosis",
    "kurtosis_pop",
    "product",
    "skewness",
];

/// Tells whether a call rounds what it adds up.
fn rounds(call: &AggregateFunctionExpr) -> bool {
    let function = call.fun();
    let may_round = replacement(function).is_some() || INEXACT.contains(&function.name());
    (may_round && call.field().data_type().is_floating()) || linear::is_linear(function)
}

/// Finds the first aggregate, from the root, with a wanted call that rounds what it adds up, and the call's name; nothing
/// in plans that are `kept`.
pub(crate) fn rounding_call<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    kept: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<(&'a Arc<dyn ExecutionPlan>, String)> {
    if kept(plan) {
        return None;
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let is_such = |call: &&Arc<AggregateFunctionExpr>| rounds(call) && is_wanted(call.name());
        if let Some(call) = aggregate.aggr_expr().iter().find(is_such) {
            return Some((plan, call.name().to_string()));
        }
    }
    let mut inputs = plan.children().into_iter();
    inputs.find_map(|input| rounding_call(input, kept, is_wanted))
}
