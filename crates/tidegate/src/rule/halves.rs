//! An aggregate in two halves, of which a region is the first.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

/// The two halves of an aggregate that was planned as one, so that its partial states can be mixed.
pub(super) struct Halves {
    pub(super) partial: Arc<dyn ExecutionPlan>,
    whole: Arc<dyn ExecutionPlan>,
}

impl Halves {
    /// Splits `plan` if it is a whole aggregate over one partition.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
            return Ok(None);
        };
        if *aggregate.mode() != AggregateMode::Single {
            return Ok(None);
        }
        let partial = AggregateExec::try_new(
            AggregateMode::Partial,
            Arc::new(aggregate.group_expr().clone()),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            Arc::clone(aggregate.input()),
            aggregate.input_schema(),
        )?;
        Ok(Some(Self {
            partial: Arc::new(partial),
            whole: Arc::clone(plan),
        }))
    }

    /// Puts the final half above the placed partial one.
    pub(super) fn finish(&self, placed: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(whole) = self.whole.downcast_ref::<AggregateExec>() else {
            return datafusion::common::internal_err!("halves of no aggregate");
        };
        let last = AggregateExec::try_new(
            AggregateMode::Final,
            Arc::new(whole.group_expr().as_final()),
            whole.aggr_expr().to_vec(),
            vec![None; whole.aggr_expr().len()],
            placed,
            whole.input_schema(),
        )?;
        Ok(Arc::new(last.with_limit_options(whole.limit_options())))
    }
}
