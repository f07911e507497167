//! `tidegate.float_sums = 'ordered'`: float sums have the same bits on every run.
//!
//! A GPU's sums are in fixed digits and have the same bits in any order, so that an atomic region of its own
//! keeps the promise; one that host and device share does not. Where no GPU answers all of an aggregate, exact
//! sums take the places of those that round ([`crate::floats::exact`]). What has no exact form is refused.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use tidegate_scheduler::PlacementMode;

use super::{Placer, leaf_of, may_be_atomic};
use crate::error::{Error, ErrorKind};
use crate::floats::exact;
use crate::functions::linear;
use crate::lower::{lower_atomic, rounds_over_groups};
use crate::options::RegionForms;
use crate::region::PipelineExec;

/// Returns a plan whose float sums are exact, but those of plans that are `kept`.
pub(crate) fn with_exact_sums(
    plan: &Arc<dyn ExecutionPlan>,
    kept: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    if kept(plan) {
        return Ok(Arc::clone(plan));
    }
    let inputs = plan.children();
    let changed = inputs
        .iter()
        .map(|input| with_exact_sums(input, kept))
        .collect::<Result<Vec<_>>>()?;
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && let [input] = &changed[..]
        && aggregate.aggr_expr().iter().any(|call| rounds_up(call))
    {
        return exact_aggregate(aggregate, input);
    }
    let mut pairs = changed.iter().zip(&inputs);
    if pairs.all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(plan));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(changed, options)
}

/// Returns an aggregate whose calls are exact where they can be.
fn exact_aggregate(
    aggregate: &AggregateExec,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = aggregate.input_schema();
    let calls = aggregate.aggr_expr().iter().map(|call| {
        let exact =
            exact::replacement(call.fun()).filter(|_| rounds_up(call) && !call.is_distinct());
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

/// Tells whether a call rounds what it adds up. Those of linear algebra do, too.
fn rounds_up(call: &AggregateFunctionExpr) -> bool {
    let is_float = call.field().data_type().is_floating();
    (is_float && exact::replacement(call.fun()).is_some()) || linear::is_linear(call.fun())
}

impl Placer<'_> {
    /// Refuses a plan whose float sums could differ from run to run as it was placed.
    pub(super) fn refuse_unordered_sums(
        &self,
        planned: &Arc<dyn ExecutionPlan>,
        placed: &Arc<dyn ExecutionPlan>,
    ) -> Result<()> {
        let Some((_, name)) = find_unordered(placed, &|_| true) else {
            return Ok(());
        };
        // Placing has taken parts of the plan out of sight.
        let why = match find_unordered(planned, &|other| other == name) {
            Some((aggregate, _)) => self.why_unordered(aggregate),
            None => self.why_unordered(planned),
        };
        let message = format!(
            "tidegate.float_sums = 'ordered': {name} adds floats in no fixed order, for it has no exact \
             form, and no GPU answers all of it ({}); SET tidegate.float_sums = 'any', or cast its argument \
             to a decimal",
            why.join("; ")
        );
        Err(Error::new(ErrorKind::NotSupported, message).into())
    }

    /// Returns why no GPU answers all of an aggregate; all reasons.
    fn why_unordered(&self, plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
        let mut why = Vec::new();
        let devices = &self.devices;
        if self.runtime.devices().is_empty() {
            why.push(self.runtime.why_no_device().to_owned());
        } else if let (true, Some(list)) = (devices.is_empty(), &self.options.devices) {
            why.push(format!("tidegate.devices = '{list}'"));
        } else if devices.iter().all(|device| device.ordered().is_none()) {
            why.push("the devices add floats as their rows come".to_owned());
        }
        if self.options.placement == PlacementMode::Host {
            why.push("tidegate.placement = 'host'".to_owned());
        }
        if self.options.regions == RegionForms::Additive {
            why.push("tidegate.regions = 'additive'".to_owned());
        }
        if self.options.replay_placement.is_some() {
            why.push("tidegate.replay_placement shares the rows out".to_owned());
        }
        if !may_be_atomic(plan) {
            return why;
        }
        match lower_atomic(plan) {
            Err(reasons) => why.extend(reasons.into_vec()),
            Ok(lowered) => {
                if rounds_over_groups(&lowered.pipeline) {
                    why.push("it adds floats up over groups, which come in no order".to_owned());
                }
                let refusals = devices
                    .iter()
                    .flat_map(|each| each.refusals(&lowered.pipeline));
                why.extend(refusals);
                match leaf_of(&lowered.leaf, self.leaf_options(&lowered.pipeline)) {
                    Err(reason) => why.push(reason),
                    Ok(leaf) if !leaf.rereads() => {
                        why.push("its rows cannot be read again".to_owned());
                    }
                    Ok(_) => {}
                }
            }
        }
        why
    }
}

/// Returns the name of the first call, from the root, that adds floats in no fixed order.
pub(crate) fn unordered_sum(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    find_unordered(plan, &|_| true).map(|(_, name)| name)
}

/// Finds the first aggregate, from the root, with a wanted call that adds floats in no fixed order,
/// and the call's name.
fn find_unordered<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<(&'a Arc<dyn ExecutionPlan>, String)> {
    let region = plan.downcast_ref::<PipelineExec>();
    if region.is_some_and(PipelineExec::has_ordered_sums) {
        return None;
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let rounds = |call: &&Arc<AggregateFunctionExpr>| rounds_up(call) && is_wanted(call.name());
        if let Some(call) = aggregate.aggr_expr().iter().find(rounds) {
            return Some((plan, call.name().to_string()));
        }
    }
    let inputs = plan.children();
    let mut inputs = inputs.into_iter();
    inputs.find_map(|input| find_unordered(input, is_wanted))
}
