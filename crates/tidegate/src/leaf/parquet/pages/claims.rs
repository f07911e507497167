//! What one partition claims of the run that shares a gated scan out.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion_datasource::PartitionedFile;
use tidegate_scheduler::{HostClaimer, MixedRun, RunFailure};

use super::super::PieceOf;
use super::super::loader::RowGroups;
use super::PageScan;

/// One partition's claims, piece after piece.
pub(super) struct Claims {
    run: Arc<MixedRun>,
    row_groups: Arc<RowGroups>,
    /// The pieces that may have something left, with the scan's partitions that they are in.
    pieces: VecDeque<(usize, usize)>,
    claimer: Option<HostClaimer>,
}

impl Claims {
    /// Begins with the pieces of a partition, and goes on with those of others if it may take them;
    /// `None` without a run.
    pub(super) fn begin(scan: &PageScan, partition: usize, ctx: &TaskContext) -> Option<Self> {
        let gate = scan.gate.as_ref()?;
        let run = Arc::clone(gate.slot.run()?);
        let execution = &ctx.session_config().options().execution;
        let takes_others = scan.is_exchanged || execution.enable_file_stream_work_stealing;
        let num_groups = scan.config.file_groups.len();
        let num_taken = if takes_others { num_groups } else { 1 };
        let mut pieces = VecDeque::new();
        for next in 0..num_taken {
            let group = (partition + next) % num_groups.max(1);
            let files = scan.config.file_groups.get(group);
            let files = files.into_iter().flat_map(|files| files.iter());
            let files = files.filter_map(|file| file.extension::<PieceOf>());
            pieces.extend(files.map(|piece| (group, piece.0)));
        }
        Some(Self {
            run,
            row_groups: Arc::clone(&gate.row_groups),
            pieces,
            claimer: None,
        })
    }

    /// Claims row groups of a file; `None` once nothing is left.
    ///
    /// # Errors
    /// What keeps the file from being listed.
    pub(super) async fn next(&mut self) -> Result<Option<PartitionedFile>> {
        while let Some(&(group, piece)) = self.pieces.front() {
            let run = &self.run;
            if self.claimer.is_none() {
                run.queue().open_partition(group);
            }
            if !run.queue().is_listed(piece) {
                run.list(piece).await.map_err(|failure| match failure {
                    RunFailure::Load(error) => DataFusionError::External(error),
                    other => DataFusionError::External(Box::new(other)),
                })?;
            }
            let claimer = self.claimer.get_or_insert_with(|| run.host_claimer());
            let claimed = claimer.claim_in_time(piece, usize::MAX).await;
            if claimed.is_empty() {
                self.pieces.pop_front();
                // The claimer that is dropped is done with what it has.
                self.claimer = None;
                continue;
            }
            for morsel in &claimed {
                run.count_host(morsel);
            }
            let indices = claimed.iter().map(|morsel| morsel.id.index);
            return self.row_groups.file_with(piece, indices).map(Some);
        }
        Ok(None)
    }
}
