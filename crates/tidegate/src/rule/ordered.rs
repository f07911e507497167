//! `tidegate.float_sums = 'ordered'`: which plans keep that promise, and why others do not.
//!
//! The host adds floats in the order in which rows come, which differs from run to run. A GPU's sums
//! are in fixed digits and have the same bits in any order, so that an atomic region of its own keeps
//! the promise; one that host and device share does not.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use tidegate_scheduler::PlacementMode;

use super::{Placer, leaf_of, may_be_atomic};
use crate::error::{Error, ErrorKind};
use crate::functions::linear;
use crate::lower::{lower_atomic, rounds_over_groups};
use crate::options::RegionForms;
use crate::region::PipelineExec;

/// Aggregates that round what they add up, if their result is a float. Those of linear algebra do, too.
const ROUNDING: [&str; 9] = [
    "sum",
    "avg",
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "corr",
    "covar_samp",
    "covar_pop",
];

/// The beginning of the names of the others.
const REGRESSION: &str = "regr_";

impl Placer<'_> {
    /// Refuses a plan whose float sums could differ from run to run as it was placed.
    pub(super) fn refuse_unordered_sums(
        &self,
        planned: &Arc<dyn ExecutionPlan>,
        placed: &Arc<dyn ExecutionPlan>,
    ) -> Result<()> {
        let Some((_, name)) = unordered_sum(placed, &|_| true) else {
            return Ok(());
        };
        // Placing has taken parts of the plan out of sight.
        let why = match unordered_sum(planned, &|other| other == name) {
            Some((aggregate, _)) => self.why_unordered(aggregate),
            None => self.why_unordered(planned),
        };
        let message = format!(
            "tidegate.float_sums = 'ordered': {name} adds floats in no fixed order here, for only a \
             GPU that answers all of an aggregate keeps one ({}); \
             SET tidegate.float_sums = 'any', or cast its argument to a decimal",
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

/// Finds the first aggregate, from the root, with a wanted call that adds floats in no fixed order,
/// and the call's name.
fn unordered_sum<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<(&'a Arc<dyn ExecutionPlan>, String)> {
    let region = plan.downcast_ref::<PipelineExec>();
    if region.is_some_and(PipelineExec::has_ordered_sums) {
        return None;
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let rounds = |call: &&Arc<AggregateFunctionExpr>| {
            let name = call.fun().name();
            let adds = ROUNDING.contains(&name) || name.starts_with(REGRESSION);
            let is_float = adds && call.field().data_type().is_floating();
            (is_float || linear::is_linear(call.fun())) && is_wanted(call.name())
        };
        if let Some(call) = aggregate.aggr_expr().iter().find(rounds) {
            return Some((plan, call.name().to_string()));
        }
    }
    let inputs = plan.children();
    let mut inputs = inputs.into_iter();
    inputs.find_map(|input| unordered_sum(input, is_wanted))
}
