//! Which devices have what of a scan before it begins. Each device is left what it holds; devices
//! that together have all of it, on them or in pinned memory, get the whole scan if they finish
//! first. Where some hold all of it, devices that must move some of it take only what they finish
//! before them.

use std::sync::Arc;

use tidegate_kernels::PipelineDevice;

use super::{MixedRun, RunFailure, RunSpec};
use crate::feeder::Choice;
use crate::place::{Reason, Rest};
use crate::queue::{ClaimPolicy, Held};
use crate::residency::{AtHand, Residency, identify};
use crate::resident::{PATIENCE, faster_with_all, faster_with_share};

/// What a device holds of a scan.
#[derive(Debug)]
struct Share {
    device: Arc<dyn PipelineDevice>,
    num_rows: u64,
}

/// Devices that have all of a scan without being given it, each or together.
#[derive(Debug)]
pub(super) struct Holders {
    pub(super) devices: Vec<Arc<dyn PipelineDevice>>,
    /// Those that would have to move what the devices hold, and take a morsel only if they are done with
    /// it before the devices are with all that waits.
    pub(super) helpers: Vec<Arc<dyn PipelineDevice>>,
    /// Why they get it.
    pub(super) reason: Reason,
}

/// Devices that each have all of a scan, and why they get it if one of them would be done before the
/// host.
#[derive(Debug, Default)]
struct Candidates {
    devices: Vec<Arc<dyn PipelineDevice>>,
    reason: Option<Reason>,
}

impl Candidates {
    /// Gives them the scan, if one of them would be done before the host.
    fn alone(self) -> Option<Holders> {
        Some(Holders {
            reason: self.reason?,
            devices: self.devices,
            helpers: Vec::new(),
        })
    }
}

impl MixedRun {
    /// Leaves to each of several devices what it holds; and the whole scan to the devices that hold or
    /// make all of it, each or together, if the placement is free and they would be done before the
    /// host. To be called before [`MixedRun::enter`].
    pub async fn weigh_residency(&self) -> Result<(), RunFailure> {
        let weighed = self.holders.get_or_try_init(|| async {
            let shares = if self.spec.devices.len() > 1 {
                self.share_out().await?
            } else {
                None
            };
            let Choice::EarliestFinish { host_partitions } = self.spec.choice else {
                return Ok(None);
            };
            let (whole, at_hand) = self.each_with_all(host_partitions).await?;
            // Where nothing must move, nobody moves anything: neither beside one that holds all, nor what
            // the others hold of it.
            let holders = match whole.reason {
                Some(reason) => Some(self.helped(whole.devices, reason, at_hand.devices)),
                None => shares
                    .and_then(|shares| self.all_with_shares(shares, host_partitions))
                    .or_else(|| at_hand.alone()),
            };
            if holders.is_some() {
                self.spec.queue.keep_from_host();
                self.workers.states.keep_from_host();
            }
            Ok(holders)
        });
        weighed.await.map(|_| ())
    }

    pub(super) fn residency_on(&self, device: &Arc<dyn PipelineDevice>) -> Residency {
        let RunSpec {
            cache,
            loader,
            pipeline,
            ..
        } = &self.spec;
        Residency::new(cache, device, loader, pipeline)
    }

    /// Leaves to each device the morsels that it holds. Returns how many rows that are for each
    /// device that has some, if together they hold all.
    async fn share_out(&self) -> Result<Option<Vec<Share>>, RunFailure> {
        let RunSpec {
            devices,
            loader,
            queue,
            ..
        } = &self.spec;
        if matches!(queue.policy(), ClaimPolicy::Replay(_)) {
            // Who takes what was decided before, whoever holds it now.
            return Ok(None);
        }
        let live = devices.iter().filter(|device| !device.is_lost());
        let with_residency = live.map(|device| (device, self.residency_on(device)));
        let holding = with_residency.filter(|(_, residency)| residency.has_tables());
        let mut holding: Vec<(Share, Residency)> = holding
            .map(|(device, residency)| {
                let device = Arc::clone(device);
                let num_rows = 0;
                (Share { device, num_rows }, residency)
            })
            .collect();
        if holding.is_empty() {
            return Ok(None);
        }
        identify(loader, queue, (0..queue.num_pieces()).collect()).await?;
        let (mut held, mut holds_all) = (Held::default(), true);
        for morsel in queue.morsels() {
            let mut is_held = false;
            for (share, residency) in &mut holding {
                if let Some(num_rows) = residency.rows_held(morsel.id) {
                    held.note(morsel.id, share.device.info().id);
                    share.num_rows += num_rows;
                    is_held = true;
                }
            }
            holds_all &= is_held;
        }
        let shares = holding.into_iter().map(|(share, _)| share);
        let shares: Vec<Share> = shares.filter(|share| share.num_rows > 0).collect();
        if !shares.is_empty() {
            queue.share_out(held);
        }
        Ok((holds_all && !shares.is_empty()).then_some(shares))
    }

    /// Returns the devices that each hold or make all of the scan, and those that have what they lack of
    /// it right below them.
    async fn each_with_all(
        &self,
        host_partitions: usize,
    ) -> Result<(Candidates, Candidates), RunFailure> {
        let (mut whole, mut at_hand) = (Candidates::default(), Candidates::default());
        let live = self.spec.devices.iter().filter(|device| !device.is_lost());
        for device in live {
            let residency = self.residency_on(device);
            let states = &self.workers.states;
            let (num_rows, moving, why) = match residency.whole_scan(&self.spec.queue).await? {
                Some(scan) => {
                    states.holds_all(device.info().id);
                    (scan.num_rows, None, scan.origin.reason())
                }
                None => match self.all_at_hand(&residency).await? {
                    Some(all) if self.has_room_for(device, all.below) => {
                        let moving = self.seconds_to_move(device, all.below);
                        (all.num_rows, Some(moving), Reason::EarliestFinish)
                    }
                    _ => continue,
                },
            };
            let waits = self.waits_for(device) + moving.unwrap_or(0.0);
            let (rates, shape) = (states.rates(), states.shape());
            let is_faster = faster_with_all(rates, shape, device, waits, num_rows, host_partitions);
            let candidates = match moving {
                None => &mut whole,
                Some(_) => &mut at_hand,
            };
            candidates.devices.push(Arc::clone(device));
            let reason = candidates.reason.take();
            candidates.reason = reason.or(is_faster.then_some(why));
        }
        Ok((whole, at_hand))
    }

    /// Gives the scan to devices that each hold all of it, with those as helpers that would move some of it
    /// and have their kernels: nobody who need not waits for kernels.
    fn helped(
        &self,
        devices: Vec<Arc<dyn PipelineDevice>>,
        reason: Reason,
        mut helpers: Vec<Arc<dyn PipelineDevice>>,
    ) -> Holders {
        let (dispatch, shape) = (&self.spec.dispatch, self.workers.states.shape());
        helpers.retain(|device| dispatch.seconds_to_ready(device, shape) <= 0.0);
        Holders {
            devices,
            helpers,
            reason,
        }
    }

    /// Returns what the scan is, if each of its morsels is on a device or below it.
    async fn all_at_hand(&self, residency: &Residency) -> Result<Option<AtHand>, RunFailure> {
        let RunSpec { loader, queue, .. } = &self.spec;
        if !residency.looks_below() {
            return Ok(None);
        }
        identify(loader, queue, (0..queue.num_pieces()).collect()).await?;
        Ok(residency.all_at_hand(queue))
    }

    /// Returns whether a device has room for the morsels that come up to it at a time, beside a state as
    /// large as those of this shape have been, which takes twice as much while it grows.
    fn has_room_for(&self, device: &Arc<dyn PipelineDevice>, below: Rest) -> bool {
        let states = &self.workers.states;
        let state = 2.0 * states.rates().state_bytes(states.shape());
        let slots = self.spec.device_slots.max(1) as u64;
        let moving = below.mean().num_bytes.saturating_mul(slots);
        state + moving as f64 <= device.budget().free() as f64
    }

    /// Returns the seconds that morsels need to come up to a device, each with a launch of its own.
    fn seconds_to_move(&self, device: &Arc<dyn PipelineDevice>, below: Rest) -> f64 {
        let states = &self.workers.states;
        let rate = states.rates().device(states.shape(), device.info());
        below.num_bytes as f64 * rate.pinned_seconds_per_byte
            + below.num_morsels as f64 * rate.launch_seconds
    }

    /// Returns the devices that together hold all of the scan, if all of them would be done before the
    /// host.
    fn all_with_shares(&self, shares: Vec<Share>, host_partitions: usize) -> Option<Holders> {
        let (rates, shape) = (self.spec.dispatch.rates(), self.workers.states.shape());
        // What two of them hold counts twice, which only makes the host seem slower.
        let of_rows = shares.iter().map(|share| share.num_rows).sum();
        let is_faster = |Share { device, num_rows }: &Share| {
            let (waits, rows) = (self.waits_for(device), (*num_rows, of_rows));
            faster_with_share(rates, shape, device, waits, rows, host_partitions)
        };
        if !shares.iter().all(is_faster) {
            return None;
        }
        for Share { device, .. } in &shares {
            self.workers.states.holds_all(device.info().id);
        }
        Some(Holders {
            devices: shares.into_iter().map(|share| share.device).collect(),
            helpers: Vec::new(),
            reason: Reason::Resident,
        })
    }

    /// Returns the seconds until other queries leave a device free and it has its kernels, as far as these
    /// are not worth waiting for.
    fn waits_for(&self, device: &Arc<dyn PipelineDevice>) -> f64 {
        let dispatch = &self.spec.dispatch;
        let turns = dispatch.turns(device.info().id);
        let others = turns.seconds_of_others(self.workers.query);
        let compiling = dispatch.seconds_to_ready(device, self.workers.states.shape());
        others.max(compiling / PATIENCE)
    }
}
