//! Sizes have units.

use std::time::Duration;

use super::{LAUNCH_TIME_MAX, SimulatedSpec, SpecError};
use crate::simulated::Cost;

fn check(text: &str, expect: SimulatedSpec) {
    assert_eq!(text.parse(), Ok(expect), "{text}");
}

#[test]
fn sizes_have_units() {
    check("100", SimulatedSpec::with_memory(100));
    check("1.5kB", SimulatedSpec::with_memory(1536));
    check("512MiB", SimulatedSpec::with_memory(512 << 20));
    check("2 GB", SimulatedSpec::with_memory(2 << 30));
    check("2gib", SimulatedSpec::with_memory(2 << 30));
    check("1e6B", SimulatedSpec::with_memory(1_000_000));
}

#[test]
fn options_set_what_they_name() {
    check(
        "2GB,copy=10GB/s,rows=5e6/s,launch=20us,slow=10,faults=launch:3=fail|alloc:2=oom",
        SimulatedSpec {
            memory_bytes: 2 << 30,
            copy_bytes_per_second: 1e10,
            rows_per_second: 5e6,
            launch_seconds: 20.0 * 1e-6,
            compile_seconds: 0.0,
            slow_down: 10.0,
            faults: "launch:3=fail|alloc:2=oom".parse().unwrap(),
        },
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let cases = [
        ("", SpecError::Size(String::new())),
        ("lots", SpecError::Size("lots".to_owned())),
        ("0", SpecError::Size("0".to_owned())),
        ("-1GB", SpecError::Size("-1GB".to_owned())),
        ("infGB", SpecError::Size("infGB".to_owned())),
        ("1GB,copy=25GB", SpecError::Rate("25GB".to_owned())),
        ("1GB,rows=0/s", SpecError::Rate("0/s".to_owned())),
        ("1GB,launch=soon", SpecError::Duration("soon".to_owned())),
        ("1GB,slow=nan", SpecError::SlowDown("nan".to_owned())),
        ("1GB,speed=9", SpecError::Option("speed=9".to_owned())),
        ("1GB,", SpecError::Option(String::new())),
        ("1GB,faults=x", SpecError::Fault("x".to_owned())),
    ];
    for (text, expect) in cases {
        assert_eq!(text.parse::<SimulatedSpec>(), Err(expect), "{text}");
    }
}

#[test]
fn modelled_times_add_up_and_slow_down() {
    let mut spec = SimulatedSpec {
        copy_bytes_per_second: 1000.0,
        rows_per_second: 100.0,
        launch_seconds: 0.5,
        ..SimulatedSpec::with_memory(1)
    };
    let cost = Cost {
        copy_bytes: 2000,
        rows: 300,
    };
    assert_eq!(spec.launch_time(cost), Duration::from_millis(5500));
    assert_eq!(spec.copy_time(2000), Duration::from_secs(2));
    spec.slow_down = 2.0;
    assert_eq!(spec.launch_time(cost), Duration::from_secs(11));
}

#[test]
fn odd_rates_neither_hang_nor_panic() {
    let cost = Cost {
        copy_bytes: u64::MAX,
        rows: u64::MAX,
    };
    let spec = |rate: f64, launch_seconds: f64| SimulatedSpec {
        copy_bytes_per_second: rate,
        rows_per_second: rate,
        launch_seconds,
        ..SimulatedSpec::with_memory(1)
    };
    assert_eq!(spec(0.0, 0.0).launch_time(cost), Duration::ZERO);
    assert_eq!(spec(f64::NAN, f64::NAN).launch_time(cost), Duration::ZERO);
    assert_eq!(spec(-1.0, -1.0).launch_time(cost), Duration::ZERO);
    assert_eq!(spec(1e-300, 0.0).launch_time(cost), LAUNCH_TIME_MAX);
}
