//! Compiling for a device before it takes part in a shape for the first time, while the host works:
//! it takes longer than a short query.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use tidegate_kernels::Sample;

use super::{Choice, Feeder};
use crate::place::Location;
use crate::queue::{DeviceClaim, Morsel};
use crate::residency::{Residency, ResidentMorsel, identify};
use crate::run::RunFailure;

/// A morsel that waits, and where the device has it already.
type Candidate = (Morsel, Option<ResidentMorsel>);

impl Feeder {
    /// Has the kernels compiled for rows like those of a waiting morsel, which is left to whoever
    /// claims it. Ends when that is done, or nothing is left to do; the device then compiles on, for
    /// the next query of this shape.
    pub(super) async fn get_ready(&self, residency: &Residency) -> Result<(), RunFailure> {
        let may_decline = matches!(self.choice, Choice::EarliestFinish { .. }) && !self.atomic;
        let seconds = self
            .dispatch
            .seconds_to_ready(&self.device, self.workers.shape());
        if !may_decline || seconds <= 0.0 {
            return Ok(());
        }
        let Some(candidate) = self.worth_taking(residency).await? else {
            return Ok(());
        };
        // Until then nobody leaves anything to it.
        let id = self.device.info().id;
        self.workers.begin(id, seconds, self.now());
        let compiled = self.compile_while_others_work(candidate, residency).await;
        self.workers.end(id, self.now());
        compiled
    }

    async fn compile_while_others_work(
        &self,
        candidate: Candidate,
        residency: &Residency,
    ) -> Result<(), RunFailure> {
        let mut compiled = pin!(self.compile_for(candidate, residency));
        loop {
            let mut changed = pin!(self.queue.changed());
            changed.as_mut().enable();
            let none_waits = self.queue.rest().num_morsels == 0;
            if none_waits || self.ending.load(Ordering::Acquire) {
                return Ok(());
            }
            match select(compiled.as_mut(), changed).await {
                Either::Left((compiled, _)) => return compiled,
                Either::Right(_) => {}
            }
        }
    }

    /// Waits for a morsel that the device would take if its kernels were compiled; `None` if there is
    /// none.
    async fn worth_taking(&self, residency: &Residency) -> Result<Option<Candidate>, RunFailure> {
        let id = self.device.info().id;
        loop {
            let mut changed = pin!(self.queue.changed());
            changed.as_mut().enable();
            let mut found = None;
            let looks = |morsel: &Morsel, rest| {
                let resident = residency.find(morsel.id);
                let location = match resident {
                    Some(_) => Location::Device,
                    None => Location::Host,
                };
                if self.accepts(morsel.size, rest, location) {
                    // It was only asked.
                    self.workers.cancel(id);
                    found = Some((*morsel, resident));
                }
                false
            };
            match self.queue.claim_for_device(id, looks) {
                DeviceClaim::Unlisted(piece) if residency.is_empty() => {
                    let sizes = self.loader.list(piece).await.map_err(RunFailure::Load)?;
                    self.queue.list(piece, sizes);
                }
                DeviceClaim::Unlisted(_) => {
                    identify(&self.loader, &self.queue, self.queue.unlisted()).await?;
                }
                _ if self.ending.load(Ordering::Acquire) => return Ok(found),
                DeviceClaim::Later => changed.await,
                DeviceClaim::Declined if found.is_none() => {
                    // The host may turn out to be slower than it is taken to be.
                    let ask_again = self.workers.ask_again(self.queue.rest(), self.now());
                    let ask_again = Duration::from_secs_f64(ask_again);
                    // Whichever comes first; there is nothing to tell them apart for.
                    let _ = tokio::time::timeout(ask_again, changed).await;
                }
                _ => return Ok(found),
            }
        }
    }

    async fn compile_for(
        &self,
        (morsel, resident): Candidate,
        residency: &Residency,
    ) -> Result<(), RunFailure> {
        let stored = resident.and_then(|resident| residency.sample(resident, &self.queue));
        let sample = match stored {
            Some(stored) => stored,
            None => match self.load_sample(morsel).await {
                Some(loaded) => loaded,
                None => return Ok(()),
            },
        };
        let (pipeline, shape) = (Arc::clone(&self.pipeline), self.workers.shape());
        self.dispatch
            .compile_beside(&self.device, pipeline, shape, sample)
            .await;
        Ok(())
    }

    /// Reads a morsel to see what its values are like; `None` if it cannot be read.
    async fn load_sample(&self, morsel: Morsel) -> Option<Sample> {
        let began = Instant::now();
        // Whoever claims it will say why it cannot be read.
        let rows = self.loader.load(morsel.id).await.ok()?;
        let num_rows = rows.iter().map(|batch| batch.num_rows() as u64).sum();
        let (rates, seconds) = (self.dispatch.rates(), began.elapsed().as_secs_f64());
        rates.learn_load(self.workers.shape(), num_rows, seconds);
        Some(Sample::Loaded(rows))
    }
}
