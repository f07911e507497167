//! The examples run, and check their own answers.

use std::process::Command;

/// Runs an example that was built beside this test; returns what it printed.
fn run(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let output = Command::new(&example)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dataframe() {
    let printed = run("dataframe");
    assert!(
        printed.contains("group by id1: sum(cast(v1 as Int64)), avg(v3)"),
        "{printed}"
    );
}

#[test]
fn web_service() {
    let printed = run("web_service");
    assert!(printed.contains("HTTP/1.1 200 OK"), "{printed}");
}

#[test]
fn own_session_state() {
    let printed = run("own_session_state");
    assert!(
        printed.contains("atomic on device 0 (simulated device, not a GPU)"),
        "{printed}"
    );
}

#[test]
fn pressure() {
    let printed = run("pressure");
    let count = |text| printed.matches(text).count();
    let (finished, failed) = (count(": finished after "), count(": failed alone after "));
    assert!(finished > 0, "{printed}");
    assert_eq!(finished + failed, 20, "{printed}");
    assert!(count("with top memory consumers") >= failed, "{printed}");
    let ended = format!("{finished} finished and {failed} failed, of a limit of 64 MB;");
    assert!(printed.contains(&ended), "{printed}");
}

#[test]
fn walkthroughs() {
    let printed = run("walkthrough");
    for wanted in [
        "== chunked-array",
        "== table-in-partitions",
        "ten calls and their total: 55",
        "== devices",
        "| the post, one GPU, 500000 × 500000 | 97 |",
        "the same rows each time",
        "at once: 1 of the tasks that need the device",
    ] {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
}
