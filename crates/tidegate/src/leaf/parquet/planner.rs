//! Plans a file for the host: claims a run of its row groups, lets the inner source plan that, and
//! comes back for the next run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::morsel::{MorselPlan, MorselPlanner, Morselizer};
use tidegate_scheduler::{HostClaim, HostClaimer, MixedRun, RunFailure};

use super::PieceOf;
use super::loader::RowGroups;

/// Hands each file to a [`GatedPlanner`].
#[derive(Debug)]
pub(super) struct GatedMorselizer {
    pub(super) inner: Arc<dyn Morselizer>,
    pub(super) run: Arc<MixedRun>,
    pub(super) row_groups: Arc<RowGroups>,
    pub(super) partition: usize,
}

impl Morselizer for GatedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let Some(&PieceOf(piece)) = file.extension::<PieceOf>() else {
            return self.inner.plan_file(file);
        };
        self.run.queue().open_partition(self.partition);
        Ok(Box::new(GatedPlanner {
            morselizer: Arc::clone(&self.inner),
            run: Arc::clone(&self.run),
            row_groups: Arc::clone(&self.row_groups),
            claimer: None,
            piece,
            planning: VecDeque::new(),
        }))
    }
}

/// One file's planner. `planning` holds the inner planners of the run at hand; a new run is claimed
/// only when they are done, so that whatever a device is quicker to take is left to it.
struct GatedPlanner {
    morselizer: Arc<dyn Morselizer>,
    run: Arc<MixedRun>,
    row_groups: Arc<RowGroups>,
    /// There is one once the file's turn has come.
    claimer: Option<HostClaimer>,
    piece: usize,
    planning: VecDeque<Box<dyn MorselPlanner>>,
}

impl fmt::Debug for GatedPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedPlanner")
            .field("piece", &self.piece)
            .finish_non_exhaustive()
    }
}

impl MorselPlanner for GatedPlanner {
    fn plan(mut self: Box<Self>) -> Result<Option<MorselPlan>> {
        if let Some(inner) = self.planning.pop_front() {
            return self.go_on(inner);
        }
        if !self.run.queue().is_listed(self.piece) {
            return Ok(Some(self.list()));
        }
        let run = &self.run;
        let claimer = self.claimer.take();
        let claimer = claimer.unwrap_or_else(|| run.host_claimer());
        let claim = claimer.claim(self.piece, usize::MAX);
        let claimed = match claim {
            HostClaim::Run(claimed) => claimed,
            HostClaim::Empty => return Ok(None),
            HostClaim::Later(time) => {
                return Ok(Some(MorselPlan::new().with_pending_planner(async move {
                    claimer.later(time).await;
                    self.claimer = Some(claimer);
                    Ok(self as Box<dyn MorselPlanner>)
                })));
            }
        };
        self.claimer = Some(claimer);
        for morsel in &claimed {
            self.run.count_host(morsel);
        }
        let indices = claimed.iter().map(|morsel| morsel.id.index);
        let file = self.row_groups.file_with(self.piece, indices)?;
        let inner = self.morselizer.plan_file(file)?;
        self.go_on(inner)
    }
}

impl GatedPlanner {
    /// Lets the inner planner take its next step; this planner follows whatever that gives.
    fn go_on(mut self: Box<Self>, inner: Box<dyn MorselPlanner>) -> Result<Option<MorselPlan>> {
        let Some(mut plan) = inner.plan()? else {
            return Ok(Some(MorselPlan::new().with_planners(vec![self])));
        };
        self.planning.extend(plan.take_ready_planners());
        let morsels = plan.take_morsels();
        let next = MorselPlan::new().with_morsels(morsels);
        Ok(Some(match plan.take_pending_planner() {
            None => next.with_planners(vec![self]),
            Some(pending) => next.with_pending_planner(async move {
                self.planning.push_front(pending.await?);
                Ok(self as Box<dyn MorselPlanner>)
            }),
        }))
    }

    fn list(self: Box<Self>) -> MorselPlan {
        MorselPlan::new().with_pending_planner(async move {
            let listed = self.run.list(self.piece).await;
            listed.map_err(|failure| match failure {
                RunFailure::Load(error) => DataFusionError::External(error),
                other => DataFusionError::External(Box::new(other)),
            })?;
            Ok(self as Box<dyn MorselPlanner>)
        })
    }
}
