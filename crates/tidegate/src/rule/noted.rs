//! Has joins note the keys that scans of their probe sides look for.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::leaf::parquet::pages::runtime_filter_ids;
use crate::node_rule::over_changed;
use crate::region::PipelineExec;
use crate::region::join_keys::{JoinKeys, JoinKeysExec};

/// A plan with what its joins note.
pub(super) type NotedPlan = (Arc<dyn ExecutionPlan>, Vec<Arc<JoinKeys>>);

/// Returns a plan whose joins note their keys if a scan has a filter of theirs, and where they note them.
pub(super) fn noted_keys(plan: &Arc<dyn ExecutionPlan>) -> Result<NotedPlan> {
    let mut filters = Vec::new();
    find_filters(plan, &mut filters);
    let mut noted = Vec::new();
    let plan = match filters.is_empty() {
        true => Arc::clone(plan),
        false => noting(plan, &filters, &mut noted)?,
    };
    Ok((plan, noted))
}

fn find_filters(plan: &Arc<dyn ExecutionPlan>, filters: &mut Vec<u64>) {
    if plan.is::<PipelineExec>() {
        return;
    }
    filters.extend(runtime_filter_ids(plan));
    for input in plan.children() {
        find_filters(input, filters);
    }
}

fn noting(
    plan: &Arc<dyn ExecutionPlan>,
    filters: &[u64],
    noted: &mut Vec<Arc<JoinKeys>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<PipelineExec>() {
        return Ok(Arc::clone(plan));
    }
    let plan = over_changed(plan, |input| noting(input, filters, noted))?;
    Ok(match JoinKeysExec::noting(&plan, filters)? {
        Some((join, keys)) => {
            noted.push(keys);
            join
        }
        None => plan,
    })
}
