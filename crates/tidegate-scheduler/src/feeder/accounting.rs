//! A feeder's accounting: folds that ended, what they taught the rates, and morsels that are
//! returned.

use std::time::Duration;

use tidegate_device::DeviceError;
use tidegate_kernels::{FoldReport, RunError};

use super::open_run::{OpenRun, loaded};
use super::{Choice, Feeder, Progress, RunEnd, Setback, fault};
use crate::counters::{Decided, Setbacks};
use crate::place::{Estimate, Place, Reason};
use crate::queue::{Morsel, MorselId};
use crate::residency::Origin;
use crate::run::RunFailure;

impl Feeder {
    /// Waits for the oldest fold and accounts for it.
    pub(super) async fn settle(&self, open: &mut OpenRun) -> Result<Option<Setback>, RunFailure> {
        let Some(settled) = open.next_settled().await else {
            return Ok(None);
        };
        let error = match settled.folded {
            Ok(report) => {
                let claimed = settled.morsels.iter().map(|morsel| morsel.size.num_bytes);
                let claimed = claimed.sum();
                if let Some(Origin::Pinned(_)) = settled.origin {
                    let rates = self.dispatch.rates();
                    rates.learn_pinned(self.device.info(), claimed, report.phases.upload);
                }
                // What came from somewhere was there when the fold began, whether or not it was moved
                // before.
                self.learn(&report, if settled.origin.is_some() { 0 } else { claimed });
                open.compile_seconds += report.phases.compile;
                let folded = match settled.origin {
                    Some(_) => settled.morsels,
                    None => loaded(&settled.morsels, &report),
                };
                let seconds = open.book_until(settled.ended, settled.promise);
                self.book(&folded, &report, settled.promise.estimate, seconds);
                open.folded.extend(folded);
                return Ok((!report.state_fits).then_some(Setback::StateTooLarge));
            }
            Err(RunError::Eval(error)) if !self.leaves_raising(&error) => {
                return Err(RunFailure::Eval(error));
            }
            Err(error) => error,
        };
        let mut lost = settled.morsels;
        while let Some(other) = open.next_settled().await {
            lost.extend(other.morsels);
        }
        let refused = matches!(error, RunError::Device(DeviceError::Refused { .. }));
        if refused && settled.origin.is_some() {
            self.uncount(&open.folded);
            lost.append(&mut open.folded);
            self.setback(Setbacks {
                retries: lost.len() as u64,
                ..Setbacks::default()
            });
            return Ok(Some(Setback::NotAsStored(lost)));
        }
        let reason = fault(&error);
        self.give_back(&lost, reason.clone())?;
        self.abandon(&open.folded, reason.clone())?;
        open.folded.clear();
        Ok(Some(Setback::Fault(reason)))
    }

    /// Learns from a fold of rows that were claimed as so many bytes.
    pub(super) fn learn(&self, report: &FoldReport, claimed_bytes: u64) {
        let (info, shape) = (self.device.info(), self.workers.shape());
        let rates = self.dispatch.rates();
        let busy = report.device_seconds;
        let upload = report.phases.upload;
        if report.bytes == 0 && claimed_bytes == 0 {
            rates.learn_fold(shape, info, report.rows, 0, busy);
        } else if upload > 0.0 {
            rates.learn_transfer(shape, info, claimed_bytes, upload);
            rates.learn_fold(shape, info, report.rows, 0, busy - upload);
        } else {
            rates.learn_fold(shape, info, report.rows, claimed_bytes, busy);
        }
        self.workers.state_is(info.id, report.state_bytes);
    }

    /// Books a claim that was folded, of which this was expected and which took so many seconds.
    pub(super) fn book(
        &self,
        folded: &[Morsel],
        report: &FoldReport,
        estimate: Estimate,
        seconds: f64,
    ) {
        let reason = self.reason();
        self.counters.morsels(self.place(), folded, reason.clone());
        let busy = Duration::from_secs_f64(report.device_seconds.max(0.0));
        self.counters.time(self.place(), busy);
        self.counters.phases(self.place(), report.phases);
        self.counters.decided(
            self.place(),
            Decided {
                reason,
                morsels: folded.len() as u64,
                rows: folded.iter().map(|morsel| morsel.size.num_rows).sum(),
                bytes: folded.iter().map(|morsel| morsel.size.num_bytes).sum(),
                estimate,
                seconds,
            },
        );
    }

    /// Says why the device takes what it takes.
    fn reason(&self) -> Reason {
        match &self.choice {
            Choice::Always(reason) => reason.clone(),
            Choice::EarliestFinish { .. } => Reason::EarliestFinish,
        }
    }

    /// Counts what went otherwise than planned on the device.
    pub(super) fn setback(&self, setbacks: Setbacks) {
        self.counters.setback(self.place(), setbacks);
    }

    /// Gives everything back that waits to be folded.
    pub(super) fn give_up(
        &self,
        progress: &mut Progress,
        reason: Reason,
    ) -> Result<RunEnd, RunFailure> {
        let mut waiting: Vec<Morsel> = Vec::new();
        for work in progress.pending.drain(..) {
            self.workers.cancel(self.device.info().id);
            waiting.extend(work.into_morsels());
        }
        self.give_back(&waiting, reason)?;
        Ok(RunEnd::Faulted)
    }

    /// Gives folded but uncommitted morsels back and takes them out of the device's counters.
    pub(super) fn abandon(&self, folded: &[Morsel], reason: Reason) -> Result<(), RunFailure> {
        self.uncount(folded);
        self.give_back(folded, reason)
    }

    fn uncount(&self, folded: &[Morsel]) {
        let rows = folded.iter().map(|morsel| morsel.size.num_rows).sum();
        let bytes = folded.iter().map(|morsel| morsel.size.num_bytes).sum();
        self.counters
            .undo(self.place(), folded.len() as u64, rows, bytes);
    }

    pub(super) fn give_back(&self, morsels: &[Morsel], reason: Reason) -> Result<(), RunFailure> {
        if morsels.is_empty() {
            return Ok(());
        }
        self.setback(Setbacks {
            retries: morsels.len() as u64,
            ..Setbacks::default()
        });
        if self.atomic || self.strict {
            return Err(RunFailure::Fallback(reason));
        }
        for _ in morsels {
            self.counters.reason(Place::Host, reason.clone());
        }
        let ids: Vec<MorselId> = morsels.iter().map(|morsel| morsel.id).collect();
        self.queue.give_back(&ids);
        Ok(())
    }
}
