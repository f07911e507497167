//! Twenty queries at once that want half as much memory again as there is: each finishes, or fails
//! alone with the top consumers named, and the process lives. Prints how each ended and what the
//! process took at the most.
//!
//! `cargo run --release -p tidegate --example pressure -- 4096` is the full size, with a limit in MB;
//! without an argument the limit is 64 MB.

#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use tidegate::{ErrorKind, Session};
use tokio::sync::Barrier;

const QUERIES: u64 = 20;

/// Rows of the queries that show what a row takes.
const SAMPLE_ROWS: u64 = 200_000;

/// Writes the query of a number over so many rows: one that can spill (a group-by, a sort) or one
/// that cannot (a join).
fn query(number: u64, num_rows: u64) -> String {
    let series = format!("generate_series(1, {num_rows})");
    match number % 3 {
        0 => format!("SELECT count(*) FROM (SELECT v, count(*) FROM {series} AS t(v) GROUP BY v)"),
        1 => format!(
            "SELECT count(*) FROM (SELECT v, row_number() OVER (ORDER BY md5(cast(v AS varchar))) \
             AS r FROM {series} AS t(v)) WHERE r > 0"
        ),
        _ => format!(
            "SELECT count(*) FROM {series} AS a(v) JOIN {series} AS b(v) ON a.v * 3 = b.v * 3"
        ),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 64,
    };
    let limit = megabytes << 20;
    let num_rows = SAMPLE_ROWS * (limit * 3 / 2) / sampled_bytes(limit).await?;
    let session = Session::builder().memory_limit(limit).build()?;
    let together = Arc::new(Barrier::new(QUERIES as usize));
    let began = Instant::now();
    let running: Vec<_> = (0..QUERIES)
        .map(|number| {
            let (session, together) = (session.clone(), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait().await;
                let ended = session.collect(&query(number, num_rows)).await;
                (ended, began.elapsed())
            })
        })
        .collect();
    let (mut finished, mut failed) = (0, 0);
    for (number, running) in running.into_iter().enumerate() {
        let (ended, took) = running.await?;
        let seconds = took.as_secs_f64();
        match ended {
            Ok(_) => {
                finished += 1;
                println!("query {number}: finished after {seconds:.1} s");
            }
            Err(error) if error.kind() == ErrorKind::ResourcesExhausted => {
                failed += 1;
                println!("query {number}: failed alone after {seconds:.1} s: {error}");
            }
            Err(other) => return Err(other.into()),
        }
    }
    let wanted: u64 = session
        .reports()
        .iter()
        .map(|report| report.peak_bytes)
        .sum();
    println!(
        "{finished} finished and {failed} failed, of a limit of {megabytes} MB; their peaks sum up to \
         {} MB, and the process took {} MB at the most",
        wanted >> 20,
        peak_megabytes().map_or("?".into(), |peak| peak.to_string()),
    );
    // Whatever failed, the session goes on.
    session.collect("SELECT 1").await?;
    Ok(())
}

/// Returns what all queries want together over the sample's rows, each run alone.
async fn sampled_bytes(limit: u64) -> Result<u64, Box<dyn Error>> {
    let session = Session::builder()
        .memory_limit(limit.max(1 << 30))
        .build()?;
    let mut bytes = 0;
    for number in 0..QUERIES {
        session.collect(&query(number, SAMPLE_ROWS)).await?;
        bytes += session.last_report().map_or(0, |report| report.peak_bytes);
    }
    Ok(bytes.max(1))
}

/// Returns the most resident memory that the process ever had, where the system tells it.
fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes >> 10)
}
