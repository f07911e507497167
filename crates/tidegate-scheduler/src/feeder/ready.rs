//! What a device does before it takes part in work of a shape for the first time: its kernels are
//! compiled, which takes longer than a short query, while the host works.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use tidegate_kernels::refuse_chunk;

use super::{Choice, Feeder};
use crate::queue::{DeviceClaim, Morsel};
use crate::residency::Residency;
use crate::run::RunFailure;

impl Feeder {
    /// Has the kernels compiled for rows like those of a waiting morsel, which is left to whoever
    /// claims it. Ends when that is done, or nothing is left to do; the device then compiles on, for
    /// the next query of this shape.
    pub(super) async fn get_ready(&self, residency: &Residency) -> Result<(), RunFailure> {
        let may_decline = matches!(self.choice, Choice::EarliestFinish { .. }) && !self.atomic;
        let (id, shape) = (self.device.info().id, self.roster.shape());
        if !may_decline || !self.device.compiles() || !residency.is_empty() {
            return Ok(());
        }
        if self.dispatch.is_ready(id, shape) {
            return Ok(());
        }
        let Some(morsel) = self.worth_taking().await? else {
            return Ok(());
        };
        let mut compiled = pin!(self.compile_for(morsel));
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
    async fn worth_taking(&self) -> Result<Option<Morsel>, RunFailure> {
        let id = self.device.info().id;
        loop {
            let mut changed = pin!(self.queue.changed());
            changed.as_mut().enable();
            let mut found = None;
            let looks = |morsel: &Morsel, rest| {
                if self.accepts(morsel.size, rest, false) {
                    // It was only asked.
                    self.roster.cancel(id);
                    found = Some(*morsel);
                }
                false
            };
            match self.queue.claim_for_device(id, looks) {
                DeviceClaim::Unlisted(piece) => {
                    let sizes = self.loader.list(piece).await.map_err(RunFailure::Load)?;
                    self.queue.list(piece, sizes);
                }
                _ if self.ending.load(Ordering::Acquire) => return Ok(found),
                DeviceClaim::Later => changed.await,
                DeviceClaim::Declined if found.is_none() => {
                    // The host may turn out to be slower than it is taken to be.
                    let ask_again = self.roster.ask_again(self.queue.rest(), self.now());
                    let ask_again = Duration::from_secs_f64(ask_again);
                    // Whichever comes first; there is nothing to tell them apart for.
                    let _ = tokio::time::timeout(ask_again, changed).await;
                }
                _ => return Ok(found),
            }
        }
    }

    async fn compile_for(&self, morsel: Morsel) -> Result<(), RunFailure> {
        let began = Instant::now();
        let Ok(rows) = self.loader.load(morsel.id).await else {
            // Whoever claims it will say why.
            return Ok(());
        };
        let num_rows = rows.iter().map(|batch| batch.num_rows() as u64).sum();
        let (rates, seconds) = (self.dispatch.rates(), began.elapsed().as_secs_f64());
        rates.learn_load(self.roster.shape(), num_rows, seconds);
        let refused = rows
            .iter()
            .any(|batch| refuse_chunk(&self.pipeline, batch).is_some());
        if refused {
            return Ok(());
        }
        let (id, shape) = (self.device.info().id, self.roster.shape());
        let (pipeline, dispatch) = (Arc::clone(&self.pipeline), Arc::clone(&self.dispatch));
        let compiled = self.device.compile(pipeline, rows);
        let compiled = tokio::spawn(async move {
            if compiled.await.is_ok() {
                dispatch.note_ready(id, shape);
            }
        });
        // Why it does not compile is said by the first fold.
        let _ = compiled.await;
        Ok(())
    }
}
