//! Files that may be damaged, read by processes that may die.
//!
//! [`run`] starts children of its own program. A child ([`child`]) gets files, reads each by `SELECT *` and
//! `SELECT count(*)` on the host and on the simulated device, and says on its output when it begins and
//! ends with one: a child that aborts, or does not end in time, leaves no doubt about its file, and
//! the next one goes on behind it. [`damage`] writes files of every format and encoding and damages
//! them by a seed.
//!
//! A finding is an abort, a timeout, a panic or "internal error" in a message, rows that host and
//! device do not share, rows that are counted and not read, and memory beyond the limit.

pub mod child;
pub mod damage;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What children may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of address space of a child.
    pub address_space: u64,
    /// Bytes of a session's memory limit.
    pub memory: u64,
    /// How long a child may take for a file.
    pub time: Duration,
    /// Files that one child reads.
    pub files_per_child: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            address_space: 8 << 30,
            memory: 512 << 20,
            time: Duration::from_secs(20),
            files_per_child: 1,
        }
    }
}

/// What is wrong with how a file was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

/// What all children found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Files that were read to an answer.
    pub answered: usize,
    /// Files that were refused.
    pub refused: usize,
    /// The most memory of a child while it read one file, in bytes.
    pub peak: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Lists the files of a folder and the folders in it, sorted.
///
/// # Errors
/// A folder cannot be read.
pub fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_of(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

/// Reads files in children that run `program`, which hands its words to [`child::main`].
///
/// # Errors
/// A child cannot be started.
pub fn run(program: &Path, files: &[PathBuf], limits: &Limits) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut waiting: VecDeque<PathBuf> = files.iter().cloned().collect();
    while !waiting.is_empty() {
        let many = limits.files_per_child.max(1).min(waiting.len());
        let batch: Vec<PathBuf> = waiting.drain(..many).collect();
        let read = run_child(program, &batch, limits, &mut outcome)?;
        for unread in batch.into_iter().skip(read).rev() {
            waiting.push_front(unread);
        }
    }
    Ok(outcome)
}

/// Runs one child; returns how many of the files are done.
fn run_child(
    program: &Path,
    files: &[PathBuf],
    limits: &Limits,
    outcome: &mut Outcome,
) -> io::Result<usize> {
    let mut child = start(program, files, limits)?;
    let lines = lines_of(&mut child)?;
    let mut done = 0;
    let mut find = |done: usize, what: String| {
        if let Some(file) = files.get(done) {
            let file = file.clone();
            outcome.findings.push(Finding { file, what });
        }
    };
    let ended = loop {
        match lines.recv_timeout(limits.time) {
            Ok(line) => match line.split_once(' ') {
                Some(("find", what)) => find(done, what.to_string()),
                Some(("end", counts)) => {
                    let mut words = counts.split(' ');
                    match words.next() {
                        Some("answered") => outcome.answered += 1,
                        _ => outcome.refused += 1,
                    }
                    let peak = words.next().and_then(|peak| peak.parse().ok());
                    let peak: u64 = peak.unwrap_or(0);
                    outcome.peak = outcome.peak.max(peak);
                    if peak > limits.memory + limits.memory / 2 {
                        find(done, format!("took {} MB of memory", peak >> 20));
                    }
                    done += 1;
                }
                _ => {}
            },
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => break false,
        }
    };
    if !ended {
        child.kill()?;
    }
    let status = child.wait()?;
    if done < files.len() {
        let what = match ended {
            true => format!("the process ended: {status}"),
            false => format!("not done after {} s", limits.time.as_secs()),
        };
        find(done, what);
        done += 1;
    }
    Ok(done)
}

fn start(program: &Path, files: &[PathBuf], limits: &Limits) -> io::Result<Child> {
    // The shell sets the limit, since that takes no unsafe code.
    Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit -v {}; exec \"$0\" \"$@\"",
            limits.address_space >> 10
        ))
        .arg(program)
        .arg(child::WORD)
        .arg(limits.memory.to_string())
        .args(files)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

fn lines_of(child: &mut Child) -> io::Result<Receiver<String>> {
    let output = child.stdout.take();
    let output = output.ok_or_else(|| io::Error::other("the child has no output"))?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(lines)
}
