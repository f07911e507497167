//! Damaged files stop neither the engine nor its process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_sql_tests::corpus::{self, Limits, Outcome, damage};
use tidegate_sql_tests::faults::Failure;

fn read(files: &[PathBuf]) -> Result<Outcome, Failure> {
    let limits = Limits {
        files_per_child: 40,
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    let outcome = corpus::run(Path::new(env!("CARGO_BIN_EXE_corpus")), files, &limits)?;
    let findings: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(outcome)
}

#[test]
fn good_files_are_read() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let files = damage::write_good(folder.path())?;
    assert_eq!(read(&files)?.answered, files.len());
    Ok(())
}

/// Reads damaged files of the seed `TIDEGATE_CORPUS_SEED`, or 1.
#[test]
fn damaged_files_are_refused_or_read() -> Result<(), Failure> {
    let seed = std::env::var("TIDEGATE_CORPUS_SEED").map_or(Ok(1), |seed| seed.parse())?;
    let folder = tempfile::tempdir()?;
    let files = damage::write_damaged(folder.path(), seed)?;
    assert!(files.len() >= 300, "{} files", files.len());
    let outcome = read(&files)?;
    assert!(
        outcome.refused >= 100,
        "{} files are refused",
        outcome.refused
    );
    Ok(())
}

#[test]
fn a_process_that_ends_is_found() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let files = damage::write_good(folder.path())?;
    let limits = Limits {
        address_space: 64 << 20,
        ..Limits::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_corpus"));
    let outcome = corpus::run(program, &files[..2], &limits)?;
    let found: Vec<&str> = outcome
        .findings
        .iter()
        .map(|found| found.what.as_str())
        .collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found
            .iter()
            .all(|what| what.starts_with("the process ended")),
        "{found:?}"
    );
    Ok(())
}
