//! Causes are told once.

use std::io;

use tidegate::{Error, ErrorKind};

use super::Failure;

#[test]
fn causes_are_told_once() {
    let missing = || io::Error::other("no such file");
    let check = |message: &str, expect: &str| {
        let error = Error::with_source(ErrorKind::Io, message, missing());
        assert_eq!(Failure::Query(error).to_string(), expect);
    };
    check("cannot read a.csv", "cannot read a.csv: no such file");
    check(
        "cannot read a.csv: no such file",
        "cannot read a.csv: no such file",
    );
    check("no such", "no such");
    let labelled = io::Error::other("parser: expected x");
    let error = Error::with_source(ErrorKind::Sql, "expected x", labelled);
    assert_eq!(Failure::Query(error).to_string(), "expected x");
}

#[test]
fn defects_ask_for_a_report() {
    let failure = Failure::Query(Error::new(ErrorKind::Internal, "a\n  b"));
    assert_eq!(failure.to_string(), "internal error: a b; please report it");
}

#[test]
fn a_closed_pipe_is_no_error_of_output() {
    let closed = Failure::output(io::ErrorKind::BrokenPipe.into());
    assert!(matches!(closed, Failure::OutputClosed));
    assert!(matches!(
        Failure::output(io::Error::other("full")),
        Failure::Output(_)
    ));
}
