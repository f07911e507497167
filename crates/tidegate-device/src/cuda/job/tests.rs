//! Failed and forgotten work is heard of.

use futures::executor::block_on;

use super::job;
use crate::error::DeviceError;
use crate::info::DeviceId;

#[test]
fn failed_and_forgotten_work_is_heard_of() {
    let lost = DeviceError::Lost {
        device: DeviceId(1),
        why: "a test".to_owned(),
    };
    let (work, pending) = job(DeviceId(1), |_| 1);
    work.fail(lost.clone());
    assert_eq!(block_on(pending), Err(lost));
    let (work, pending) = job(DeviceId(1), |_| 1);
    drop(work);
    let error = block_on(pending).unwrap_err();
    assert_eq!(
        error.to_string(),
        "device 1 is lost: its thread ended; its work can run elsewhere"
    );
}

#[test]
fn nobody_has_to_wait() {
    let (work, pending) = job(DeviceId(1), |_| 1);
    drop(pending);
    work.fail(DeviceError::Lost {
        device: DeviceId(1),
        why: "a test".to_owned(),
    });
}
