//! Which regions a device answers alone though their rows must be moved there: those with so many groups
//! that sharing costs more than it saves.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use tidegate_kernels::PipelineDevice;
use tidegate_pipeline::{Pipeline, Step};
use tidegate_scheduler::place::{DeviceState, RegionForm, RegionOutlook, choose_form};
use tidegate_scheduler::{MorselSize, Reason, ShapeKey};

use super::Placer;
use super::halves::Halves;
use crate::lower::{Lowered, lower_additive};
use crate::region::host_partitions;

impl Placer<'_> {
    /// Returns why a device should answer all of a region that must be moved there, if it should:
    /// where so many groups are known to come that sharing costs more than it saves.
    pub(super) fn why_alone(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        lowered: &Lowered,
        device: &Arc<dyn PipelineDevice>,
    ) -> Option<Reason> {
        let rates = self.runtime.dispatch().rates();
        let shared = shared_half(plan)?;
        let shape = ShapeKey::of(&shared);
        let info = device.info();
        // How many groups there are tells only a run that was shared before.
        let state_bytes = rates.state_bytes(shape) as u64;
        let group_bytes = 16 * shared.output.fields().len() as u64;
        let (num_rows, num_bytes) = size_of(&lowered.leaf)?;
        let outlook = RegionOutlook {
            scan: MorselSize {
                num_rows,
                num_bytes,
            },
            num_morsels: num_rows.div_ceil(self.options.morsel_rows as u64).max(1),
            groups: (state_bytes / group_bytes.max(1)).max(1),
            group_bytes,
            answer_rows: answer_rows(&lowered.pipeline, state_bytes / group_bytes.max(1)),
            host_partitions: host_partitions(),
            host_seconds_per_row: rates.host(shape),
            device: DeviceState {
                id: info.id,
                free_in: 0.0,
                rate: rates.device(shape, info),
                late: None,
                resident: false,
                returns: 0.0,
                limit_bytes: device.budget().limit(),
            },
            last: rates.last_form(shape),
        };
        let choice = choose_form(&outlook);
        rates.remember_form(shape, choice.form);
        (choice.form == RegionForm::Atomic).then_some(Reason::EarliestFinish)
    }
}

/// Returns the program of the half of a region that host and device could share: its first aggregate.
fn shared_half(plan: &Arc<dyn ExecutionPlan>) -> Option<Pipeline> {
    let children = plan.children();
    let [input] = children.as_slice() else {
        return None;
    };
    if let Some(below) = shared_half(input) {
        return Some(below);
    }
    plan.downcast_ref::<AggregateExec>()?;
    let halves = Halves::of(plan).ok()?;
    let chain = halves.as_ref().map_or(plan, |halves| &halves.partial);
    let lowered = lower_additive(chain).ok()?;
    lowered.pipeline.aggregates().then_some(lowered.pipeline)
}

/// Returns the rows of a scan and their bytes, as far as they are known.
fn size_of(scan: &Arc<dyn ExecutionPlan>) -> Option<(u64, u64)> {
    let known = StatisticsContext::new().compute(scan.as_ref(), &StatisticsArgs::new());
    let statistics = known.ok()?;
    let num_rows = *statistics.num_rows.get_value()? as u64;
    let widths = 8 * scan.schema().fields().len() as u64;
    let known = statistics.total_byte_size.get_value();
    let num_bytes = known.map_or(num_rows * widths, |bytes| *bytes as u64);
    Some((num_rows, num_bytes))
}

/// Returns how many rows leave a program that makes so many groups.
fn answer_rows(pipeline: &Pipeline, groups: u64) -> u64 {
    let fetch = pipeline.steps.iter().rev().find_map(|step| match step {
        Step::Sort(sort) => sort.fetch,
        _ => None,
    });
    fetch.map_or(groups, |fetch| groups.min(fetch as u64))
}
