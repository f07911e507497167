//! Permits of statements: each waits at the gate of the process, as the statements of every session do,
//! and is refused if the queue is full. Nobody waits for ever, and nothing is admitted once the server is
//! shutting down. One user may have a limited number of permits.
//!
//! A statement whose rows nobody reads returns its permit while others wait: it is *paused*, and asks for
//! a permit again when its client reads on. Paused statements keep their memory, so their number is
//! limited: one more ends the one that was paused first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::{AdmissionGate, AdmissionLimits, AdmissionRequest, Permit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::options::Limits;

/// How often a drain looks whether all has ended.
const DRAIN_STEP: Duration = Duration::from_millis(20);
/// How long a statement that reads on waits before it asks a full queue again.
const RESUME_STEP: Duration = Duration::from_millis(50);
/// The priority of a statement that reads on, whose client has waited already.
const RESUME_PRIORITY: i32 = 1;

/// The server's way to the gate.
#[derive(Debug)]
pub(crate) struct Admission {
    gate: Arc<AdmissionGate>,
    /// Permits of this server's statements.
    running: Arc<AtomicUsize>,
    is_closed: AtomicBool,
    users: Mutex<HashMap<Arc<str>, Arc<UserPermits>>>,
    limits: UserLimits,
    paused: Mutex<BTreeMap<u64, CancellationToken>>,
    paused_max: usize,
    next_paused: AtomicU64,
    resume_wait: Duration,
}

/// The permits that one user may have, and wait for.
#[derive(Clone, Copy, Debug)]
struct UserLimits {
    running: usize,
    waiting: usize,
}

/// The permits of one user.
#[derive(Debug)]
struct UserPermits {
    free: Arc<Semaphore>,
    num_waiting: AtomicUsize,
}

/// A statement's permission to run, until it is dropped.
#[derive(Debug)]
pub(crate) struct StatementPermit {
    _permit: Permit,
    _of_user: OwnedSemaphorePermit,
    running: Arc<AtomicUsize>,
}

impl Drop for StatementPermit {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A statement without its permit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pause {
    admission: Arc<Admission>,
    number: u64,
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.admission.paused.lock().remove(&self.number);
    }
}

/// A statement that waits for a permit of its user.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// Leads to this gate, which has the server's limits from now on.
    pub(crate) fn new(gate: &Arc<AdmissionGate>, limits: &Limits) -> Self {
        gate.set_limits(AdmissionLimits {
            running_max: limits.statements.max(1),
            waiting_max: limits.queued,
            wait_max: limits.queue_wait,
            ..gate.limits()
        });
        Self {
            gate: Arc::clone(gate),
            running: Arc::default(),
            is_closed: AtomicBool::new(false),
            users: Mutex::default(),
            limits: UserLimits {
                running: limits.statements_per_user.clamp(1, Semaphore::MAX_PERMITS),
                waiting: limits.queued_per_user,
            },
            paused: Mutex::default(),
            paused_max: limits.queued,
            next_paused: AtomicU64::new(0),
            resume_wait: limits.stall,
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// `UNAVAILABLE`, which clients may try again, if the queue is full, the wait is over or the
    /// server is going down; `RESOURCE_EXHAUSTED` if too many statements of the user wait.
    pub(crate) async fn permit(&self, user: &Arc<str>) -> Result<StatementPermit, Status> {
        self.check_open()?;
        let of_user = self.of_user(user);
        let is_free = of_user.free.available_permits() > 0 && self.has_room();
        let num_waiting = of_user.num_waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&of_user.num_waiting);
        if num_waiting >= self.limits.waiting && !is_free {
            return Err(Status::resource_exhausted(format!(
                "user '{user}' has {num_waiting} waiting statements, the maximum per user: try \
                 again later, or raise --max-user-queue"
            )));
        }
        let permit = self.wait(&of_user, 0).await?;
        self.check_open()?;
        Ok(permit)
    }

    async fn wait(&self, of_user: &UserPermits, priority: i32) -> Result<StatementPermit, Status> {
        let wait_max = self.gate.limits().wait_max;
        let free = Arc::clone(&of_user.free).acquire_owned();
        let Ok(Ok(of_user)) = tokio::time::timeout(wait_max, free).await else {
            return Err(Status::unavailable(format!(
                "the statement waited {wait_max:?} for one of {} running statements of its user \
                 to end, the maximum wait; try again later, or raise --max-user-statements",
                self.limits.running
            )));
        };
        let request = AdmissionRequest {
            priority,
            ..AdmissionRequest::default()
        };
        let admitted = self.gate.admit(request).await;
        let permit = admitted.map_err(|refused| Status::unavailable(refused.to_string()))?;
        self.running.fetch_add(1, Ordering::Relaxed);
        Ok(StatementPermit {
            _permit: permit,
            _of_user: of_user,
            running: Arc::clone(&self.running),
        })
    }

    /// Tells whether other statements of the process or of the user wait for a permit.
    pub(crate) fn is_wanted(&self, user: &Arc<str>) -> bool {
        let (_, num_waiting) = self.gate.counts();
        num_waiting > 0 || self.of_user(user).num_waiting.load(Ordering::Relaxed) > 0
    }

    /// Counts a statement as paused. If there are too many, the one that was paused first is ended
    /// through what it gave here.
    pub(crate) fn pause(self: &Arc<Self>, end: CancellationToken) -> Pause {
        let mut paused = self.paused.lock();
        let number = self.next_paused.fetch_add(1, Ordering::Relaxed);
        paused.insert(number, end);
        if paused.len() > self.paused_max
            && let Some((_, end)) = paused.pop_first()
        {
            end.cancel();
        }
        Pause {
            admission: Arc::clone(self),
            number,
        }
    }

    /// Waits for a permit again.
    ///
    /// # Errors
    /// `UNAVAILABLE` if there is none for as long as rows may lie unread.
    pub(crate) async fn resume(self: Arc<Self>, user: Arc<str>) -> Result<StatementPermit, Status> {
        let of_user = self.of_user(&user);
        let resumed = async {
            loop {
                match self.wait(&of_user, RESUME_PRIORITY).await {
                    Ok(permit) => return permit,
                    Err(_) => tokio::time::sleep(RESUME_STEP).await,
                }
            }
        };
        let resumed = tokio::time::timeout(self.resume_wait, resumed).await;
        resumed.map_err(|_| {
            Status::unavailable(format!(
                "the statement was paused because its rows were not read, and could not be \
                 resumed within {:?}; try again later, or raise --max-statements",
                self.resume_wait
            ))
        })
    }

    /// Fails once the server is going down.
    pub(crate) fn check_open(&self) -> Result<(), Status> {
        match self.is_closed.load(Ordering::Relaxed) {
            true => Err(going_down()),
            false => Ok(()),
        }
    }

    /// Lets no statement start from now on, and waits a while for those that run or are paused.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.is_closed.store(true, Ordering::Relaxed);
        let idle = async {
            while self.running.load(Ordering::Relaxed) > 0 || !self.paused.lock().is_empty() {
                tokio::time::sleep(DRAIN_STEP).await;
            }
        };
        // Who still runs then is cancelled by the caller.
        let _ = tokio::time::timeout(patience, idle).await;
    }

    fn of_user(&self, user: &Arc<str>) -> Arc<UserPermits> {
        let mut users = self.users.lock();
        let of_user = users.entry(Arc::clone(user)).or_insert_with(|| {
            Arc::new(UserPermits {
                free: Arc::new(Semaphore::new(self.limits.running)),
                num_waiting: AtomicUsize::new(0),
            })
        });
        Arc::clone(of_user)
    }

    fn has_room(&self) -> bool {
        let (num_running, num_waiting) = self.gate.counts();
        num_waiting == 0 && num_running < self.gate.limits().running_max
    }
}

fn going_down() -> Status {
    Status::unavailable("the server is shutting down: try again later, or elsewhere")
}

#[cfg(test)]
mod tests;
