//! Folding a loaded morsel: memory and a turn first, by the ladder if memory is short.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use tidegate_device::DeviceError;
use tidegate_kernels::{FoldReport, RunError, referenced_bytes};

use super::open_run::{LoadedMorsel, OpenRun, Work, loaded as told};
use super::{Feeder, Step, fault};
use crate::counters::Setbacks;
use crate::ladder::{Rung, SPLIT_ROWS_MIN, Shortage};
use crate::place::{Location, Reason};
use crate::queue::MorselSize;
use crate::run::RunFailure;

impl Feeder {
    /// Folds a loaded morsel, or says what it waits for.
    pub(super) async fn fold_loaded(
        &self,
        mut loaded: LoadedMorsel,
        open: &mut OpenRun,
    ) -> Result<Step, RunFailure> {
        let size = size_of(&loaded.batches);
        let input = match loaded.input.take() {
            Some(input) => input,
            None => match self.device.reserve(size.num_bytes) {
                Ok(input) => input,
                Err(DeviceError::OutOfMemory { .. }) => {
                    return self.climb(loaded, open).await;
                }
                Err(error) => {
                    self.workers.cancel(self.device.info().id);
                    self.give_back(&[loaded.morsel], fault(&RunError::Device(error)))?;
                    return Ok(Step::Done);
                }
            },
        };
        let idle = open.in_flight.is_empty();
        let Some(turn) = self.turn(idle, size, Location::Host).await else {
            loaded.input = Some(input);
            return Ok(Step::Blocked(Work::Loaded(loaded)));
        };
        open.fold(loaded, input, turn);
        Ok(Step::Done)
    }

    /// Does what the ladder says until there is room, or something else must happen first.
    async fn climb(
        &self,
        mut loaded: LoadedMorsel,
        open: &mut OpenRun,
    ) -> Result<Step, RunFailure> {
        let MorselSize {
            num_rows: rows,
            num_bytes: bytes,
        } = size_of(&loaded.batches);
        let id = self.device.info().id;
        loop {
            let budget = self.device.budget();
            let shortage = Shortage {
                wanted_bytes: bytes,
                free_bytes: budget.free(),
                limit_bytes: budget.limit(),
                in_flight: !open.in_flight.is_empty(),
                others_hold: self.turns.others_are_known(self.query),
                divisible_rows: rows,
                may_flush: !open.folded.is_empty() && !self.atomic,
            };
            match loaded.ladder.next(&shortage) {
                Rung::Evict(bytes) => {
                    let evicted_bytes = self.dispatch.evict().evict(id, bytes);
                    self.setback(Setbacks {
                        evicted_bytes,
                        ..Setbacks::default()
                    });
                }
                Rung::AwaitFold => return Ok(Step::Blocked(Work::Loaded(loaded))),
                Rung::AwaitOthers(time) => {
                    self.setback(Setbacks {
                        waits: 1,
                        ..Setbacks::default()
                    });
                    tokio::time::sleep(time).await;
                }
                // A morsel is committed whole, so its parts share a run with nothing else.
                Rung::Split if shortage.may_flush => return Ok(Step::Flush(Work::Loaded(loaded))),
                Rung::Split => return self.fold_in_parts(loaded, open).await,
                Rung::Flush => return Ok(Step::Flush(Work::Loaded(loaded))),
                Rung::Host => {
                    self.workers.cancel(id);
                    self.give_back(&[loaded.morsel], self.no_room())?;
                    return Ok(Step::Done);
                }
            }
            if let Ok(input) = self.device.reserve(bytes) {
                loaded.input = Some(input);
                return Ok(Step::Blocked(Work::Loaded(loaded)));
            }
        }
    }

    /// Says why the device has no room: what was asked for stays there.
    fn no_room(&self) -> Reason {
        if self.cache.keeps_on(self.device.info().id) {
            Reason::DeviceMemoryKept
        } else {
            Reason::DeviceMemory
        }
    }

    /// Folds a morsel part by part, each as large as there is room for. Nothing else is in flight.
    async fn fold_in_parts(
        &self,
        loaded: LoadedMorsel,
        open: &mut OpenRun,
    ) -> Result<Step, RunFailure> {
        self.setback(Setbacks {
            splits: 1,
            ..Setbacks::default()
        });
        let mut parts = VecDeque::from(halves(&loaded.batches));
        let mut total = FoldReport::default();
        while let Some(part) = parts.pop_front() {
            let size = size_of(&part);
            let input = match self.device.reserve(size.num_bytes) {
                Ok(input) => input,
                Err(DeviceError::OutOfMemory { .. }) if size.num_rows >= 2 * SPLIT_ROWS_MIN => {
                    for half in halves(&part).into_iter().rev() {
                        parts.push_front(half);
                    }
                    continue;
                }
                Err(DeviceError::OutOfMemory { .. }) => {
                    return self.abandon_parts(&loaded, open, self.no_room());
                }
                Err(error) => {
                    return self.abandon_parts(&loaded, open, fault(&RunError::Device(error)));
                }
            };
            let turn = self.turn(true, size, Location::Host).await;
            let (fold, waiting) = (open.run.fold(part, input), open.run.waiting());
            let folded = match turn {
                Some(mut turn) => turn.work(fold, waiting).await,
                None => fold.await,
            };
            match folded {
                Ok(report) if report.state_fits || parts.is_empty() => {
                    self.learn(&report, size.num_bytes);
                    total.rows += report.rows;
                    total.bytes += report.bytes;
                    total.device_seconds += report.device_seconds;
                    total.state_fits = report.state_fits;
                }
                Ok(_) => return self.abandon_parts(&loaded, open, Reason::DeviceMemory),
                Err(RunError::Eval(error)) if !self.leaves_raising(&error) => {
                    return Err(RunFailure::Eval(error));
                }
                Err(error) => return self.abandon_parts(&loaded, open, fault(&error)),
            }
        }
        let now = self.now();
        self.workers.end(self.device.info().id, now);
        let folded = told(&[loaded.morsel], &total);
        let seconds = open.book_until(now, loaded.promise);
        self.book(&folded, &total, loaded.promise.estimate, seconds);
        open.folded.extend(folded);
        if total.state_fits {
            return Ok(Step::Done);
        }
        Ok(Step::Full)
    }

    /// Gives up a run in which a part of a morsel was folded.
    fn abandon_parts(
        &self,
        loaded: &LoadedMorsel,
        open: &mut OpenRun,
        reason: Reason,
    ) -> Result<Step, RunFailure> {
        self.workers.cancel(self.device.info().id);
        self.give_back(&[loaded.morsel], reason.clone())?;
        self.abandon(&open.folded, reason)?;
        open.folded.clear();
        Ok(Step::Abandoned)
    }
}

/// Returns the rows of batches and the bytes that must be moved for them.
fn size_of(batches: &[RecordBatch]) -> MorselSize {
    MorselSize {
        num_rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
        num_bytes: batches.iter().map(referenced_bytes).sum(),
    }
}

/// Cuts batches in two at the middle row.
fn halves(batches: &[RecordBatch]) -> Vec<Vec<RecordBatch>> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut left = rows / 2;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for batch in batches {
        let here = left.min(batch.num_rows());
        left -= here;
        if here > 0 {
            first.push(batch.slice(0, here));
        }
        if here < batch.num_rows() {
            second.push(batch.slice(here, batch.num_rows() - here));
        }
    }
    vec![first, second]
}
