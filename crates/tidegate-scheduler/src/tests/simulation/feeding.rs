//! A device's feeder in the simulation: claims, loads, finds room and a turn, folds, flushes, as the
//! one in earnest does.

use std::collections::VecDeque;

use tidegate_device::Reservation;

use super::{Event, Sides, World, query_id};
use crate::admission::turns::TURNS_OUT;
use crate::ladder::{Ladder, Rung, Shortage};
use crate::place::Location;
use crate::queue::{DeviceClaim, Morsel, MorselId};

/// Folds kept in flight.
const FOLDS_IN_FLIGHT: usize = 2;

pub(super) struct Feeder {
    in_flight: VecDeque<Fold>,
    /// It was loaded, and waits for room or a turn.
    pending: Option<Pending>,
    loading: Option<Morsel>,
    flushing: bool,
    /// The state must leave before anything else is claimed.
    full: bool,
    pub(super) ended: bool,
    state: Reservation,
    folded: Vec<MorselId>,
}

struct Fold {
    morsel: Morsel,
    bytes: u64,
    input: Reservation,
    turn: u64,
    seconds: f64,
}

struct Pending {
    morsel: Morsel,
    resident: bool,
    /// Bytes that are wanted at once.
    bytes: u64,
    ladder: Ladder,
}

impl Feeder {
    pub(super) fn new(state: Reservation) -> Self {
        Self {
            in_flight: VecDeque::new(),
            pending: None,
            loading: None,
            flushing: false,
            full: false,
            ended: false,
            state,
            folded: Vec::new(),
        }
    }

    pub(super) fn promised(&self) -> u64 {
        let inputs = self.in_flight.iter().map(|fold| fold.input.bytes());
        self.state.bytes() + inputs.sum::<u64>()
    }
}

/// What a pending morsel came to.
enum Room {
    Found(Reservation),
    Later,
    Flush,
    Gone,
}

impl World<'_> {
    pub(super) fn feed(&mut self, number: usize, device: usize) {
        loop {
            let feeder = &mut self.queries[number].feeders[device];
            if feeder.ended || feeder.flushing || feeder.loading.is_some() {
                return;
            }
            if feeder.full {
                if feeder.in_flight.is_empty() {
                    self.flush(number, device);
                }
                return;
            }
            let goes_on = match feeder.pending.take() {
                Some(pending) => self.fold(number, device, pending),
                None if feeder.in_flight.len() < FOLDS_IN_FLIGHT => self.claim(number, device),
                None => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Claims a morsel; returns whether there is more to do now.
    fn claim(&mut self, number: usize, device: usize) -> bool {
        let now = self.now;
        let query = &mut self.queries[number];
        let known = &self.devices[device];
        let others = known.turns.seconds_of_others(query_id(number));
        let always = self.sides == Sides::DevicesAlone;
        let resident = |morsel: &Morsel| query.spec.is_resident(morsel.id, device);
        let claim = query.queue.claim_for_device(known.info.id, |morsel, rest| {
            let id = known.info.id;
            let location = match resident(morsel) {
                true => Location::Device,
                false => Location::Host,
            };
            always
                || query
                    .workers
                    .decide(id, morsel.size, location, rest, others, now)
                    .takes
        });
        let idle = query.feeders[device].in_flight.is_empty();
        match claim {
            DeviceClaim::Morsel(morsel) => {
                let rows = morsel.size.num_rows as f64;
                let seconds = if resident(&morsel) {
                    0.0
                } else {
                    rows * self.workload.load_seconds_per_row
                };
                query.feeders[device].loading = Some(morsel);
                if query.queue.waiting(morsel.id.piece) == 0 {
                    self.wake(number);
                }
                self.at(now + seconds, number, Event::Loaded(device));
                false
            }
            DeviceClaim::Declined if idle && query.streams.iter().any(Option::is_some) => {
                let again = query.workers.ask_again(query.queue.rest(), now);
                self.at(now + again, number, Event::Feed(device));
                false
            }
            _ if idle => {
                self.flush(number, device);
                false
            }
            _ => false,
        }
    }

    pub(super) fn loaded(&mut self, number: usize, device: usize) {
        let query = &mut self.queries[number];
        let Some(morsel) = query.feeders[device].loading.take() else {
            return;
        };
        let resident = query.spec.is_resident(morsel.id, device);
        if !resident {
            let rows = morsel.size.num_rows;
            let seconds = rows as f64 * self.workload.load_seconds_per_row;
            self.rates.learn_load(query.spec.shape, rows, seconds);
        }
        query.feeders[device].pending = Some(Pending {
            morsel,
            resident,
            bytes: if resident { 0 } else { morsel.size.num_bytes },
            ladder: Ladder::default(),
        });
        self.feed(number, device);
    }

    /// Starts a fold; returns whether there is more to do now.
    fn fold(&mut self, number: usize, device: usize, mut pending: Pending) -> bool {
        let input = match self.room(number, device, &mut pending) {
            Room::Found(input) => input,
            Room::Gone => return true,
            Room::Later => {
                self.queries[number].feeders[device].pending = Some(pending);
                return false;
            }
            Room::Flush => {
                self.queries[number].feeders[device].pending = Some(pending);
                self.flush(number, device);
                return false;
            }
        };
        let (truth, known) = (&self.workload.devices[device], &mut self.devices[device]);
        let query = &mut self.queries[number];
        let (rows, shape) = (pending.morsel.size.num_rows as f64, query.spec.shape);
        let bytes = if pending.resident {
            0
        } else {
            pending.morsel.size.num_bytes
        };
        let rate = self.rates.device(shape, &known.info);
        let said = rate.launch_seconds
            + rows * rate.kernel_seconds_per_row
            + bytes as f64 * rate.transfer_seconds_per_byte;
        let feeder = &mut query.feeders[device];
        let idle = feeder.in_flight.is_empty();
        let Some(turn) = known.turns.request(query_id(number), TURNS_OUT, said, idle) else {
            feeder.pending = Some(pending);
            return false;
        };
        let seconds = truth.launch_seconds
            + rows * truth.kernel_seconds_per_row
            + bytes as f64 * truth.transfer_seconds_per_byte;
        known.free_at = known.free_at.max(self.now) + seconds;
        known.used += input.bytes();
        known.used_max = known.used_max.max(known.used);
        let done = known.free_at;
        feeder.in_flight.push_back(Fold {
            morsel: pending.morsel,
            bytes,
            input,
            turn,
            seconds,
        });
        self.at(done, number, Event::Folded(device));
        true
    }

    /// Finds room for a pending morsel, by the ladder.
    fn room(&mut self, number: usize, device: usize, pending: &mut Pending) -> Room {
        loop {
            let known = &mut self.devices[device];
            if let Ok(input) = known.budget.reserve(pending.bytes) {
                return Room::Found(input);
            }
            let query = &mut self.queries[number];
            let feeder = &query.feeders[device];
            let rung = pending.ladder.next(&Shortage {
                wanted_bytes: pending.bytes,
                free_bytes: known.budget.free(),
                limit_bytes: known.budget.limit(),
                in_flight: !feeder.in_flight.is_empty(),
                others_hold: known.turns.others_are_known(query_id(number)),
                divisible_rows: pending.morsel.size.num_rows * pending.bytes
                    / pending.morsel.size.num_bytes.max(1),
                may_flush: !feeder.folded.is_empty(),
            });
            match rung {
                Rung::Evict(bytes) => {
                    let mut freed = 0;
                    while freed < bytes && !known.cached.is_empty() {
                        freed += known.cached.remove(0).bytes();
                    }
                    known.used -= freed;
                }
                Rung::AwaitFold => return Room::Later,
                Rung::AwaitOthers(time) => {
                    let again = self.now + time.as_secs_f64();
                    self.at(again, number, Event::Feed(device));
                    return Room::Later;
                }
                Rung::Split if !feeder.folded.is_empty() => return Room::Flush,
                Rung::Split => pending.bytes = pending.bytes.div_ceil(2),
                Rung::Flush => return Room::Flush,
                Rung::Host => {
                    query.workers.cancel(known.info.id);
                    query.queue.give_back(&[pending.morsel.id]);
                    return Room::Gone;
                }
            }
        }
    }

    pub(super) fn folded(&mut self, number: usize, device: usize) {
        let (query, known) = (&mut self.queries[number], &mut self.devices[device]);
        let feeder = &mut query.feeders[device];
        let Some(fold) = feeder.in_flight.pop_front() else {
            return;
        };
        known.used -= fold.input.bytes();
        drop(fold.input);
        known.turns.end(fold.turn, fold.seconds);
        query.workers.end(known.info.id, self.now);
        let (shape, rows) = (query.spec.shape, fold.morsel.size.num_rows);
        self.rates
            .learn_fold(shape, &known.info, rows, fold.bytes, fold.seconds);
        feeder.folded.push(fold.morsel.id);
        let (before, wanted) = (
            feeder.state.bytes(),
            (feeder.state.bytes() + query.spec.state_growth).min(query.spec.state_bytes_max),
        );
        match feeder.state.resize(wanted) {
            Ok(()) => {
                known.used += wanted - before;
                known.used_max = known.used_max.max(known.used);
            }
            Err(_) => feeder.full = true,
        }
        query.workers.state_is(known.info.id, feeder.state.bytes());
        self.poke_all(device);
    }

    /// Lets every feeder of a device look whether it can go on.
    fn poke_all(&mut self, device: usize) {
        for query in 0..self.queries.len() {
            if self.queries[query].begun && !self.queries[query].feeders.is_empty() {
                self.at(self.now, query, Event::Feed(device));
            }
        }
    }

    fn flush(&mut self, number: usize, device: usize) {
        let truth = &self.workload.devices[device];
        let (query, known) = (&mut self.queries[number], &self.devices[device]);
        let feeder = &mut query.feeders[device];
        feeder.flushing = true;
        let mut seconds = 0.0;
        if !feeder.folded.is_empty() {
            let back = feeder.state.bytes() as f64 * truth.transfer_seconds_per_byte;
            seconds = truth.launch_seconds + back;
            query.workers.begin(known.info.id, seconds, self.now);
        }
        self.at(self.now + seconds, number, Event::Flushed(device));
    }

    pub(super) fn flushed(&mut self, number: usize, device: usize) {
        let (query, known) = (&mut self.queries[number], &mut self.devices[device]);
        let feeder = &mut query.feeders[device];
        feeder.flushing = false;
        feeder.full = false;
        let folded = std::mem::take(&mut feeder.folded);
        query.queue.commit(known.info.id, &folded);
        for id in &folded {
            *query.counted.entry(*id).or_default() += 1;
        }
        self.on_devices += folded.len() as u64;
        known.used -= feeder.state.bytes();
        feeder.state.resize(0).unwrap();
        if !folded.is_empty() {
            query.workers.end(known.info.id, self.now);
        }
        query.workers.state_left(known.info.id);
        let streams = query.streams.iter().any(Option::is_some);
        let waits = query.queue.rest().num_morsels > 0;
        if feeder.pending.is_none() && (!waits || (!streams && self.sides == Sides::Mixed)) {
            feeder.ended = true;
            query.workers.leave_device(known.info.id);
            known.turns.leave(query_id(number));
            self.end_if_done(number);
        } else {
            self.at(self.now, number, Event::Feed(device));
        }
        self.poke_all(device);
    }
}
