//! A share of a leaf on its way to its executor, with the number by which the executor tells how long it
//! took.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// See the module. The executor takes it away before anything runs.
#[derive(Debug)]
pub(crate) struct ShareExec {
    pub(crate) inner: Arc<dyn ExecutionPlan>,
    pub(crate) number: u64,
    /// What EXPLAIN says of it; it does not travel.
    pub(crate) what: String,
}

impl DisplayAs for ShareExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShareExec: {}, ", self.what)?;
        self.inner.fmt_as(kind, f)
    }
}

impl ExecutionPlan for ShareExec {
    fn name(&self) -> &str {
        "ShareExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([inner]) = <[_; 1]>::try_from(children) else {
            return internal_err!("ShareExec has one input");
        };
        Ok(Arc::new(Self {
            inner,
            number: self.number,
            what: self.what.clone(),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, ctx)
    }
}

/// Takes shares' numbers off a stage. Returns the number of the one share that a stage reads which reads
/// nothing else: how long that stage takes is how long the share does.
///
/// # Errors
/// None for stages that were planned.
pub(crate) fn unwrapped(
    stage: Arc<dyn ExecutionPlan>,
) -> Result<(Arc<dyn ExecutionPlan>, Option<u64>)> {
    let mut numbers = Vec::new();
    let mut leaves = 0;
    let stage = stage
        .transform_up(|node| {
            leaves += usize::from(node.children().is_empty());
            let Some(share) = node.downcast_ref::<ShareExec>() else {
                return Ok(Transformed::no(node));
            };
            numbers.push(share.number);
            let inner = Arc::clone(&share.inner);
            Ok(Transformed::yes(inner))
        })
        .data()?;
    let only = match numbers.as_slice() {
        [number] if leaves == 1 => Some(*number),
        _ => None,
    };
    Ok((stage, only))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::union::UnionExec;

    use super::{ShareExec, unwrapped};

    fn leaf() -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(Arc::new(Schema::empty())))
    }

    fn share(number: u64) -> Arc<dyn ExecutionPlan> {
        Arc::new(ShareExec {
            inner: leaf(),
            number,
            what: "half of it".into(),
        })
    }

    #[test]
    fn a_stage_of_one_share_has_its_number() {
        let one = Arc::new(CoalescePartitionsExec::new(share(7)));
        let (stage, number) = unwrapped(one).unwrap();
        assert_eq!(number, Some(7));
        assert!(stage.children()[0].is::<EmptyExec>());
        for others in [vec![share(1), share(2)], vec![share(1), leaf()]] {
            let two = UnionExec::try_new(others).unwrap();
            assert_eq!(unwrapped(two).unwrap().1, None);
        }
        assert_eq!(unwrapped(leaf()).unwrap().1, None);
    }
}
