//! A statement's turn: it waits at the gate of the process, as the statements of every session do,
//! and is told to come again if the line is full. Nobody waits for ever, and nobody comes in once the
//! server is going down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::{AdmissionGate, AdmissionLimits, Permit, Wish};
use tonic::Status;

use crate::options::Limits;

/// How often a drain looks whether all has ended.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// The server's way to the gate.
#[derive(Debug)]
pub(crate) struct Admission {
    gate: Arc<AdmissionGate>,
    /// Turns that this server's statements have.
    running: Arc<AtomicUsize>,
    is_closed: AtomicBool,
}

/// A statement's turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Permit,
    running: Arc<AtomicUsize>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
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
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `UNAVAILABLE`, which clients may try again, if the queue is full, the wait is over or the
    /// server is going down.
    pub(crate) async fn turn(&self) -> Result<Turn, Status> {
        self.check_open()?;
        let admitted = self.gate.admit(Wish::default()).await;
        let permit = admitted.map_err(|refused| Status::unavailable(refused.to_string()))?;
        self.running.fetch_add(1, Ordering::Relaxed);
        let turn = Turn {
            _permit: permit,
            running: Arc::clone(&self.running),
        };
        self.check_open()?;
        Ok(turn)
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
            while self.running.load(Ordering::Relaxed) > 0 {
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

    use tidegate::{AdmissionGate, AdmissionLimits};
    use tonic::Code;

    use super::Admission;
    use crate::options::Limits;

    fn admission(statements: usize, queued: usize, wait_ms: u64) -> Arc<Admission> {
        let limits = Limits {
            statements,
            queued,
            queue_wait: Duration::from_millis(wait_ms),
            ..Limits::default()
        };
        let gate = AdmissionGate::new(AdmissionLimits::default());
        Arc::new(Admission::new(&gate, &limits))
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
        assert_eq!(admission.gate.counts(), (1, 0));
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
