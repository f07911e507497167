//! The process that reads the files: one line for each thing that the parent must know.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use arrow::record_batch::RecordBatch;
use futures::TryStreamExt;
use tidegate::{ErrorKind, Session, SimulatedSpec};

use crate::faults::Failure;
use crate::format;

/// The word by which a program knows that it is a child.
pub const WORD: &str = "--child";

/// The simulated device's memory.
const DEVICE_BYTES: u64 = 256 << 20;

/// Texts that no message about a file has.
const TELLTALES: [&str; 6] = [
    "panicked",
    "please report",
    "bug in the engine",
    "bug in DataFusion",
    ".cargo/registry",
    ".rs:",
];

/// Reads files: the words are the memory limit and their paths.
///
/// # Errors
/// A session cannot be made, or nothing can be written.
pub async fn main(words: impl Iterator<Item = String>) -> Result<(), Failure> {
    // The parent looks at messages; a decoder's panic is told there.
    std::panic::set_hook(Box::new(|_| ()));
    let mut words = words;
    let memory = words
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(512 << 20);
    let builder = || {
        let builder = Session::builder().visible_devices(Some(String::new()));
        builder
            .file_urls()
            .memory_limit(memory)
            .target_partitions(2)
    };
    let host = builder().build()?;
    let device = builder()
        .simulate_device(SimulatedSpec::with_memory(DEVICE_BYTES))
        .build()?;
    device.set("tidegate.placement", "device").await?;
    for file in words {
        // So that the peak is this file's.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let mut found = Vec::new();
        let answered = read(&host, &device, &file, &mut found).await;
        let mut out = io::stdout().lock();
        for what in found {
            writeln!(out, "find {}", what.replace(['\n', '\r'], " "))?;
        }
        let answered = if answered { "answered" } else { "refused" };
        writeln!(out, "end {answered} {}", peak_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// Reads a file in all ways; returns whether `SELECT *` has an answer.
async fn read(host: &Session, device: &Session, file: &str, found: &mut Vec<String>) -> bool {
    let path = Path::new(file).display().to_string().replace('\'', "''");
    let mut answers = Vec::new();
    for select in ["*", "count(*)"] {
        let sql = format!("SELECT {select} FROM '{path}'");
        let (host, device) = (rows(host, &sql).await, rows(device, &sql).await);
        for answer in [&host, &device] {
            if let Err((kind, message)) = answer {
                let telltale = TELLTALES.iter().any(|text| message.contains(text));
                if *kind == ErrorKind::Internal || telltale {
                    found.push(format!("{select}: {kind:?}: {message}"));
                }
            }
        }
        match (&host, &device) {
            (Ok(host), Ok(device)) if host != device => {
                let (host, device) = (host.len(), device.len());
                found.push(format!(
                    "{select}: host has {host} rows, device {device}, or others"
                ));
            }
            (Ok(_), Err((_, message))) => {
                found.push(format!("{select}: only the host has an answer: {message}"));
            }
            (Err((_, message)), Ok(_)) => {
                found.push(format!(
                    "{select}: only the device has an answer: {message}"
                ));
            }
            _ => {}
        }
        answers.push(host.ok());
    }
    if let [Some(rows), Some(count)] = answers.as_slice() {
        let count = count.first().cloned().unwrap_or_default();
        if rows.is_empty() && count != "0" {
            found.push(format!("0 rows are read, and {count} are counted"));
        }
    }
    matches!(answers.first(), Some(Some(_)))
}

/// Returns the rows of a query, sorted, each as one text.
async fn rows(session: &Session, sql: &str) -> Result<Vec<String>, (ErrorKind, String)> {
    let failed = |error: tidegate::Error| (error.kind(), error.to_string());
    let answer = session.execute(sql).await.map_err(failed)?;
    let batches: Vec<RecordBatch> = answer
        .try_collect()
        .await
        .map_err(|error| failed(error.into()))?;
    let unshown = |error: arrow::error::ArrowError| (ErrorKind::Sql, error.to_string());
    let rows = format::rows(&batches).map_err(unshown)?;
    let mut rows: Vec<String> = rows.into_iter().map(|row| row.join("\u{1f}")).collect();
    rows.sort_unstable();
    Ok(rows)
}

/// Returns the most memory that the process has had since the peak was reset; 0 if that is not known.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}
