//! Messages name the limit and the way out.

use super::DeviceError;
use crate::info::DeviceId;

fn out_of_memory(wanted: u64) -> DeviceError {
    DeviceError::OutOfMemory {
        device: DeviceId(1),
        wanted,
        free: 10,
        limit: 100,
    }
}

#[test]
fn messages_name_the_limit_and_the_way_out() {
    assert_eq!(
        out_of_memory(50).to_string(),
        "device 1 is out of memory: 50 bytes were wanted and 10 of its limit of 100 are free; \
         wait for other work to end, split the work or raise the limit"
    );
    assert_eq!(
        out_of_memory(500).to_string(),
        "device 1 is out of memory: 500 bytes were wanted and its whole limit is 100; \
         split the work or raise the limit"
    );
}

#[test]
fn work_without_a_launch_has_no_number() {
    let failed = |launch| {
        let why = "it did".into();
        let device = DeviceId(1);
        let error = DeviceError::LaunchFailed {
            device,
            launch,
            why,
        };
        error.to_string()
    };
    assert!(failed(0).starts_with("a run on device 1 failed: it did;"));
    assert!(failed(3).starts_with("launch 3 on device 1 failed: it did;"));
}

#[test]
fn only_more_than_the_limit_is_impossible() {
    assert!(!out_of_memory(100).is_impossible());
    assert!(out_of_memory(101).is_impossible());
    assert!(!out_of_memory(101).is_lost());
}
