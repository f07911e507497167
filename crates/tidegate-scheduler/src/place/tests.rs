//! The placement function on single decisions; `simulation` tests what follows from many.

use tidegate_device::DeviceId;

use super::finish::{DeviceState, Outlook, Rest, Worker, takes};
use super::form::{RegionForm, RegionOutlook, choose_form};
use super::{Place, PlacementPattern, Reason};
use crate::queue::MorselSize;
use crate::rates::DeviceRate;

const ROWS: u64 = 1000;

fn size() -> MorselSize {
    MorselSize {
        num_rows: ROWS,
        num_bytes: 8 * ROWS,
    }
}

fn rest(num_morsels: u64) -> Rest {
    Rest {
        num_morsels,
        num_rows: num_morsels * ROWS,
        num_bytes: num_morsels * 8 * ROWS,
    }
}

/// A device that takes so many seconds for a morsel.
fn device(id: u32, seconds: f64) -> DeviceState {
    DeviceState {
        id: DeviceId(id),
        free_in: 0.0,
        rate: DeviceRate {
            load_seconds_per_row: 0.0,
            transfer_seconds_per_byte: 0.0,
            pinned_seconds_per_byte: 0.0,
            kernel_seconds_per_row: seconds / ROWS as f64,
            launch_seconds: 0.0,
            doubt: 1.0,
        },
        late: None,
        resident: false,
        returns: 0.0,
        limit_bytes: u64::MAX,
    }
}

/// An idle host that takes a second for a morsel on each partition.
fn outlook(num_morsels: u64, partitions: usize, devices: Vec<DeviceState>) -> Outlook {
    Outlook {
        rest: rest(num_morsels),
        host_free_in: vec![0.0; partitions],
        host_seconds_per_row: 1.0 / ROWS as f64,
        devices,
    }
}

#[test]
fn a_device_takes_what_it_finishes_before_the_host_is_done_with_all() {
    let takes = |waiting, partitions, seconds| {
        outlook(waiting, partitions, vec![device(0, seconds)])
            .decide(DeviceId(0), size())
            .takes
    };
    assert!(takes(10, 1, 9.9));
    assert!(!takes(10, 1, 10.1));
    assert!(takes(10, 4, 2.9), "three rounds of four partitions");
    assert!(!takes(10, 4, 3.1));
    assert!(takes(1, 4, 1.0), "a tie is taken");
    assert!(!takes(1, 4, 1.1));
}

#[test]
fn other_devices_count() {
    let two = vec![device(0, 5.0), device(1, 0.1)];
    let alone = outlook(40, 1, vec![device(0, 5.0)]);
    assert!(alone.decide(DeviceId(0), size()).takes);
    let beside = outlook(40, 1, two);
    let decision = beside.decide(DeviceId(0), size());
    assert!(!decision.takes);
    assert_eq!(decision.place, Place::Device(DeviceId(1)));
    assert!(beside.decide(DeviceId(1), size()).takes);
}

#[test]
fn what_is_resident_moves_nothing_and_what_can_never_fit_is_left() {
    let mut state = device(0, 0.1);
    state.rate.transfer_seconds_per_byte = 1.0;
    let far = outlook(10, 1, vec![state]).decide(DeviceId(0), size());
    assert!(!far.takes);
    state.resident = true;
    let near = outlook(10, 1, vec![state]).decide(DeviceId(0), size());
    assert_eq!((near.takes, near.reason), (true, Reason::Resident));
    assert_eq!(near.estimate.bytes, 0);
    let mut small = device(0, 0.1);
    small.limit_bytes = 10;
    let decision = outlook(10, 1, vec![small]).decide(DeviceId(0), size());
    assert_eq!(
        (decision.takes, decision.reason),
        (false, Reason::DeviceMemory)
    );
}

#[test]
fn rows_that_return_and_doubt_are_charged() {
    let mut state = device(0, 1.0);
    state.returns = 9.5;
    assert!(
        !outlook(10, 1, vec![state])
            .decide(DeviceId(0), size())
            .takes
    );
    let mut state = device(0, 3.0);
    assert!(
        outlook(10, 1, vec![state])
            .decide(DeviceId(0), size())
            .takes
    );
    state.rate.doubt = 4.0;
    assert!(
        !outlook(10, 1, vec![state])
            .decide(DeviceId(0), size())
            .takes
    );
}

#[test]
fn the_host_claims_half_of_its_share_and_leaves_all_to_devices_that_are_done_first() {
    let run = |waiting, partitions, devices: Vec<DeviceState>| {
        outlook(waiting, partitions, devices).host_run(0, u64::MAX)
    };
    assert_eq!(run(100, 1, vec![]), 50);
    assert_eq!(run(100, 4, vec![]), 13);
    assert_eq!(run(100, 1, vec![device(0, 1.0)]), 25);
    assert_eq!(run(110, 1, vec![device(0, 0.1)]), 5);
    assert_eq!(run(9, 1, vec![device(0, 0.1)]), 0);
    assert_eq!(run(10, 1, vec![device(0, 0.1)]), 1, "a tie is taken");
    assert_eq!(outlook(100, 1, vec![]).host_run(0, 7), 7);
}

#[test]
fn whoever_is_done_first_takes() {
    for seconds in [0.01, 0.3, 1.0, 2.0, 30.0] {
        for waiting in 1..40 {
            for partitions in [1, 2, 7] {
                let outlook = outlook(waiting, partitions, vec![device(0, seconds)]);
                let host = outlook.host_run(0, 1) > 0;
                let device = outlook.decide(DeviceId(0), size()).takes;
                assert!(host || device, "{seconds} {waiting} {partitions}");
            }
        }
    }
}

#[test]
fn a_worker_that_is_busy_does_less() {
    let busy = Worker {
        free_in: 2.0,
        per_morsel: 1.0,
    };
    assert!(takes(4.5, 3, [busy]));
    assert!(!takes(4.5, 2, [busy]));
    assert!(takes(2.0, 1, [busy]));
}

fn region(groups: u64, device: DeviceState) -> RegionOutlook {
    RegionOutlook {
        scan: MorselSize {
            num_rows: 100_000_000,
            num_bytes: 1_600_000_000,
        },
        num_morsels: 100,
        groups,
        group_bytes: 32,
        answer_rows: 10,
        host_partitions: 16,
        host_seconds_per_row: 5e-8,
        device,
        last: None,
    }
}

fn gpu(resident: bool) -> DeviceState {
    DeviceState {
        rate: DeviceRate {
            load_seconds_per_row: 5e-9,
            transfer_seconds_per_byte: 2e-11,
            pinned_seconds_per_byte: 2e-11,
            kernel_seconds_per_row: 1e-11,
            launch_seconds: 1e-5,
            doubt: 1.0,
        },
        late: None,
        resident,
        ..device(0, 0.0)
    }
}

#[test]
fn few_groups_over_moved_data_mix_and_many_groups_or_resident_data_do_not() {
    let form = |groups, resident| choose_form(&region(groups, gpu(resident))).form;
    assert_eq!(form(4, false), RegionForm::Additive);
    assert_eq!(form(50_000_000, false), RegionForm::Atomic);
    assert_eq!(form(50_000_000, true), RegionForm::Atomic);
    assert_eq!(form(1_000_000, true), RegionForm::Atomic);
    let mut small = gpu(true);
    small.limit_bytes = 1 << 20;
    let kept = choose_form(&region(50_000_000, small)).form;
    assert_eq!(kept, RegionForm::Additive, "the groups do not fit");
}

#[test]
fn a_region_keeps_its_form_unless_the_other_is_much_better() {
    let at = |groups, last| {
        let outlook = RegionOutlook {
            last,
            ..region(groups, gpu(false))
        };
        choose_form(&outlook).form
    };
    let turns = |last| {
        let mut groups = 1;
        while at(groups, last) == RegionForm::Additive && groups < 1 << 30 {
            groups += groups / 16 + 1;
        }
        groups
    };
    let (fresh, to_atomic, to_additive) = (
        turns(None),
        turns(Some(RegionForm::Additive)),
        turns(Some(RegionForm::Atomic)),
    );
    assert!(
        to_additive < fresh && fresh < to_atomic,
        "{to_additive} {fresh} {to_atomic}"
    );
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
