//! Reads every file of a folder, and says which of them stop the engine: `corpus FOLDER [FILE …]`.
//!
//! Each file is read by a process of its own, with 8 GB of address space, a memory limit of 512 MB and 20 s.
//! `--damaged SEED` instead of a folder writes damaged files into a temporary folder and reads those.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidegate_sql_tests::corpus::{self, Limits, child, damage};
use tidegate_sql_tests::faults::Failure;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut words = std::env::args().skip(1);
    let first = words
        .next()
        .ok_or("say which folder: corpus FOLDER, or corpus --damaged SEED")?;
    if first == child::WORD {
        child::main(words).await?;
        return Ok(ExitCode::SUCCESS);
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
