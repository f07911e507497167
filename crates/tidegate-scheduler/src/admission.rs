//! Which queries run, and whose turn it is on a device.
//!
//! An [`AdmissionQueue`] lets a limited number of queries run, within the memory that they are known to
//! need; the others wait, highest priority first, then oldest first, for a limited time. Waiting raises a
//! query's priority, and nobody overtakes whoever is next, so that none starves. The queue is a plain
//! state machine; tasks wait at the [`AdmissionGate`].
//! [`turns`] shares a device's time between the queries that run.

mod gate;
pub mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use thiserror::Error;

pub use gate::{AdmissionGate, Permit};
pub use turns::{DeviceTurns, QueryId, Turn, Turns};

/// Seconds of waiting that count as much as one step of priority.
const SECONDS_PER_PRIORITY: f64 = 10.0;

/// How many queries run and wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionLimits {
    /// Queries that run at once.
    pub running_max: usize,
    /// Queries that wait at once.
    pub waiting_max: usize,
    /// How long one waits.
    pub wait_max: Duration,
    /// Bytes that those which run may be expected to need together. One always runs.
    pub expected_bytes_max: u64,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            running_max: 64,
            waiting_max: 1024,
            wait_max: Duration::from_secs(60),
            expected_bytes_max: u64::MAX,
        }
    }
}

/// Why a query was not admitted. It can be tried again.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AdmissionError {
    /// Too many wait.
    #[error(
        "the queue is full: {running_max} statements run and {waiting_max} wait, the maximum; \
         try again later, or \
         raise tidegate.max_running_queries or tidegate.max_waiting_queries"
    )]
    QueueFull {
        /// The limit of those that run.
        running_max: usize,
        /// The limit of those that wait.
        waiting_max: usize,
    },
    /// It waited as long as it may.
    #[error(
        "the statement waited {waited:?} for one of {running_max} running statements to end, the \
         maximum wait; try again later, or raise tidegate.max_running_queries or tidegate.queue_timeout"
    )]
    WaitedTooLong {
        /// The limit of those that run.
        running_max: usize,
        /// How long it waited.
        waited: Duration,
    },
}

/// A query's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    request: AdmissionRequest,
    since: f64,
}

/// What a query asks of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRequest {
    /// The higher the sooner; 0 for most.
    pub priority: i32,
    /// Bytes of memory that it is known to need; 0 if nothing is known.
    pub expected_bytes: u64,
}

/// The queries that run and wait. Times are in seconds from any start.
#[derive(Debug)]
pub struct AdmissionQueue {
    limits: AdmissionLimits,
    /// With the bytes that each is expected to need.
    running: BTreeMap<Ticket, u64>,
    waiting: VecDeque<Waiting>,
    next: u64,
}

impl AdmissionQueue {
    /// Makes an empty queue.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            running: BTreeMap::new(),
            waiting: VecDeque::new(),
            next: 0,
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> AdmissionLimits {
        self.limits
    }

    /// Changes the limits; who runs or waits stays. Returns who may run now.
    pub fn set_limits(&mut self, limits: AdmissionLimits, now: f64) -> Vec<Ticket> {
        self.limits = limits;
        self.admit(now)
    }

    /// Admits a query or makes it wait; [`AdmissionQueue::runs`] says which.
    ///
    /// # Errors
    /// [`AdmissionError::QueueFull`].
    pub fn arrive(
        &mut self,
        request: AdmissionRequest,
        now: f64,
    ) -> Result<Ticket, AdmissionError> {
        let free = self.waiting.is_empty() && self.has_room(request);
        if !free && self.waiting.len() >= self.limits.waiting_max {
            return Err(AdmissionError::QueueFull {
                running_max: self.limits.running_max,
                waiting_max: self.limits.waiting_max,
            });
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        if free {
            self.running.insert(ticket, request.expected_bytes);
        } else {
            self.waiting.push_back(Waiting {
                ticket,
                request,
                since: now,
            });
        }
        Ok(ticket)
    }

    /// Returns whether a query was let in and has not left.
    pub fn runs(&self, ticket: Ticket) -> bool {
        self.running.contains_key(&ticket)
    }

    /// Returns how many wait.
    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many run.
    pub fn num_running(&self) -> usize {
        self.running.len()
    }

    /// Takes a query out, whether it runs or waits. Returns who may run now.
    pub fn leave(&mut self, ticket: Ticket, now: f64) -> Vec<Ticket> {
        self.running.remove(&ticket);
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        self.admit(now)
    }

    /// Returns whether a query may run beside those that do.
    fn has_room(&self, request: AdmissionRequest) -> bool {
        let expected = self
            .running
            .values()
            .fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let fits =
            expected.saturating_add(request.expected_bytes) <= self.limits.expected_bytes_max;
        self.running.len() < self.limits.running_max && (fits || self.running.is_empty())
    }

    fn admit(&mut self, now: f64) -> Vec<Ticket> {
        let mut admitted = Vec::new();
        loop {
            let rank = |waiting: &Waiting| {
                f64::from(waiting.request.priority) + (now - waiting.since) / SECONDS_PER_PRIORITY
            };
            let candidates = self.waiting.iter().enumerate();
            // Of equals the first: `max_by` would take the last.
            let best = candidates.reduce(|best, other| {
                if rank(other.1) > rank(best.1) {
                    other
                } else {
                    best
                }
            });
            let best = best.map(|(index, waiting)| (index, waiting.request));
            let Some((index, request)) = best else {
                break;
            };
            if !self.has_room(request) {
                break;
            }
            if let Some(next) = self.waiting.remove(index) {
                self.running
                    .insert(next.ticket, next.request.expected_bytes);
                admitted.push(next.ticket);
            }
        }
        admitted
    }
}

#[cfg(test)]
mod tests;
