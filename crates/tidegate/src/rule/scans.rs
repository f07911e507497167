//! Replaces the scans of a plan.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::node_rule::over_changed;
use crate::region::PipelineExec;

/// Gives each scan of a plan, outside of regions, to `replace`; `None` leaves it as it is.
pub(super) fn map_scans(
    plan: &Arc<dyn ExecutionPlan>,
    replace: &impl Fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<PipelineExec>() {
        return Ok(Arc::clone(plan));
    }
    if plan.children().is_empty() {
        return Ok(replace(plan).unwrap_or_else(|| Arc::clone(plan)));
    }
    over_changed(plan, |input| map_scans(input, replace))
}
