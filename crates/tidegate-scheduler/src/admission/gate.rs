//! The door at which tasks wait to be admitted.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use futures::future::{Either, select};
use futures_timer::Delay;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{AdmissionError, AdmissionLimits, AdmissionQueue, AdmissionRequest, Ticket};

/// Lets a limited number of queries run at once.
#[derive(Debug)]
pub struct AdmissionGate {
    queue: Mutex<AdmissionQueue>,
    moved: Notify,
    opened: Instant,
}

/// A query's leave to run; the next is let in when this is dropped.
#[derive(Debug)]
#[must_use = "the query counts as ended once the permit is dropped"]
pub struct Permit {
    gate: Arc<AdmissionGate>,
    ticket: Ticket,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = self.gate.now();
        let admitted = self.gate.queue.lock().leave(self.ticket, now);
        if !admitted.is_empty() {
            self.gate.moved.notify_waiters();
        }
    }
}

impl AdmissionGate {
    /// Opens a gate.
    pub fn new(limits: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(AdmissionQueue::new(limits)),
            moved: Notify::new(),
            opened: Instant::now(),
        })
    }

    /// Changes the limits, for those too that wait now; their time to wait stays.
    pub fn set_limits(&self, limits: AdmissionLimits) {
        let now = self.now();
        self.queue.lock().set_limits(limits, now);
        self.moved.notify_waiters();
    }

    /// Returns the limits.
    pub fn limits(&self) -> AdmissionLimits {
        self.queue.lock().limits()
    }

    /// Returns how many queries run and how many wait.
    pub fn counts(&self) -> (usize, usize) {
        let queue = self.queue.lock();
        (queue.num_running(), queue.num_waiting())
    }

    /// Waits to be let in, for a limited time; a higher priority goes first. Dropping the future
    /// leaves the queue. A thread of its own keeps the time: a runtime's clock stands still while each of
    /// its threads is busy.
    ///
    /// # Errors
    /// [`AdmissionError`]; trying again later may succeed.
    pub async fn admit(
        self: &Arc<Self>,
        request: AdmissionRequest,
    ) -> Result<Permit, AdmissionError> {
        let (ticket, limits) = {
            let mut queue = self.queue.lock();
            (queue.arrive(request, self.now())?, queue.limits())
        };
        let permit = Permit {
            gate: Arc::clone(self),
            ticket,
        };
        if self.queue.lock().runs(ticket) {
            return Ok(permit);
        }
        let mut rings = Delay::new(limits.wait_max);
        loop {
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            if self.queue.lock().runs(ticket) {
                return Ok(permit);
            }
            if let Either::Right(_) = select(moved, &mut rings).await {
                return Err(AdmissionError::WaitedTooLong {
                    running_max: self.queue.lock().limits().running_max,
                    waited: limits.wait_max,
                });
            }
        }
    }

    fn now(&self) -> f64 {
        self.opened.elapsed().as_secs_f64()
    }
}
