//! Rebuilds a region's host chain over another leaf.

use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::node_rule::over;

/// Returns the chain with `leaf` in place of its leaf; every node above is new.
pub(crate) fn with_leaf(
    chain: &Arc<dyn ExecutionPlan>,
    is_leaf: &dyn Fn(&dyn ExecutionPlan) -> bool,
    leaf: &Arc<dyn ExecutionPlan>,
    exchanges: Exchanges,
) -> Result<Arc<dyn ExecutionPlan>> {
    if is_leaf(chain.as_ref()) {
        return Ok(Arc::clone(leaf));
    }
    let children = chain.children();
    let [input] = children.as_slice() else {
        return internal_err!("{} is no part of a chain", chain.name());
    };
    let input = with_leaf(input, is_leaf, leaf, exchanges)?;
    if exchanges == Exchanges::Drop && chain.is::<RepartitionExec>() {
        return Ok(input);
    }
    over(chain, vec![input])
}

/// Returns the first node of a chain, from its root down, that has this name.
pub(crate) fn node_below<'a>(
    chain: &'a Arc<dyn ExecutionPlan>,
    name: &str,
) -> Option<&'a Arc<dyn ExecutionPlan>> {
    let mut node = chain;
    while node.name() != name {
        let [input] = node.children()[..] else {
            return None;
        };
        node = input;
    }
    Some(node)
}

/// What happens to a chain's repartitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchanges {
    /// They stay.
    Keep,
    /// The new leaf has one partition: they have nothing to do.
    Drop,
}
