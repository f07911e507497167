//! One output of gathered groups: partitions of records, merged into values.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tidegate_kernels::host::{Declined, Merge, Partition};

use super::fold::{TIME_AT_ONCE, no_state};
use super::groups::Execution;

/// Merges what no other output has claimed.
pub(super) struct MergedGroups {
    execution: Arc<Execution>,
    ctx: Arc<TaskContext>,
    merge: Merge,
    ready: VecDeque<RecordBatch>,
    /// Values of groups of which one raised, by DataFusion's final aggregate.
    elsewhere: Option<SendableRecordBatchStream>,
    began: Instant,
    elapsed: Time,
    merged_groups: Count,
}

impl MergedGroups {
    /// Begins to merge; `merged_groups` counts what was merged, `elapsed` how long it took.
    pub(super) fn new(
        execution: Arc<Execution>,
        ctx: Arc<TaskContext>,
        merged_groups: Count,
        elapsed: Time,
    ) -> Result<Self> {
        let merge = Merge::new(&execution.program, execution.gather.strings());
        Ok(Self {
            execution,
            ctx,
            merge: merge.map_err(no_state)?,
            ready: VecDeque::new(),
            elsewhere: None,
            began: Instant::now(),
            elapsed,
            merged_groups,
        })
    }

    pub(super) fn stream(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.execution.values.schema());
        let rows = stream::try_unfold(self, |mut merged| async move {
            Ok(merged.next().await?.map(|batch| (batch, merged)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.began = Instant::now();
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if let Some(rows) = &mut self.elsewhere {
                match rows.next().await.transpose()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.elsewhere = None,
                }
            }
            match self.execution.gather.claim() {
                Some(partitions) => self.merge(partitions).await?,
                None => return Ok(None),
            }
        }
    }

    /// Merges some partitions, and has their groups' values leave next.
    async fn merge(&mut self, partitions: Vec<Partition>) -> Result<()> {
        let bytes = partitions.iter().map(Partition::memory_bytes).sum();
        for mut partition in partitions {
            loop {
                let timer = self.elapsed.timer();
                let added = self.merge.add_some(&mut partition).map_err(no_state);
                timer.done();
                if !added? {
                    break;
                }
                self.let_others_run().await;
            }
        }
        self.merged_groups.add(self.merge.num_groups());
        let batch_rows = self.ctx.session_config().batch_size();
        let timer = self.elapsed.timer();
        let values = self.merge.batches(Some(&self.execution.values), batch_rows);
        timer.done();
        match values {
            Ok(batches) => self.ready.extend(batches),
            Err(Declined::Raises) => {
                let states = self.merge.batches(None, batch_rows).map_err(no_state)?;
                let ctx = Arc::clone(&self.ctx);
                self.elsewhere = Some(self.execution.finish_states(states, ctx)?);
            }
            Err(declined) => return Err(no_state(declined)),
        }
        self.merge.restart();
        self.execution.gather.free(bytes);
        self.let_others_run().await;
        Ok(())
    }

    async fn let_others_run(&mut self) {
        if self.began.elapsed() > TIME_AT_ONCE {
            tokio::task::yield_now().await;
            self.began = Instant::now();
        }
    }
}
