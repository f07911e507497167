//! What the partitions of a scan take from where no run shares it out: files, and what was opened of them.
//!
//! A partition that finds nothing opened opens a file; what it finds is for all of them. Meanwhile others
//! open other files, or wait. Whoever stops before a file is open gives it back.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetAccessPlan;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::share::Unit;

/// How long a partition waits for files that others open.
const OPENING_MAX: Duration = Duration::from_secs(2);

/// The files and units of a scan.
#[derive(Default)]
pub(super) struct Units {
    left: Mutex<Left>,
    /// Something was opened, or given back.
    changed: Notify,
}

#[derive(Default)]
struct Left {
    /// Files that nobody has opened, each with the parts of it that are read.
    files: VecDeque<Vec<PartitionedFile>>,
    /// What was opened and not taken.
    open: VecDeque<Unit>,
    /// What was opened is in the order that was asked for.
    is_ordered: bool,
    /// Files that are being opened.
    num_opening: usize,
}

/// What a partition does next.
pub(super) enum Turn<'a> {
    /// It takes a unit.
    Take(Unit),
    /// It opens a file.
    Open(Opening<'a>),
    /// Nothing is left.
    End,
}

/// A file that one partition opens.
pub(super) struct Opening<'a> {
    units: &'a Units,
    parts: Vec<PartitionedFile>,
}

impl Units {
    /// Begins with files that nobody has opened.
    pub(super) fn new(files: impl Iterator<Item = PartitionedFile>) -> Self {
        Self {
            left: Mutex::new(Left {
                files: by_file(files),
                ..Left::default()
            }),
            changed: Notify::new(),
        }
    }

    /// Orders what was opened, unless that was done since the last file was opened. Units with the greater keys
    /// are taken first, those without one last; equal ones stay as they lie in their files.
    pub(super) fn order<K: PartialOrd>(&self, key: impl Fn(&Unit) -> Option<K>) {
        let mut left = self.left.lock();
        if left.is_ordered || left.open.is_empty() {
            return;
        }
        left.is_ordered = true;
        let open = std::mem::take(&mut left.open);
        let mut keyed: Vec<(Option<K>, Unit)> =
            open.into_iter().map(|unit| (key(&unit), unit)).collect();
        keyed.sort_by(|(one, _), (other, _)| other.partial_cmp(one).unwrap_or(Ordering::Equal));
        left.open = keyed.into_iter().map(|(_, unit)| unit).collect();
    }

    /// Returns what a partition does next, once there is something.
    pub(super) async fn turn(&self) -> Turn<'_> {
        loop {
            // It is woken by what happens from here on.
            let changed = self.changed.notified();
            if let Some(turn) = self.turn_now() {
                return turn;
            }
            // Whoever opens a file may not be polled while this one is: then it is left with what it finds.
            if tokio::time::timeout(OPENING_MAX, changed).await.is_err() {
                return Turn::End;
            }
        }
    }

    fn turn_now(&self) -> Option<Turn<'_>> {
        let mut left = self.left.lock();
        if let Some(unit) = left.open.pop_front() {
            return Some(Turn::Take(unit));
        }
        if let Some(parts) = left.files.pop_front() {
            left.num_opening += 1;
            return Some(Turn::Open(Opening { units: self, parts }));
        }
        (left.num_opening == 0).then_some(Turn::End)
    }
}

/// Puts disjoint ranges of one file together: it is opened once for all of them. A file that a scan lists twice is read
/// twice.
fn by_file(files: impl Iterator<Item = PartitionedFile>) -> VecDeque<Vec<PartitionedFile>> {
    let mut all: VecDeque<Vec<PartitionedFile>> = VecDeque::new();
    let mut last_of: HashMap<Path, usize> = HashMap::new();
    for file in files {
        let is_part = file.range.is_some() && file.extension::<ParquetAccessPlan>().is_none();
        if !is_part {
            all.push_back(vec![file]);
            continue;
        }
        let path = &file.object_meta.location;
        let parts = last_of.get(path).and_then(|index| all.get_mut(*index));
        match parts.filter(|parts| !parts.iter().any(|part| overlap(part, &file))) {
            Some(parts) => parts.push(file),
            None => {
                last_of.insert(path.clone(), all.len());
                all.push_back(vec![file]);
            }
        }
    }
    all
}

/// Returns whether two parts of a file have bytes in common.
fn overlap(one: &PartitionedFile, other: &PartitionedFile) -> bool {
    match (&one.range, &other.range) {
        (Some(one), Some(other)) => one.start < other.end && other.start < one.end,
        _ => true,
    }
}

impl Opening<'_> {
    /// Returns the parts of the file that are read.
    pub(super) fn parts(&self) -> &[PartitionedFile] {
        &self.parts
    }

    /// Leaves what was opened to whoever asks next.
    pub(super) fn done(mut self, opened: VecDeque<Unit>) {
        self.parts.clear();
        let mut left = self.units.left.lock();
        left.open.extend(opened);
        left.is_ordered = false;
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut left = self.units.left.lock();
        if !self.parts.is_empty() {
            left.files.push_back(std::mem::take(&mut self.parts));
        }
        left.num_opening -= 1;
        drop(left);
        self.units.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use datafusion_datasource::PartitionedFile;

    use super::by_file;

    #[test]
    fn a_file_that_is_listed_twice_is_read_twice() {
        let part = |path: &str, start, end| PartitionedFile::new(path, 100).with_range(start, end);
        let whole = PartitionedFile::new("a", 100);
        let files = [
            part("a", 0, 50),
            part("b", 0, 60),
            part("a", 50, 100),
            part("a", 0, 50),
            part("b", 60, 100),
            part("a", 50, 100),
            whole.clone(),
            whole,
        ];
        let opened = by_file(files.into_iter());
        let described = opened.iter().map(|parts| {
            let ranges = parts.iter().map(|part| part.range.as_ref());
            let ranges = ranges.map(|range| range.map_or((0, 0), |range| (range.start, range.end)));
            (parts[0].path().as_ref(), ranges.collect::<Vec<_>>())
        });
        let expected = [
            ("a", vec![(0, 50), (50, 100)]),
            ("b", vec![(0, 60), (60, 100)]),
            ("a", vec![(0, 50), (50, 100)]),
            ("a", vec![(0, 0)]),
            ("a", vec![(0, 0)]),
        ];
        assert_eq!(described.collect::<Vec<_>>(), expected);
    }
}
