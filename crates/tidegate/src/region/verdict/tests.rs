//! Shares and reasons are told in one line.

use tidegate_scheduler::PlaceReport;

use super::verdict;
use crate::region::report::RegionReport;

fn region(places: &[(&str, u64, &str)]) -> RegionReport {
    let place = |(name, rows, why): &(&str, u64, &str)| PlaceReport {
        reasons: vec![(why.to_string(), 1)],
        ..PlaceReport::new(name.to_string(), 1, *rows, 0, 0.0)
    };
    RegionReport {
        form: "additive".into(),
        program: None,
        program_json: None,
        reasons: Vec::new(),
        host_engine_refusals: Vec::new(),
        devices: Vec::new(),
        float_sums: None,
        plan_seconds: 0.0,
        places: places.iter().map(place).collect(),
        recorded: None,
        place_stats: Vec::new(),
    }
}

#[test]
fn shares_and_reasons_are_told_in_one_line() {
    let host = |rows| ("host", rows, "earliest finish");
    let device = |rows| ("simulated:0", rows, "resident");
    assert_eq!(
        verdict(&[region(&[host(980), device(20)])]),
        "98 % of the rows ran on the host, 2 % on simulated:0: a device was estimated to finish later"
    );
    assert_eq!(
        verdict(&[region(&[host(1)]), region(&[device(999)])]),
        "more than 99 % of the rows ran on simulated:0, less than 1 % on the host: resident"
    );
    let none = (
        "host",
        7,
        "no device: looked for the driver (libcuda.so): not found",
    );
    assert_eq!(
        verdict(&[region(&[none])]),
        "all rows ran on the host: no device"
    );
    assert!(verdict(&[]).starts_with("all of it ran on the host"));
}
