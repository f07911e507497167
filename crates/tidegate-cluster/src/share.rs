//! A share of a leaf on its way to its executor, with the number by which the executor tells how long it
//! took.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use tidegate::{UnaryExec, UnaryOperator};

use crate::local::LocalLeaf;

/// See the module. The executor takes it away before anything runs.
pub(crate) type ShareExec = UnaryExec<Share>;

/// What a [`ShareExec`] is.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) inner: Arc<dyn ExecutionPlan>,
    pub(crate) number: u64,
    /// What EXPLAIN says of it; it does not travel.
    pub(crate) what: String,
}

impl UnaryOperator for Share {
    const NAME: &'static str = "ShareExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            inner,
            ..self.clone()
        }
    }

    fn detail(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": {}, ", self.what)?;
        self.inner.fmt_as(format, f)
    }
}

/// Takes shares' numbers off a stage, and puts local joins in the place of the leaves that hid them. Returns the number
/// of the one share that a stage reads which reads nothing else: how long that stage takes is how long the share does.
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
            if let Some(local) = node.downcast_ref::<LocalLeaf>() {
                return Ok(Transformed::yes(Arc::clone(local.joins())));
            }
            let Some(share) = node.downcast_ref::<ShareExec>() else {
                return Ok(Transformed::no(node));
            };
            numbers.push(share.0.number);
            let inner = Arc::clone(&share.0.inner);
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

    use tidegate::UnaryExec;

    use super::{Share, unwrapped};

    fn leaf() -> Arc<dyn ExecutionPlan> {
        Arc::new(EmptyExec::new(Arc::new(Schema::empty())))
    }

    fn share(number: u64) -> Arc<dyn ExecutionPlan> {
        let what = "half of it".into();
        let inner = leaf();
        Arc::new(UnaryExec(Share {
            inner,
            number,
            what,
        }))
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
