//! A statement's turn: so many run, so many wait in the order they came, and the rest is told to come
//! again. Nobody waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::options::Limits;

/// How often a drain looks whether all has ended.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// The statements that run and wait.
#[derive(Debug)]
pub(crate) struct Admission {
    turns: Arc<Semaphore>,
    num_turns: usize,
    waiting: AtomicUsize,
    queue_max: usize,
    wait_max: Duration,
    is_closed: AtomicBool,
}

/// A statement's turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let num_turns = limits.statements.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            turns: Arc::new(Semaphore::new(num_turns)),
            num_turns,
            waiting: AtomicUsize::new(0),
            queue_max: limits.queued,
            wait_max: limits.queue_wait,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `UNAVAILABLE`, which clients may try again, if the queue is full, the wait is over or the
    /// server is going down.
    pub(crate) async fn turn(&self) -> Result<Turn, Status> {
        self.check_open()?;
        if let Ok(permit) = Arc::clone(&self.turns).try_acquire_owned() {
            return Ok(Turn { _permit: permit });
        }
        let ahead = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if ahead >= self.queue_max {
            return Err(Status::unavailable(format!(
                "{} statements run and {ahead} wait, which is all that this server takes: try again \
                 later",
                self.num_turns
            )));
        }
        let turn = Arc::clone(&self.turns).acquire_owned();
        match tokio::time::timeout(self.wait_max, turn).await {
            Ok(Ok(permit)) => {
                self.check_open()?;
                Ok(Turn { _permit: permit })
            }
            Ok(Err(_)) => Err(going_down()),
            Err(_) => Err(Status::unavailable(format!(
                "the statement waited {} s for its turn behind {} others: try again later",
                self.wait_max.as_secs_f64(),
                self.num_turns
            ))),
        }
    }

    /// Fails once the server is going down.
    pub(crate) fn check_open(&self) -> Result<(), Status> {
        match self.is_closed.load(Ordering::Relaxed) {
            true => Err(going_down()),
            false => Ok(()),
        }
    }

    /// Lets no statement start from now on, and waits a while for those that run.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.is_closed.store(true, Ordering::Relaxed);
        let idle = async {
            while self.turns.available_permits() < self.num_turns {
                tokio::time::sleep(DRAIN_STEP).await;
            }
        };
        // Who still runs then is cancelled by the caller.
        let _ = tokio::time::timeout(patience, idle).await;
    }
}

fn going_down() -> Status {
    Status::unavailable("the server is going down: try again later, or elsewhere")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tonic::Code;

    use super::Admission;
    use crate::options::Limits;

    fn admission(statements: usize, queued: usize, wait_ms: u64) -> Arc<Admission> {
        Arc::new(Admission::new(&Limits {
            statements,
            queued,
            queue_wait: Duration::from_millis(wait_ms),
            ..Limits::default()
        }))
    }

    #[tokio::test]
    async fn a_full_queue_says_so() {
        let admission = admission(1, 1, 60_000);
        let first = admission.turn().await.unwrap();
        let second = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.turn().await }
        });
        tokio::task::yield_now().await;
        let refused = admission.turn().await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        drop(first);
        let second = second.await.unwrap().unwrap();
        drop(second);
        assert!(admission.turn().await.is_ok());
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let admission = admission(1, 10, 20);
        let _first = admission.turn().await.unwrap();
        let refused = admission.turn().await.unwrap_err();
        assert!(refused.message().contains("try again"), "{refused}");
        assert_eq!(
            admission.waiting.load(std::sync::atomic::Ordering::Relaxed),
            0
        );
    }

    #[tokio::test]
    async fn a_drain_waits_for_who_runs_and_lets_nobody_in() {
        let admission = admission(2, 1, 20);
        let turn = admission.turn().await.unwrap();
        admission.drain(Duration::from_millis(50)).await;
        assert_eq!(
            admission.turn().await.unwrap_err().code(),
            Code::Unavailable
        );
        drop(turn);
        admission.drain(Duration::from_secs(60)).await;
    }
}
