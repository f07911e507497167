//! Earliest finish over one shared queue, as a pure function.
//!
//! Every worker, a host partition or a device, asks when it is idle. It takes the next morsel
//! exactly if, by the time it would be done, the others could not have finished everything that is
//! left. This is list scheduling by earliest finish: whoever would finish first always takes, so
//! work never stops; a slow worker stops in time for nobody to wait for its last morsel; and what a
//! worker takes never ends later than the others alone would have ended.
//!
//! A worker whose speed was never measured counts as slower than declared, by its *doubt*, until
//! its first morsel is done. All times are seconds from now.

use std::ops::AddAssign;

use tidegate_device::DeviceId;

use super::{Place, Reason};
use crate::queue::MorselSize;
use crate::rates::DeviceRate;

/// A part of what remains that counts as nothing, so that rounding does not break ties.
const TIE: f64 = 1e-9;

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Morsels.
    pub num_morsels: u64,
    /// Their rows.
    pub num_rows: u64,
    /// Their bytes.
    pub num_bytes: u64,
}

impl Rest {
    pub(crate) fn add(&mut self, size: MorselSize) {
        self.num_morsels += 1;
        self.num_rows = self.num_rows.saturating_add(size.num_rows);
        self.num_bytes = self.num_bytes.saturating_add(size.num_bytes);
    }

    pub(crate) fn subtract(&mut self, size: MorselSize) {
        self.num_morsels = self.num_morsels.saturating_sub(1);
        self.num_rows = self.num_rows.saturating_sub(size.num_rows);
        self.num_bytes = self.num_bytes.saturating_sub(size.num_bytes);
    }

    /// Returns so many times as much.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        let scale = |amount: u64| (amount as f64 * factor) as u64;
        Self {
            num_morsels: scale(self.num_morsels),
            num_rows: scale(self.num_rows),
            num_bytes: scale(self.num_bytes),
        }
    }

    /// Returns the size of a morsel if all of them were of one size.
    pub fn mean(self) -> MorselSize {
        let morsels = self.num_morsels.max(1);
        MorselSize {
            num_rows: self.num_rows.div_ceil(morsels),
            num_bytes: self.num_bytes.div_ceil(morsels),
        }
    }
}

impl AddAssign for Rest {
    fn add_assign(&mut self, other: Self) {
        self.num_morsels = self.num_morsels.saturating_add(other.num_morsels);
        self.num_rows = self.num_rows.saturating_add(other.num_rows);
        self.num_bytes = self.num_bytes.saturating_add(other.num_bytes);
    }
}

/// One of those that drain a queue: a host partition, or a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// Until it is done with what it has.
    pub free_in: f64,
    /// What each further morsel of mean size takes it.
    pub per_morsel: f64,
}

impl Worker {
    /// Returns how many further morsels it is done with before `time`, strictly.
    fn done_before(&self, time: f64) -> f64 {
        let left = time - self.free_in;
        if left <= 0.0 {
            return 0.0;
        }
        let morsels = left / self.per_morsel.max(f64::MIN_POSITIVE);
        ((morsels * (1.0 - TIE)).ceil() - 1.0).max(0.0)
    }
}

/// One device, as a placement sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceState {
    /// Which.
    pub id: DeviceId,
    /// Until it is done with what it has, other queries' turns included.
    pub free_in: f64,
    /// How fast it is taken to be.
    pub rate: DeviceRate,
    /// If it is late with its oldest claim: how fast it was taken to be for that.
    pub late: Option<Late>,
    /// It holds the morsels that it would take.
    pub resident: bool,
    /// What bringing its rows back will take after its last morsel.
    pub returns: f64,
    /// The most bytes that it may ever promise.
    pub limit_bytes: u64,
}

/// What a claim shows that takes longer than it was expected to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// How fast the device was taken to be when it was claimed.
    pub rate: DeviceRate,
    /// How many times as long as expected it takes by now; more than 1.
    pub times: f64,
}

impl DeviceState {
    /// Tells what a morsel takes: until it is done if the device is free, and how much later the
    /// next one would be done. Loading overlaps with the device's work.
    ///
    /// A device that is late is as slow as that shows, or as what was learned since: one is not
    /// counted on top of the other, for both are seen of the same claim.
    fn cost(&self, size: MorselSize) -> (f64, f64) {
        let (first, next) = self.cost_by(&self.rate, size);
        let Some(Late { rate, times }) = self.late else {
            return (first, next);
        };
        let (late_first, late_next) = self.cost_by(&rate, size);
        (first.max(late_first * times), next.max(late_next * times))
    }

    fn cost_by(&self, rate: &DeviceRate, size: MorselSize) -> (f64, f64) {
        let rows = size.num_rows as f64;
        let (load, transfer) = if self.resident {
            (0.0, 0.0)
        } else {
            let transfer = size.num_bytes as f64 * rate.transfer_seconds_per_byte;
            (rows * rate.load_seconds_per_row, transfer)
        };
        let device = transfer + rate.launch_seconds + rows * rate.kernel_seconds_per_row;
        // What reading takes is not the device's to say.
        let device = device * rate.doubt;
        (load + device, load.max(device))
    }

    pub(super) fn worker(&self, mean: MorselSize) -> Worker {
        let (_, per_morsel) = self.cost(mean);
        Worker {
            free_in: self.estimate(mean).seconds - per_morsel,
            per_morsel,
        }
    }

    fn can_ever_take(&self, size: MorselSize) -> bool {
        self.resident || size.num_bytes <= self.limit_bytes
    }

    /// Tells when the device would be done with a morsel, and how many bytes move for it.
    pub fn estimate(&self, size: MorselSize) -> Estimate {
        let (first, next) = self.cost(size);
        // While it is busy the load costs nothing extra.
        let overlap = self.free_in.min(first - next);
        Estimate {
            seconds: self.free_in - overlap + first + self.returns,
            bytes: if self.resident { 0 } else { size.num_bytes },
        }
    }
}

/// What one placement is expected to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Until it is done, waiting included; of a claim that is recorded, how much later the place is done
    /// for it.
    pub seconds: f64,
    /// Moved to a device for it.
    pub bytes: u64,
}

/// What was decided on one morsel.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Who asked may take it.
    pub takes: bool,
    /// Where it is done first.
    pub place: Place,
    /// Why.
    pub reason: Reason,
    /// What that costs.
    pub estimate: Estimate,
}

/// All that a decision depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// What waits.
    pub rest: Rest,
    /// When each host partition is free.
    pub host_free_in: Vec<f64>,
    /// What a row takes one host partition.
    pub host_seconds_per_row: f64,
    /// Every device that takes part.
    pub devices: Vec<DeviceState>,
}

impl Outlook {
    /// Decides whether a device takes the next morsel, which counts in [`Outlook::rest`].
    ///
    /// A device that is not part of the outlook takes nothing.
    pub fn decide(&self, asker: DeviceId, morsel: MorselSize) -> Decision {
        let Some(device) = self.devices.iter().find(|device| device.id == asker) else {
            return self.on_host(morsel, Reason::EarliestFinish);
        };
        let estimate = device.estimate(morsel);
        if !device.can_ever_take(morsel) {
            return self.on_host(morsel, Reason::DeviceMemory);
        }
        if !device.resident && device.rate.load_seconds_per_row > self.host_seconds_per_row {
            // The core that reads it for the device would have been done with it before.
            return self.on_host(morsel, Reason::EarliestFinish);
        }
        let others = self.host().chain(self.devices_but(Some(asker)));
        // The others are weighed by the mean morsel. If each of them thought its own larger, all
        // could leave it to each other.
        let evenly = device.estimate(self.rest.mean()).seconds;
        let finish = estimate.seconds.min(evenly);
        if takes(finish, self.rest.num_morsels, others) {
            let reason = if device.resident {
                Reason::Resident
            } else {
                Reason::EarliestFinish
            };
            return Decision {
                takes: true,
                place: Place::Device(asker),
                reason,
                estimate,
            };
        }
        let elsewhere = self.on_host(morsel, Reason::EarliestFinish);
        self.devices
            .iter()
            .filter(|device| device.id != asker)
            .map(|device| (device.id, device.estimate(morsel)))
            .fold(elsewhere, |best, (id, estimate)| {
                if estimate.seconds >= best.estimate.seconds {
                    return best;
                }
                let place = Place::Device(id);
                Decision {
                    place,
                    estimate,
                    ..best
                }
            })
    }

    /// Returns how many morsels of mean size an idle host partition should claim at once, at most
    /// `limit`: half of its share of what waits, if all are to be done at the same time; none if the
    /// devices would be done with everything before it is done with one.
    pub fn host_run(&self, partition: usize, limit: u64) -> u64 {
        let own = self.rest.mean().num_rows as f64 * self.host_seconds_per_row;
        let host = self.host().enumerate();
        let others: Vec<Worker> = host
            .filter(|(number, _)| *number != partition)
            .map(|(_, worker)| worker)
            .chain(self.devices_but(None))
            .collect();
        let all = self.rest.num_morsels;
        if !takes(own, all, others.iter().copied()) {
            return 0;
        }
        // The largest run at whose end the others could just have done what is not of it.
        let (mut least, mut most) = (1, all.min(limit.saturating_mul(2)).max(1));
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            let end = own * middle as f64;
            if takes(end, all + 1 - middle, others.iter().copied()) {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        least.div_ceil(2)
    }

    /// Returns what the fastest worker takes for a morsel of mean size.
    pub(super) fn fastest_morsel(&self) -> f64 {
        let workers = self.host().chain(self.devices_but(None));
        workers
            .map(|worker| worker.per_morsel)
            .fold(f64::MAX, f64::min)
    }

    fn on_host(&self, morsel: MorselSize, reason: Reason) -> Decision {
        let first_free = self.host_free_in.iter().copied().fold(f64::MAX, f64::min);
        let rows = morsel.num_rows as f64;
        Decision {
            takes: false,
            place: Place::Host,
            reason,
            estimate: Estimate {
                seconds: first_free + rows * self.host_seconds_per_row,
                bytes: 0,
            },
        }
    }

    fn host(&self) -> impl Iterator<Item = Worker> {
        let per_morsel = self.rest.mean().num_rows as f64 * self.host_seconds_per_row;
        self.host_free_in.iter().map(move |&free_in| Worker {
            free_in,
            per_morsel,
        })
    }

    fn devices_but(&self, asker: Option<DeviceId>) -> impl Iterator<Item = Worker> {
        let mean = self.rest.mean();
        let others = self.devices.iter().filter(move |state| {
            let other = asker.is_none_or(|asker| state.id != asker);
            other && state.can_ever_take(mean)
        });
        others.map(move |state| state.worker(mean))
    }
}

/// Returns whether a worker that would be done at `finish` takes the next morsel of so many: whether
/// the others cannot have done all of them before.
pub fn takes(finish: f64, num_waiting: u64, others: impl IntoIterator<Item = Worker>) -> bool {
    let mut done = 0.0;
    for other in others {
        done += other.done_before(finish);
        if done >= num_waiting as f64 {
            return false;
        }
    }
    true
}
