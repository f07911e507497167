//! What breaks the context is fatal.

use super::{Fault, Severity};
use crate::faults::{Faults, Operation};

fn fault(code: u32) -> Fault {
    let call = "cuStreamSynchronize";
    Fault { call, code }
}

#[test]
fn what_breaks_the_context_is_fatal() {
    for code in [
        4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999,
    ] {
        assert_eq!(fault(code).severity(), Severity::Fatal, "{code}");
    }
    for code in [1, 200, 209, 218, 301, 400, 500, 600, 701, 801] {
        assert_eq!(fault(code).severity(), Severity::Refused, "{code}");
    }
    assert_eq!(fault(2).severity(), Severity::OutOfMemory);
}

#[test]
fn planned_faults_are_of_their_kind() {
    let plan = "launch:2=lost|launch:1=fail|alloc:1=oom|copy:1=fail|event:1=fail";
    let faults = Faults::new(plan.parse().unwrap());
    let met = |operation| {
        let fault = Fault::check(&faults, operation, "cuCall").unwrap_err();
        (fault.severity(), fault.describe())
    };
    let said = "the fault plan says so (cuCall gave 4294967295)".to_owned();
    for operation in [Operation::Launch, Operation::Copy, Operation::Event] {
        assert_eq!(met(operation), (Severity::Refused, said.clone()));
    }
    assert_eq!(met(Operation::Reservation).0, Severity::OutOfMemory);
    assert_eq!(met(Operation::Launch).0, Severity::Fatal);
    assert_eq!(Fault::check(&faults, Operation::Launch, "cuCall"), Ok(()));
}

#[test]
fn a_fault_is_told_in_words() {
    assert_eq!(
        fault(700).describe(),
        "a kernel accessed an invalid memory address (cuStreamSynchronize gave 700)"
    );
    assert_eq!(
        fault(12345).describe(),
        "see CUresult in the CUDA driver API (cuStreamSynchronize gave 12345)"
    );
}
