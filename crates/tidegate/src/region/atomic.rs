//! An atomic region's streams: a device answers all of it, or the host's subtree runs as planned.
//!
//! Whoever polls first asks the device; the answer is whole before any of its rows leaves, so the
//! host's subtree, which has not been executed, can still take over. Where the region claims a hash
//! partitioning, its rows are routed by DataFusion's own partitioner.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_scheduler::{AtomicRun, Place, Reason, RunFailure, RunSpec};
use tokio::sync::OnceCell;

use super::{failure, promote};
use crate::error::{Error, ErrorKind};
use crate::leaf::Leaf;

/// The answer to a region, by partition; `None` if the host must answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    partitions: OnceCell<Option<Vec<Vec<RecordBatch>>>>,
}

/// One partition's way to the answer.
pub(crate) struct Question {
    pub(crate) host: Arc<dyn ExecutionPlan>,
    pub(crate) answer: Arc<Answer>,
    pub(crate) spec: RunSpec,
    pub(crate) if_not: IfNot,
    pub(crate) leaf: Arc<dyn Leaf>,
    /// What is read may come to a device to stay.
    pub(crate) promotes: bool,
}

/// Returns whether rows can be routed as a region with this partitioning claims.
pub(crate) fn can_route(partitioning: &Partitioning) -> bool {
    !matches!(partitioning, Partitioning::Range(_)) || partitioning.partition_count() == 1
}

/// Returns whether anybody can rely on a partitioning by these expressions. A projection that leaves a
/// key out puts an unknown column in its place, which equals nothing and has no values.
pub(crate) fn can_be_claimed(exprs: &[Arc<dyn PhysicalExpr>]) -> bool {
    let is_unknown = |node: &Arc<dyn PhysicalExpr>| Ok(node.is::<UnKnownColumn>());
    let knows = |expr: &Arc<dyn PhysicalExpr>| !expr.exists(is_unknown).unwrap_or(true);
    exprs.iter().all(knows)
}

/// What becomes of a region that the device does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfNot {
    /// The host answers.
    Host,
    /// That is an error, for the placement is strict.
    Strict,
    /// That is an error, for the host adds floats in another order each time.
    Unordered,
}

impl Question {
    /// Streams one partition of the region.
    pub(crate) fn stream(
        self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema = self.host.schema();
        let rows = stream::once(async move {
            let answer = self
                .answer
                .partitions
                .get_or_try_init(|| self.ask())
                .await?;
            Ok::<_, datafusion::error::DataFusionError>(match answer {
                Some(partitions) => {
                    let rows = partitions[partition].clone();
                    stream::iter(rows.into_iter().map(Ok)).boxed()
                }
                None => self.host.execute(partition, ctx)?.boxed(),
            })
        })
        .try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    async fn ask(&self) -> Result<Option<Vec<Vec<RecordBatch>>>> {
        match AtomicRun::run(&self.spec).await {
            Ok(rows) => {
                if self.promotes {
                    promote::was_read(&self.spec, &self.leaf);
                }
                self.route(rows).map(Some)
            }
            Err(RunFailure::Fallback(reason)) if self.if_not == IfNot::Host => {
                self.spec.counters.reason(Place::Host, reason);
                Ok(None)
            }
            Err(RunFailure::Eval(error)) if self.if_not == IfNot::Host && error.is_arithmetic() => {
                let reason = Reason::Raised(error.to_string());
                self.spec.counters.reason(Place::Host, reason);
                Ok(None)
            }
            Err(RunFailure::Fallback(reason)) if self.if_not == IfNot::Unordered => {
                let message = format!(
                    "tidegate.float_sums = 'ordered': the device does not answer, and the host \
                     adds floats in no fixed order: {reason}; SET tidegate.float_sums = 'any' to \
                     let it"
                );
                Err(Error::new(ErrorKind::Device, message).into())
            }
            Err(other) => Err(failure(other)),
        }
    }

    fn route(&self, rows: Vec<RecordBatch>) -> Result<Vec<Vec<RecordBatch>>> {
        let partitioning = self.host.output_partitioning();
        let num_partitions = partitioning.partition_count();
        let mut partitions = vec![Vec::new(); num_partitions];
        match partitioning {
            Partitioning::Hash(exprs, _) if num_partitions > 1 && can_be_claimed(exprs) => {
                let mut router = BatchPartitioner::new_hash_partitioner(
                    exprs.clone(),
                    num_partitions,
                    Time::new(),
                )?;
                for batch in rows {
                    router.partition(batch, |partition, routed| {
                        partitions[partition].push(routed);
                        Ok(())
                    })?;
                }
            }
            _ => partitions[0] = rows,
        }
        Ok(partitions)
    }
}
