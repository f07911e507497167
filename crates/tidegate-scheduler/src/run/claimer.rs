//! What a host partition claims of a shared region, and how long that took.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::MixedRun;
use crate::counters::Decided;
use crate::feeder::Choice;
use crate::place::{Estimate, HostClaim, HostStream, Place, Rest};
use crate::queue::Morsel;

/// A host partition that claims morsels of a [`MixedRun`]. That it claims again tells that it is done
/// with what it claimed before, and dropping it that it is done with everything.
#[derive(Debug)]
pub struct HostClaimer {
    pub(super) run: Arc<MixedRun>,
    pub(super) stream: HostStream,
    /// What it claimed last.
    pub(super) has: Mutex<Option<Has>>,
}

/// A guided run that a host partition works on.
#[derive(Debug)]
pub(super) struct Has {
    size: Rest,
    expected_seconds: f64,
    since: f64,
}

impl Drop for HostClaimer {
    fn drop(&mut self) {
        self.is_done(self.run.workers.now());
    }
}

impl HostClaimer {
    /// Returns the run that it claims from.
    pub fn run(&self) -> &Arc<MixedRun> {
        &self.run
    }

    /// Claims a guided run of a listed piece, of at most `limit` morsels, in order.
    pub fn claim(&self, piece: usize, limit: usize) -> HostClaim {
        let MixedRun { spec, workers, .. } = self.run.as_ref();
        let free = matches!(spec.choice, Choice::EarliestFinish { .. });
        let now = workers.now();
        self.is_done(now);
        let claim =
            workers
                .states
                .claim_for_host(&self.stream, &spec.queue, piece, limit, free, now);
        if let HostClaim::Run(run) = &claim {
            let mut size = Rest::default();
            run.iter().for_each(|morsel| size.add(morsel.size));
            let per_row = workers.states.rates().host(workers.states.shape());
            *self.has.lock() = Some(Has {
                size,
                expected_seconds: size.num_rows as f64 * per_row,
                since: now,
            });
        }
        claim
    }

    /// Writes down how the last claim went.
    fn is_done(&self, now: f64) {
        let Some(has) = self.has.lock().take() else {
            return;
        };
        let MixedRun { spec, .. } = self.run.as_ref();
        let decided = Decided {
            reason: self.run.host_reason(),
            morsels: has.size.num_morsels,
            rows: has.size.num_rows,
            bytes: has.size.num_bytes,
            estimate: Estimate {
                seconds: has.expected_seconds,
                bytes: 0,
            },
            seconds: (now - has.since).max(0.0),
        };
        spec.counters.decided(Place::Host, decided);
    }

    /// As [`HostClaimer::claim`], waiting as long as that asks for; empty if nothing is left.
    pub async fn claim_in_time(&self, piece: usize, limit: usize) -> Vec<Morsel> {
        loop {
            match self.claim(piece, limit) {
                HostClaim::Run(run) => return run,
                HostClaim::Empty => return Vec::new(),
                HostClaim::Later(time) => self.later(time).await,
            }
        }
    }

    /// Waits so long, or until the queue changes.
    pub async fn later(&self, time: Duration) {
        let changed = self.run.spec.queue.changed();
        // Whichever comes first; there is nothing to tell them apart for.
        let _ = tokio::time::timeout(time, changed).await;
    }
}
