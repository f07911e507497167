//! Turns on one device: its time is shared between queries by start-time fair queueing.
//!
//! Each query has a virtual time, which its turns advance by the device time they take. The next turn
//! goes to the query whose virtual time is least; one that comes anew starts where the device is now,
//! so that it neither owes nor has saved anything. A turn is one launch, sized by the learned rate,
//! so nobody waits for longer than the turns of the others. While a query waits for kernels its turns are
//! set aside. A query that has the device to itself may have more turns at once, if it wants to, until
//! another one comes.
//!
//! Goyal, Vin, Cheng: Start-time Fair Queuing (SIGCOMM 1996).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{Either, select};
use parking_lot::Mutex;
use tidegate_kernels::Waiting;
use tokio::sync::Notify;

/// Turns that are out at once where queries share the device: one that it works on, and one behind it.
pub const TURNS_OUT: usize = 2;

/// More turns are out there if all of them are short: so many seconds' worth, which is as long as whoever comes
/// anew waits. A morsel is encoded in its turn, so that the device waits where only two are.
pub const SECONDS_OUT: f64 = 0.004;

/// What a turn should take at the most, in seconds.
pub const TURN_SECONDS_MAX: f64 = 0.05;

/// A query, as devices know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

#[derive(Clone, Copy, Debug)]
struct Out {
    query: QueryId,
    seconds: f64,
}

/// The turns of one device, as a plain state machine.
#[derive(Debug, Default)]
pub struct Turns {
    /// Turns that are out, by number.
    out: BTreeMap<u64, Out>,
    /// Turns of queries that wait for kernels: the device does nothing for them.
    aside: BTreeMap<u64, Out>,
    /// Queries that wait for a turn of so many seconds.
    waiting: BTreeMap<QueryId, f64>,
    /// Virtual times of the queries that are known.
    times: BTreeMap<QueryId, f64>,
    /// The virtual time of the turn that was given last.
    floor: f64,
    next: u64,
}

impl Turns {
    /// Gives a query a turn that should take so many seconds, if one is free and no other query
    /// goes first; else the query waits for one, if `waits`. Asking again changes nothing else. `most`
    /// is how many it may have while no other query uses the device, [`TURNS_OUT`] at least.
    pub fn request(
        &mut self,
        query: QueryId,
        most: usize,
        seconds: f64,
        waits: bool,
    ) -> Option<u64> {
        let others_wait = self.waiting.keys().any(|other| *other != query);
        let most = if others_wait || self.others_are_known(query) {
            TURNS_OUT
        } else {
            most.max(TURNS_OUT)
        };
        let start = self.start(query);
        let goes_first = |(&other, _): (&QueryId, &f64)| {
            let their = self.start(other);
            let before = their < start || (their == start && other < query);
            other != query && before && !self.is_aside(other)
        };
        let is_next = !self.waiting.iter().any(goes_first);
        let is_full = self.out.len() >= most && self.seconds_out() + seconds > SECONDS_OUT;
        if is_full || !is_next || self.is_aside(query) {
            if waits {
                self.waiting.insert(query, seconds);
            }
            return None;
        }
        self.waiting.remove(&query);
        self.floor = start;
        self.times.insert(query, start + seconds.max(0.0));
        let number = self.next;
        self.next += 1;
        self.out.insert(number, Out { query, seconds });
        Some(number)
    }

    /// Lets others have a turn while the query of this one waits for kernels. It gets no other turn then,
    /// and goes before nobody.
    pub fn set_aside(&mut self, turn: u64) {
        if let Some(out) = self.out.remove(&turn) {
            self.aside.insert(turn, out);
        }
    }

    /// Goes on with a turn that was set aside, whoever has got one meanwhile.
    pub fn resume(&mut self, turn: u64) {
        if let Some(out) = self.aside.remove(&turn) {
            self.out.insert(turn, out);
        }
    }

    /// Ends a turn that took so many seconds.
    pub fn end(&mut self, turn: u64, seconds: f64) {
        let set_aside = self.aside.remove(&turn);
        let Some(out) = self.out.remove(&turn).or(set_aside) else {
            return;
        };
        if let Some(time) = self.times.get_mut(&out.query) {
            *time += seconds - out.seconds;
        }
    }

    /// Takes a query out of those that wait.
    pub fn withdraw(&mut self, query: QueryId) {
        self.waiting.remove(&query);
    }

    /// Forgets a query that has no more to do.
    pub fn leave(&mut self, query: QueryId) {
        self.withdraw(query);
        self.times.remove(&query);
    }

    /// Returns for how long other queries keep the device from this one: their turns that are out,
    /// and one more of each that waits.
    pub fn seconds_of_others(&self, query: QueryId) -> f64 {
        let out = self.out.values().filter(|out| out.query != query);
        let waits = |other: QueryId| other != query && !self.is_aside(other);
        let waiting = self.waiting.iter().filter(|(other, _)| waits(**other));
        let waiting = waiting.map(|(_, seconds)| *seconds);
        out.map(|out| out.seconds).chain(waiting).sum()
    }

    fn seconds_out(&self) -> f64 {
        self.out.values().map(|out| out.seconds).sum()
    }

    /// Returns whether any other query uses the device.
    pub fn others_are_known(&self, query: QueryId) -> bool {
        self.times.keys().any(|other| *other != query)
    }

    /// Returns whether a query waits for kernels.
    fn is_aside(&self, query: QueryId) -> bool {
        self.aside.values().any(|out| out.query == query)
    }

    fn start(&self, query: QueryId) -> f64 {
        let own = self.times.get(&query).copied();
        own.map_or(self.floor, |time| time.max(self.floor))
    }
}

/// The turns of one device, for tasks to wait for.
#[derive(Debug, Default)]
pub struct DeviceTurns {
    turns: Mutex<Turns>,
    ended: Notify,
}

/// A turn on a device; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the turn ends once it is dropped"]
pub struct Turn {
    device: Arc<DeviceTurns>,
    number: u64,
    seconds: f64,
}

impl Turn {
    /// Notes what the turn really took.
    pub fn took(&mut self, seconds: f64) {
        self.seconds = seconds;
    }

    /// Does the turn's work; others may have the device while it waits for kernels.
    pub async fn work<T>(
        &mut self,
        work: impl Future<Output = T>,
        waiting: Option<Arc<Waiting>>,
    ) -> T {
        let Some(waiting) = waiting else {
            return work.await;
        };
        let mut work = std::pin::pin!(work);
        loop {
            for waits in [true, false] {
                let changed = std::pin::pin!(waiting.until(waits));
                if let Either::Left((done, _)) = select(work.as_mut(), changed).await {
                    return done;
                }
                let mut turns = self.device.turns.lock();
                match waits {
                    true => turns.set_aside(self.number),
                    false => turns.resume(self.number),
                }
                drop(turns);
                self.device.ended.notify_waiters();
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.device.turns.lock().end(self.number, self.seconds);
        self.device.ended.notify_waiters();
    }
}

/// A query that waits for a turn; it stops waiting when this is dropped.
struct InLine<'a> {
    device: &'a DeviceTurns,
    query: QueryId,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.device.turns.lock().withdraw(self.query);
        self.device.ended.notify_waiters();
    }
}

impl DeviceTurns {
    /// Takes a turn if one is free and no other query goes first; `most` as for [`Turns::request`].
    pub fn try_take(self: &Arc<Self>, query: QueryId, most: usize, seconds: f64) -> Option<Turn> {
        let number = self.turns.lock().request(query, most, seconds, false)?;
        Some(self.turn(number, seconds))
    }

    /// Waits for a turn. Only a query without a turn may wait, or two could wait for each other.
    pub async fn take(self: &Arc<Self>, query: QueryId, most: usize, seconds: f64) -> Turn {
        let in_line = InLine {
            device: self,
            query,
        };
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            let taken = self.turns.lock().request(query, most, seconds, true);
            if let Some(number) = taken {
                drop(in_line);
                return self.turn(number, seconds);
            }
            ended.await;
        }
    }

    /// Returns for how many seconds other queries keep the device from this one.
    pub fn seconds_of_others(&self, query: QueryId) -> f64 {
        self.turns.lock().seconds_of_others(query)
    }

    /// Returns whether any other query uses the device.
    pub fn others_are_known(&self, query: QueryId) -> bool {
        self.turns.lock().others_are_known(query)
    }

    /// Forgets a query that has no more to do here.
    pub fn leave(&self, query: QueryId) {
        self.turns.lock().leave(query);
        self.ended.notify_waiters();
    }

    fn turn(self: &Arc<Self>, number: u64, seconds: f64) -> Turn {
        Turn {
            device: Arc::clone(self),
            number,
            seconds,
        }
    }
}
