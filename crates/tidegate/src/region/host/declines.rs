//! Why rows went otherwise than by pages and the engine, as EXPLAIN ANALYZE shows it.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

/// What went otherwise than by pages and the engine, by reason.
#[derive(Debug, Default)]
pub(super) struct Declines {
    /// How many rows went to DataFusion's operators.
    rows: Mutex<BTreeMap<String, usize>>,
    /// How often the scan's source read rows, and no pages.
    not_as_pages: Mutex<BTreeMap<String, usize>>,
}

impl Declines {
    /// Notes rows that went to DataFusion's operators.
    pub(super) fn add(&self, reason: &str, rows: usize) {
        count(&self.rows, reason, rows);
    }

    /// Notes that rows are read by the scan's source.
    pub(super) fn not_as_pages(&self, reason: &str) {
        count(&self.not_as_pages, reason, 1);
    }
}

fn count(counts: &Mutex<BTreeMap<String, usize>>, reason: &str, more: usize) {
    let mut counts = counts.lock();
    match counts.get_mut(reason) {
        Some(known) => *known += more,
        None => {
            counts.insert(reason.to_string(), more);
        }
    }
}

impl fmt::Display for Declines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_counts(f, "declined", &self.rows, "rows")?;
        write_counts(f, "not_as_pages", &self.not_as_pages, "times")
    }
}

fn write_counts(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    counts: &Mutex<BTreeMap<String, usize>>,
    unit: &str,
) -> fmt::Result {
    let counts = counts.lock();
    if counts.is_empty() {
        return Ok(());
    }
    let counts = counts.iter();
    let counts: Vec<String> = counts
        .map(|(reason, count)| format!("{reason}: {count} {unit}"))
        .collect();
    write!(f, ", {name}=[{}]", counts.join("; "))
}
