//! A plan reads back as it prints.

use super::{Fault, FaultPlan, Faults, Operation};
use crate::simulated::SpecError;

#[test]
fn a_plan_reads_back_as_it_prints() {
    let text = "launch:3=fail|launch:5=lost|alloc:2=oom|copy:4=fail|event:7=fail";
    let plan: FaultPlan = text.parse().unwrap();
    assert_eq!(plan.to_string(), text);
    assert_eq!(
        plan.faults(),
        [
            Fault::LaunchFails { launch: 3 },
            Fault::DeviceLost { launch: 5 },
            Fault::ReservationFails { reservation: 2 },
            Fault::CopyFails { copy: 4 },
            Fault::EventFails { event: 7 },
        ]
    );
    assert_eq!("".parse(), Ok(FaultPlan::default()));
    assert_eq!(FaultPlan::default().to_string(), "");
}

#[test]
fn faults_meet_their_count_only() {
    use Operation::{Copy, Event, Launch, Reservation};
    let text = "launch:3=fail | alloc:2=oom | copy:3=fail | event:9=fail | launch:3=lost";
    let plan: FaultPlan = text.parse().unwrap();
    let met = |operation| -> Vec<(u64, Fault)> {
        let counts = (1..=10).map(|count| (count, plan.at(operation, count)));
        counts
            .filter_map(|(count, fault)| Some((count, fault?)))
            .collect()
    };
    // Of several for one operation the first counts.
    assert_eq!(met(Launch), [(3, Fault::LaunchFails { launch: 3 })]);
    assert_eq!(
        met(Reservation),
        [(2, Fault::ReservationFails { reservation: 2 })]
    );
    assert_eq!(met(Copy), [(3, Fault::CopyFails { copy: 3 })]);
    assert_eq!(met(Event), [(9, Fault::EventFails { event: 9 })]);
}

#[test]
fn operations_count_from_the_plan_on() {
    let faults = Faults::default();
    for _ in 0..3 {
        assert_eq!(faults.meet(Operation::Copy), None);
    }
    for round in 1..=2 {
        faults.plan("copy:2=fail|launch:1=lost".parse().unwrap());
        let copies = [(); 4].map(|()| faults.meet(Operation::Copy));
        assert_eq!(
            copies,
            [None, Some(Fault::CopyFails { copy: 2 }), None, None]
        );
        assert_eq!(faults.met(), 2 * round - 1);
        let lost = Fault::DeviceLost { launch: 1 };
        assert_eq!(faults.meet(Operation::Launch), Some(lost));
    }
    faults.plan(FaultPlan::default());
    assert_eq!(faults.meet(Operation::Launch), None);
    assert_eq!(faults.met(), 4);
}

#[test]
fn an_unreadable_fault_is_named() {
    for text in [
        "launch",
        "launch:0=fail",
        "launch:x=fail",
        "alloc:1=lost",
        "copy:1=lost",
    ] {
        let error = text.parse::<FaultPlan>().unwrap_err();
        assert_eq!(error, SpecError::Fault(text.to_owned()));
        assert!(error.to_string().contains(text), "{error}");
    }
}
