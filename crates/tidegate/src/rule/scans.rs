//! Replaces the scans of a plan.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::region::PipelineExec;

/// Gives each scan of a plan, outside of regions, to `replace`; `None` leaves it as it is.
pub(super) fn map_scans(
    plan: &Arc<dyn ExecutionPlan>,
    replace: &impl Fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<PipelineExec>() {
        return Ok(Arc::clone(plan));
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(replace(plan).unwrap_or_else(|| Arc::clone(plan)));
    }
    let replaced = children
        .iter()
        .map(|input| map_scans(input, replace))
        .collect::<Result<Vec<_>>>()?;
    let mut pairs = replaced.iter().zip(&children);
    if pairs.all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(plan));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(plan).replace_children(replaced, options)
}
