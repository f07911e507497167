//! Folding a morsel of the pinned tier: its columns move to the device in their encoding, stay for
//! one fold, and are dropped with it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use tidegate_device::DeviceError;
use tidegate_kernels::{Promoted, RunError};

use super::open_run::{OpenRun, PinnedWork, Work};
use super::{Feeder, Step, fault};
use crate::cache::pinned::PinnedMorsel;
use crate::place::Location;
use crate::run::RunFailure;

/// How long a morsel waits for room on a device on which nothing of its run is in flight.
const PATIENCE: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
    Duration::from_millis(64),
];

impl Feeder {
    /// Moves a morsel to the device and folds it there, or says what it waits for. What finds no room
    /// though nothing of this run is in flight is loaded instead, by the ladder.
    pub(super) async fn fold_pinned(
        &self,
        work: PinnedWork,
        open: &mut OpenRun,
    ) -> Result<Step, RunFailure> {
        let (idle, size) = (open.in_flight.is_empty(), work.size());
        let Some(turn) = self.turn(idle, size, Location::Pinned).await else {
            return Ok(Step::Blocked(Work::Pinned(work)));
        };
        let mut moved = self.move_up(&work.rows).await;
        for wait in PATIENCE {
            // Without a fold in flight, what is there may only be passing: what was folded before goes
            // shortly after its fold.
            if !(idle && is_shortage(&moved)) {
                break;
            }
            tokio::time::sleep(wait).await;
            moved = self.move_up(&work.rows).await;
        }
        match moved {
            Ok(columns) => {
                self.cache.pinned().hit(&work.rows);
                open.fold_promoted(work, columns, turn);
                Ok(Step::Done)
            }
            Err(RunError::Device(DeviceError::Refused { .. })) => Ok(instead(work)),
            // What is in flight gives room when it ends, or shows what is wrong with the device.
            Err(_) if !idle => Ok(Step::Blocked(Work::Pinned(work))),
            Err(RunError::Device(DeviceError::OutOfMemory { .. })) => Ok(instead(work)),
            Err(error) => {
                let reason = fault(&error);
                self.workers.cancel(self.device.info().id);
                self.give_back(&[work.morsel], reason.clone())?;
                if !self.device.is_lost() {
                    return Ok(Step::Done);
                }
                self.abandon(&open.folded, reason)?;
                open.folded.clear();
                Ok(Step::Abandoned)
            }
        }
    }

    async fn move_up(&self, rows: &PinnedMorsel) -> Result<Vec<Promoted>, RunError> {
        let chunks = rows.chunks.iter();
        let columns = chunks.map(|chunk| self.device.promote(Arc::clone(chunk.column())));
        try_join_all(columns).await
    }
}

/// Has a morsel loaded that cannot be moved.
fn instead(work: PinnedWork) -> Step {
    let PinnedWork {
        morsel, promise, ..
    } = work;
    Step::Instead(Work::Load(morsel, promise))
}

fn is_shortage<T>(moved: &Result<T, RunError>) -> bool {
    matches!(
        moved,
        Err(RunError::Device(DeviceError::OutOfMemory { .. }))
    )
}
