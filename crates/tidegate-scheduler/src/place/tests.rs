//! The placement function, by simulation with a virtual clock.

use super::{Forecast, PlacementPattern, device_takes};

/// Drains `num_morsels` by a host and a device with these seconds per morsel; returns when the last
/// is done.
fn drain(num_morsels: usize, host_seconds: f64, device_seconds: f64) -> f64 {
    let (mut left, mut host_free, mut device_free) = (num_morsels, 0.0_f64, 0.0_f64);
    let mut device_stopped = false;
    while left > 0 {
        if device_free <= host_free && !device_stopped {
            let forecast = Forecast {
                device_backlog: 0.0,
                transfer: 0.0,
                kernel: device_seconds,
                host_rest: left as f64 * host_seconds + (host_free - device_free),
            };
            if device_takes(&forecast) {
                device_free += device_seconds;
                left -= 1;
            } else {
                device_stopped = true;
            }
        } else {
            host_free += host_seconds;
            left -= 1;
        }
    }
    host_free.max(device_free)
}

#[test]
fn mixed_is_never_much_slower_than_the_better_place_alone() {
    for (host, device) in [
        (1.0, 1.0),
        (1.0, 0.1),
        (1.0, 10.0),
        (1.0, 100.0),
        (1.0, 3.0),
    ] {
        for num_morsels in [50, 100, 1000] {
            let mixed = drain(num_morsels, host, device);
            let alone = num_morsels as f64 * f64::min(host, device);
            assert!(
                mixed <= alone * 1.1,
                "{num_morsels} morsels, host {host}, device {device}: {mixed} against {alone}"
            );
        }
    }
}

#[test]
fn with_few_morsels_mixed_is_within_one_morsel_of_the_better_place() {
    for num_morsels in 1..50 {
        for device in [0.1, 1.0, 5.0, 20.0] {
            let mixed = drain(num_morsels, 1.0, device);
            let alone = num_morsels as f64 * f64::min(1.0, device);
            assert!(
                mixed <= alone + f64::max(1.0, device),
                "{num_morsels} {device}: {mixed}"
            );
        }
    }
}

#[test]
fn a_pattern_repeats_and_prints_as_written() {
    let pattern: PlacementPattern = "hdd".parse().unwrap();
    let placed: Vec<bool> = (0..5).map(|number| pattern.on_device(number)).collect();
    assert_eq!(placed, [false, true, true, false, true]);
    assert_eq!(pattern.to_string(), "HDD");
    assert!("".parse::<PlacementPattern>().is_err());
    assert!("HX".parse::<PlacementPattern>().unwrap_err().contains("HX"));
}
