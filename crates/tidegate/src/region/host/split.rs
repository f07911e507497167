//! Cuts a region's chain into what the engine does and what it reads from.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::leaf::parquet::pages::PageScan;
use crate::node_rule::over;

/// A chain whose exchanges are below all of its operators.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// The operators over `source`, as DataFusion has them.
    pub(super) operators: Arc<dyn ExecutionPlan>,
    /// The leaf with the chain's exchanges above it.
    pub(super) source: Arc<dyn ExecutionPlan>,
}

impl Split {
    /// Moves the exchanges of a chain to its leaf: they pass whole batches on, whatever is in them, and
    /// what an operator makes of a row does not depend on where the row is.
    pub(super) fn of(chain: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let (mut operators, mut exchanges) = (Vec::new(), Vec::new());
        let mut node = chain;
        while let [input] = node.children()[..] {
            if is_operator(node) {
                operators.push(node);
            } else if node.is::<RepartitionExec>() || node.is::<CooperativeExec>() {
                exchanges.push(node);
            } else {
                break;
            }
            node = input;
        }
        let source = stacked(exchanges, Arc::clone(node))?;
        let operators = stacked(operators, Arc::clone(&source))?;
        Ok(Self { operators, source })
    }

    /// Returns how the leaf is read as pages, or why it is not; `None` if it is no Parquet scan.
    pub(super) fn page_scan(&self) -> Option<std::result::Result<PageScan, String>> {
        let mut leaf = &self.source;
        while let [input] = leaf.children()[..] {
            leaf = input;
        }
        PageScan::new(leaf, !Arc::ptr_eq(leaf, &self.source))
    }
}

fn is_operator(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<AggregateExec>() || node.is::<FilterExec>() || node.is::<ProjectionExec>()
}

/// Puts nodes of one input, the highest first, above another one.
fn stacked(
    nodes: Vec<&Arc<dyn ExecutionPlan>>,
    bottom: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    nodes.into_iter().rev().try_fold(bottom, |below, node| {
        if Arc::ptr_eq(node.children()[0], &below) {
            return Ok(Arc::clone(node));
        }
        over(node, vec![below])
    })
}
