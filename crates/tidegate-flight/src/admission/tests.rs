//! Permits of the server and of its users, and results that are paused.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AdmissionGate, AdmissionLimits};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::Admission;
use crate::options::Limits;

fn admission(statements: usize, queued: usize, wait_ms: u64) -> Arc<Admission> {
    with(Limits {
        statements,
        queued,
        queue_wait: Duration::from_millis(wait_ms),
        ..Limits::default()
    })
}

fn with(limits: Limits) -> Arc<Admission> {
    let gate = AdmissionGate::new(AdmissionLimits::default());
    Arc::new(Admission::new(&gate, &limits))
}

fn user(name: &str) -> Arc<str> {
    name.into()
}

/// Asks for a permit, and lets the task get as far as it can.
async fn ask(
    admission: &Arc<Admission>,
    name: &str,
) -> tokio::task::JoinHandle<Result<super::StatementPermit, tonic::Status>> {
    let (admission, name) = (Arc::clone(admission), user(name));
    let asked = tokio::spawn(async move { admission.permit(&name).await });
    tokio::task::yield_now().await;
    asked
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let admission = admission(1, 1, 60_000);
    let ada = user("ada");
    let first = admission.permit(&ada).await.unwrap();
    assert!(!admission.is_wanted(&ada));
    let second = ask(&admission, "ada").await;
    assert!(admission.is_wanted(&ada));
    let refused = admission.permit(&ada).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    drop(first);
    let second = second.await.unwrap().unwrap();
    drop(second);
    assert!(admission.permit(&ada).await.is_ok());
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let admission = admission(1, 10, 20);
    let _first = admission.permit(&user("ada")).await.unwrap();
    let refused = admission.permit(&user("ada")).await.unwrap_err();
    assert!(refused.message().contains("try again"), "{refused}");
    assert_eq!(admission.gate.counts(), (1, 0));
}

#[tokio::test]
async fn one_user_has_a_limited_number_of_permits_and_waits() {
    let admission = with(Limits {
        statements: 4,
        queued: 8,
        statements_per_user: 1,
        queued_per_user: 1,
        queue_wait: Duration::from_secs(60),
        ..Limits::default()
    });
    let first = admission.permit(&user("ada")).await.unwrap();
    let second = ask(&admission, "ada").await;
    let refused = admission.permit(&user("ada")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("--max-user-queue"), "{refused}");
    // Others get a permit at once, and nobody else returns one for ada.
    assert!(!admission.is_wanted(&user("bob")));
    assert!(admission.is_wanted(&user("ada")));
    let other = admission.permit(&user("bob")).await.unwrap();
    drop(first);
    let second = second.await.unwrap().unwrap();
    drop((second, other));
    assert_eq!(admission.gate.counts(), (0, 0));
}

#[tokio::test]
async fn the_wait_for_a_permit_of_ones_own_ends_too() {
    let admission = with(Limits {
        statements: 4,
        statements_per_user: 1,
        queue_wait: Duration::from_millis(20),
        ..Limits::default()
    });
    let _first = admission.permit(&user("ada")).await.unwrap();
    let refused = admission.permit(&user("ada")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused.message().contains("--max-user-statements"),
        "{refused}"
    );
}

#[tokio::test]
async fn who_was_paused_first_ends_first() {
    let admission = admission(1, 2, 20);
    let ends = [0; 3].map(|_| CancellationToken::new());
    let first = admission.pause(ends[0].clone());
    let second = admission.pause(ends[1].clone());
    assert!(!ends[0].is_cancelled());
    let third = admission.pause(ends[2].clone());
    assert!(ends[0].is_cancelled() && !ends[1].is_cancelled() && !ends[2].is_cancelled());
    drop((first, second, third));
    assert!(admission.paused.lock().is_empty());
}

#[tokio::test]
async fn who_reads_on_outlives_a_full_line_and_a_wait() {
    let admission = admission(1, 2, 20);
    let permit = admission.permit(&user("ada")).await.unwrap();
    let resumed = tokio::spawn(Arc::clone(&admission).resume(user("bob")));
    // Somebody else finds the line free, though one reads on, and has waited for long enough.
    let refused = admission.permit(&user("eve")).await.unwrap_err();
    assert!(refused.message().contains("waited"), "{refused}");
    assert!(!resumed.is_finished());
    drop(permit);
    assert!(resumed.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_drain_waits_for_who_runs_and_lets_nobody_in() {
    let admission = admission(2, 1, 20);
    let permit = admission.permit(&user("ada")).await.unwrap();
    let pause = admission.pause(CancellationToken::new());
    admission.drain(Duration::from_millis(50)).await;
    let refused = admission.permit(&user("ada")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    drop((permit, pause));
    admission.drain(Duration::from_secs(60)).await;
}
