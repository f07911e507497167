//! What one partition claims of the run that shares a gated scan out.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion_datasource::PartitionedFile;
use tidegate_scheduler::{HostClaimer, MixedRun, RunFailure};

use super::super::PieceOf;
use super::super::loader::RowGroups;
use super::super::source::Gate;

/// One partition's claims, piece after piece.
pub(super) struct Claims {
    run: Arc<MixedRun>,
    row_groups: Arc<RowGroups>,
    partition: usize,
    pieces: VecDeque<usize>,
    claimer: Option<HostClaimer>,
}

impl Claims {
    /// Begins with the pieces of a partition, and goes on with those of others if it may take them;
    /// `None` without a run.
    pub(super) fn begin(
        gate: &Gate,
        config: &FileScanConfig,
        partition: usize,
        takes_others: bool,
    ) -> Option<Self> {
        let run = Arc::clone(gate.slot.run()?);
        let groups = config.file_groups.len().max(1);
        let num_groups = if takes_others { groups } else { 1 };
        let order = (0..num_groups).map(|next| (partition + next) % groups);
        let files = order.filter_map(|group| config.file_groups.get(group));
        let pieces = files.flat_map(|group| {
            let piece = |file: &PartitionedFile| Some(file.extension::<PieceOf>()?.0);
            group.iter().filter_map(piece).collect::<Vec<_>>()
        });
        Some(Self {
            run,
            row_groups: Arc::clone(&gate.row_groups),
            partition,
            pieces: pieces.collect(),
            claimer: None,
        })
    }

    /// Claims row groups of a file; `None` once nothing is left.
    pub(super) async fn next(&mut self) -> Result<Option<PartitionedFile>> {
        if self.claimer.is_none() {
            self.run.queue().open_partition(self.partition);
        }
        while let Some(&piece) = self.pieces.front() {
            if !self.run.queue().is_listed(piece) {
                let listed = self.run.list(piece).await;
                listed.map_err(|failure| match failure {
                    RunFailure::Load(error) => DataFusionError::External(error),
                    other => DataFusionError::External(Box::new(other)),
                })?;
            }
            let run = &self.run;
            let claimer = self.claimer.get_or_insert_with(|| run.host_claimer());
            let claimed = claimer.claim_in_time(piece, usize::MAX).await;
            if claimed.is_empty() {
                self.pieces.pop_front();
                continue;
            }
            for morsel in &claimed {
                self.run.count_host(morsel);
            }
            let indices = claimed.iter().map(|morsel| morsel.id.index);
            return self.row_groups.file_with(piece, indices).map(Some);
        }
        self.claimer = None;
        Ok(None)
    }
}
