//! What a feeder claims next: one morsel, or a run of morsels that its device already has.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::open_run::{PinnedWork, Promise, ResidentRun, Work};
use super::{Choice, Feeder, RUN_MORSELS_MAX, RUN_ROWS_MAX};
use crate::admission::turns::TURN_SECONDS_MAX;
use crate::cache::pinned::PinnedMorsel;
use crate::place::{Location, Rest};
use crate::queue::{DeviceClaim, Morsel, MorselSize};
use crate::residency::{Origin, Residency, ResidentRows, identify};
use crate::run::RunFailure;

impl Feeder {
    /// Claims what comes next, listing pieces on the way; waits only with nothing in flight.
    pub(super) async fn claim(
        &self,
        idle: bool,
        residency: &Residency,
    ) -> Result<Option<Work>, RunFailure> {
        loop {
            let changed = self.queue.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if matches!(self.choice, Choice::Always(_))
                && let Some(run) = self.claim_run(residency)
            {
                return Ok(Some(Work::Run(run)));
            }
            let (mut found, mut below) = (None, None);
            let accepts = |morsel: &Morsel, rest| {
                found = residency.find(morsel.id);
                below = match &found {
                    Some(_) => None,
                    None => residency.find_below(morsel.id),
                };
                let moved = below.as_ref().map(PinnedMorsel::size);
                let location = match (&found, &below) {
                    (Some(_), _) => Location::Device,
                    (None, Some(_)) => Location::Pinned,
                    (None, None) => Location::Host,
                };
                self.accepts(moved.unwrap_or(morsel.size), rest, location)
            };
            let (id, helps) = (self.device.info().id, self.helps());
            let claim = match helps {
                true => self.queue.claim_for_helper(id, accepts),
                false => self.queue.claim_for_device(id, accepts),
            };
            match claim {
                DeviceClaim::Unlisted(piece) if residency.is_empty() => {
                    let sizes = self.loader.list(piece).await.map_err(RunFailure::Load)?;
                    self.queue.list(piece, sizes);
                }
                DeviceClaim::Unlisted(_) => {
                    identify(&self.loader, &self.queue, self.queue.unlisted()).await?;
                }
                DeviceClaim::Later | DeviceClaim::Declined if !idle => return Ok(None),
                DeviceClaim::Later | DeviceClaim::Declined
                    if self.ending.load(Ordering::Acquire)
                        && !(claim == DeviceClaim::Declined
                            && helps
                            && self.queue.leaves_to_others(id)) =>
                {
                    return Ok(None);
                }
                DeviceClaim::Later => changed.await,
                DeviceClaim::Declined => {
                    // The host may turn out to be slower than it is taken to be.
                    let ask_again = self.workers.ask_again(self.queue.rest(), self.now());
                    let ask_again = Duration::from_secs_f64(ask_again);
                    // Whichever comes first; there is nothing to tell them apart for.
                    let _ = tokio::time::timeout(ask_again, changed).await;
                }
                DeviceClaim::Empty => return Ok(None),
                DeviceClaim::Morsel(morsel) => {
                    if let Some(rows) = below {
                        let promise = self.promise(rows.size(), Location::Pinned);
                        return Ok(Some(Work::Pinned(PinnedWork {
                            morsel,
                            rows,
                            promise,
                        })));
                    }
                    let Some(resident) = found else {
                        let promise = self.promise(morsel.size, Location::Host);
                        return Ok(Some(Work::Load(morsel, promise)));
                    };
                    let promise = self.promise(morsel.size, Location::Device);
                    resident.hit();
                    return Ok(Some(Work::Run(ResidentRun {
                        origin: resident.origin,
                        morsels: vec![morsel],
                        rows: vec![resident.rows],
                        promise,
                    })));
                }
            }
        }
    }

    /// Claims resident morsels, as many of one origin as there are in a row.
    fn claim_run(&self, residency: &Residency) -> Option<ResidentRun> {
        if residency.is_empty() {
            return None;
        }
        let mut origin: Option<Origin> = None;
        let mut taken: Vec<ResidentRows> = Vec::new();
        let mut num_rows = 0;
        let share = if self.queue.is_shared_out() {
            u64::MAX
        } else {
            self.workers.share_of(self.queue.rest())
        };
        let in_time = self.rate().rows_within(TURN_SECONDS_MAX).min(share);
        let morsels = self
            .queue
            .claim_run_for_device(self.device.info().id, |morsel| {
                let Some(resident) = residency.find(morsel.id) else {
                    return false;
                };
                let of_run = origin.get_or_insert_with(|| resident.origin.clone());
                let rows_max = match of_run {
                    Origin::Table(_) | Origin::Pinned(_) => in_time.min(RUN_ROWS_MAX),
                    // It takes as many launches as it needs.
                    Origin::Array(_) => in_time,
                };
                let rows = num_rows + resident.rows.num_rows();
                let fits = taken.is_empty() || (taken.len() < RUN_MORSELS_MAX && rows <= rows_max);
                if !fits || !of_run.is(&resident.origin) {
                    return false;
                }
                resident.hit();
                num_rows = rows;
                taken.push(resident.rows);
                true
            });
        (!morsels.is_empty()).then_some(())?;
        let size = MorselSize {
            num_rows,
            num_bytes: 0,
        };
        Some(ResidentRun {
            origin: origin?,
            morsels,
            rows: taken,
            promise: self.promise(size, Location::Device),
        })
    }

    /// Returns whether the device takes what others hold if it is done with it before them, and the host has
    /// no part in it. What it declines is theirs; once they have gone, the tail's.
    fn helps(&self) -> bool {
        self.queue.is_for_devices() && matches!(self.choice, Choice::EarliestFinish { .. })
    }

    /// Returns what a claim that was just made is expected to take.
    fn promise(&self, size: MorselSize, location: Location) -> Promise {
        let (id, now) = (self.device.info().id, self.now());
        if matches!(self.choice, Choice::Always(_)) {
            let others = self.turns.seconds_of_others(self.query);
            self.workers.takes(id, size, location, others, now);
        }
        Promise {
            estimate: self.workers.promised(id),
            since: now,
        }
    }

    pub(super) fn accepts(&self, size: MorselSize, rest: Rest, location: Location) -> bool {
        if matches!(self.choice, Choice::Always(_)) {
            return true;
        }
        let others = self.turns.seconds_of_others(self.query);
        let id = self.device.info().id;
        self.workers
            .decide(id, size, location, rest, others, self.now())
            .takes
    }
}
