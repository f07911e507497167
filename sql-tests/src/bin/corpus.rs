//! Reads every file of a folder, and says which of them stop the engine: `corpus FOLDER [FILE …]`.
//!
//! Each file is read by a process of its own, with 8 GB of address space, a memory limit of 512 MB and 20 s.
//! `--damaged SEED` instead of a folder writes damaged files into a temporary folder and reads those.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidegate_sql_tests::corpus::{self, Limits, child, damage};
use tidegate_sql_tests::faults::Failure;

/// How the command is used.
const USAGE: &str = "\
Reads every file of a folder, and says which of them stop the engine.

usage: corpus FOLDER [FILE …]
       corpus --damaged SEED    writes damaged files into a temporary folder and reads those

The exit status is 1 if there are findings, and 2 if the command is used wrongly.";

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut words = std::env::args().skip(1);
    let first = words.next().unwrap_or_default();
    match first.as_str() {
        child::WORD => {
            child::main(words).await?;
            return Ok(ExitCode::SUCCESS);
        }
        "--help" | "-h" => {
            writeln!(io::stdout(), "{USAGE}")?;
            return Ok(ExitCode::SUCCESS);
        }
        "--damaged" => {}
        option if option.is_empty() || option.starts_with('-') => {
            writeln!(io::stderr(), "{USAGE}")?;
            return Ok(ExitCode::from(2));
        }
        _ => {}
    }
    let scratch = tempfile::tempdir()?;
    let files = match first.as_str() {
        "--damaged" => {
            let seed = words.next().ok_or("say which seed")?.parse()?;
            damage::write_damaged(scratch.path(), seed)?
        }
        _ => list(std::iter::once(first).chain(words))?,
    };
    let program = std::env::current_exe()?;
    let outcome = corpus::run(&program, &files, &Limits::default())?;
    let mut out = io::stdout().lock();
    for finding in &outcome.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(
        out,
        "{} files: {} answered, {} refused, {} findings; at most {} MB of memory",
        files.len(),
        outcome.answered,
        outcome.refused,
        outcome.findings.len(),
        outcome.peak >> 20
    )?;
    if !outcome.findings.is_empty() {
        let _ = scratch.keep();
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn list(paths: impl Iterator<Item = String>) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let path = Path::new(&path);
        match path.is_dir() {
            true => files.extend(corpus::files_of(path)?),
            false => files.push(path.to_path_buf()),
        }
    }
    Ok(files)
}
