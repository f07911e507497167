//! What a timed query gives: its rows in an order that is always the same, and its time.

use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;

use crate::Failure;

/// Returns the rows as lines of text, sorted.
///
/// # Errors
/// Fails if a value cannot be shown.
pub fn sorted_lines(rows: &[RecordBatch]) -> Result<Vec<String>, Failure> {
    let table = pretty_format_batches(rows)?.to_string();
    let mut lines: Vec<String> = table.lines().map(str::to_string).collect();
    lines.sort();
    Ok(lines)
}

/// Runs a query; returns how many milliseconds it took, and its rows.
///
/// # Errors
/// Fails if the query does.
pub async fn timed<E: Into<Failure>>(
    run: impl Future<Output = Result<Vec<RecordBatch>, E>>,
) -> Result<(f64, Vec<RecordBatch>), Failure> {
    let started = Instant::now();
    let rows = run.await.map_err(Into::into)?;
    Ok((started.elapsed().as_secs_f64() * 1e3, rows))
}

/// Returns the middle of the values, NaN if there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
