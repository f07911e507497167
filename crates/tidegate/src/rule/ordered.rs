//! `tidegate.float_sums = 'ordered'`: float sums have the same bits on every run.
//!
//! A GPU's sums are in fixed digits and have the same bits in any order, so that an atomic region of its own
//! keeps the promise; one that host and device share does not. Where no GPU answers all of an aggregate, exact
//! sums take the places of those that round ([`crate::floats::exact`]). What has no exact form is refused.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_scheduler::PlacementMode;

use super::{Placer, leaf_of, may_be_atomic};
use crate::error::{Error, ErrorKind};
use crate::lower::{lower_atomic, rounds_over_groups};
use crate::options::RegionForms;
use crate::region::PipelineExec;
use crate::rewrite::exact_sums::rounding_call;

impl Placer<'_> {
    /// Refuses a plan whose float sums could differ from run to run as it was placed.
    pub(super) fn refuse_unordered_sums(
        &self,
        planned: &Arc<dyn ExecutionPlan>,
        placed: &Arc<dyn ExecutionPlan>,
    ) -> Result<()> {
        let Some((_, name)) = rounding_call(placed, &is_ordered, &|_| true) else {
            return Ok(());
        };
        // Placing has taken parts of the plan out of sight.
        let why = match rounding_call(planned, &is_ordered, &|other| other == name) {
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

/// Tells whether a device answers all of a plan with ordered sums.
fn is_ordered(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let region = plan.downcast_ref::<PipelineExec>();
    region.is_some_and(PipelineExec::has_ordered_sums)
}
