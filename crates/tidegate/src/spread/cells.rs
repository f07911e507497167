//! Shares of files by parts that one executor reads whole, and reads again in the next statement: the row
//! groups of Parquet files whose footers are known, and files that cannot be cut.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_datasource::{FileRange, PartitionedFile};

use super::leaves::runs;
use super::readers::{Reader, UNITS_MAX, Unit, assigned};
use crate::files::footers::known_footer;
use crate::leaf::parquet::first_page;

/// A part of a file.
#[derive(Clone, Debug)]
struct Cell {
    /// Its place among the partitions of the scan.
    group: usize,
    file: PartitionedFile,
    start: i64,
    end: i64,
}

impl Cell {
    fn size(&self) -> u64 {
        (self.end - self.start).max(1) as u64
    }

    fn unit(&self) -> Unit {
        let mut hasher = DefaultHasher::new();
        (self.file.path().as_ref(), self.start).hash(&mut hasher);
        Unit {
            key: hasher.finish(),
            size: self.size(),
        }
    }
}

/// What one executor reads: the files of each partition, and their bytes.
pub(super) type Read = (Vec<Vec<PartitionedFile>>, u64);

/// Shares files between readers. `cuts` gives the offsets by which the parts of a file are known, or `None`
/// if they are not, and then there are no shares. A share's files go evenly to as many partitions as there are
/// groups, or to `partitions` if that is more and there are as many parts; with `None` the rows of each
/// group keep their order.
pub(super) fn by_cells(
    groups: &[Vec<PartitionedFile>],
    partitions: Option<usize>,
    readers: &[Reader],
    cuts: impl Fn(&PartitionedFile) -> Option<Vec<i64>>,
) -> Option<Vec<Read>> {
    let cells = cells(groups, partitions.is_none(), cuts)?;
    let evenly = partitions.map(|count| vec![1; count.min(cells.len()).max(groups.len())]);
    let units: Vec<Unit> = cells.iter().map(Cell::unit).collect();
    let taken = assigned(&units, readers);
    let read = |reader| {
        let own = cells.iter().zip(&taken).filter(|(_, by)| **by == reader);
        let own: Vec<Cell> = own.map(|(cell, _)| cell.clone()).collect();
        let size = own.iter().map(Cell::size).sum();
        let of_group = |group| own.iter().filter(move |cell| cell.group == group);
        let partitions = match &evenly {
            None => (0..groups.len())
                .map(|group| joined(of_group(group)))
                .collect(),
            Some(evenly) => {
                let sizes: Vec<u64> = own.iter().map(Cell::size).collect();
                let runs = runs(&sizes, evenly).into_iter();
                runs.map(|run| joined(own.get(run).unwrap_or_default().iter()))
                    .collect()
            }
        };
        (partitions, size)
    };
    Some((0..readers.len()).map(read).collect())
}

/// Cuts files into their parts, small neighbours together.
fn cells(
    groups: &[Vec<PartitionedFile>],
    in_order: bool,
    cuts: impl Fn(&PartitionedFile) -> Option<Vec<i64>>,
) -> Option<Vec<Cell>> {
    let groups = groups.iter().enumerate();
    let pieces = groups.flat_map(|(group, files)| files.iter().map(move |file| piece(group, file)));
    let mut pieces: Vec<Cell> = pieces.collect();
    if !in_order {
        // Pieces of a file, which went to partitions in turn, are neighbours again.
        pieces.sort_by(|a, b| (a.file.path(), a.start).cmp(&(b.file.path(), b.start)));
        pieces = neighbours(pieces.iter());
    }
    let bytes: u64 = pieces.iter().map(Cell::size).sum();
    let least = (bytes / UNITS_MAX as u64) as i64;
    let mut cells = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let mut starts = cuts(&piece.file)?;
        starts.retain(|start| (piece.start..piece.end).contains(start));
        starts.sort_unstable();
        let mut start = piece.start;
        // What lies before its first part belongs to it.
        for &next in starts.iter().skip(1) {
            if next - start >= least.max(1) {
                cells.push(Cell {
                    start,
                    end: next,
                    ..piece.clone()
                });
                start = next;
            }
        }
        cells.push(Cell { start, ..piece });
    }
    Some(cells)
}

fn piece(group: usize, file: &PartitionedFile) -> Cell {
    let (start, end) = match &file.range {
        Some(range) => (range.start, range.end),
        None => (0, file.object_meta.size as i64),
    };
    let file = file.clone();
    Cell {
        group,
        file,
        start,
        end,
    }
}

/// Joins cells of a file that lie next to each other.
fn neighbours<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Cell> {
    let mut joined: Vec<Cell> = Vec::new();
    for cell in cells {
        match joined.last_mut() {
            Some(last) if last.file.path() == cell.file.path() && last.end == cell.start => {
                last.end = cell.end;
            }
            _ => joined.push(cell.clone()),
        }
    }
    joined
}

/// Writes cells as files of a scan.
fn joined<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<PartitionedFile> {
    let file = |cell: Cell| {
        let Cell {
            mut file,
            start,
            end,
            ..
        } = cell;
        // What is not cut is read as a whole.
        let is_whole = start == 0 && end == file.object_meta.size as i64;
        file.range = (!is_whole).then_some(FileRange { start, end });
        file
    };
    neighbours(cells).into_iter().map(file).collect()
}

/// Returns where the row groups of a Parquet file begin, if planning has read its footer.
pub(super) fn row_groups(file: &PartitionedFile, environment: &RuntimeEnv) -> Option<Vec<i64>> {
    let footer = known_footer(file, environment)?;
    let row_groups = footer.row_groups().iter();
    let row_groups = row_groups.filter(|row_group| row_group.num_columns() > 0);
    Some(row_groups.map(first_page).collect())
}

#[cfg(test)]
mod tests;
