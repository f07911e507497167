//! Which rows of a row group are read, block by block.

use std::ops::Range;

use tidegate_kernels::host::BLOCK;

/// Rows that follow each other in a block, and how many are passed over before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) gap: usize,
    pub(crate) rows: usize,
}

/// A cursor over ranges of rows.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Ascending, disjoint, none empty; the last comes first.
    ranges: Vec<Range<usize>>,
    /// The row behind the last one that was taken.
    at: usize,
    num_rows: usize,
}

impl Selection {
    /// Begins with all of the rows, or with ranges of them.
    ///
    /// # Errors
    /// The ranges are not in order, or not in the row group.
    pub(crate) fn new(num_rows: usize, ranges: Option<&[Range<usize>]>) -> Result<Self, String> {
        let all = 0..num_rows;
        let ranges = ranges.unwrap_or(std::slice::from_ref(&all));
        let mut end = 0;
        for range in ranges {
            if range.start < end || range.end < range.start || range.end > num_rows {
                let (start, to) = (range.start, range.end);
                return Err(format!(
                    "rows {start} to {to} do not follow row {end} of {num_rows}"
                ));
            }
            end = range.end;
        }
        let ranges: Vec<_> = ranges
            .iter()
            .filter(|range| !range.is_empty())
            .cloned()
            .collect();
        let num_rows = ranges.iter().map(Range::len).sum();
        Ok(Self {
            ranges: ranges.into_iter().rev().collect(),
            at: 0,
            num_rows,
        })
    }

    /// Returns the rows that were selected at first.
    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns the rows that were not taken yet.
    pub(crate) fn left(&self) -> Vec<Range<usize>> {
        self.ranges.iter().rev().cloned().collect()
    }

    /// Takes the rows of the next block; returns how many they are.
    pub(crate) fn next_block(&mut self, stretches: &mut Vec<Stretch>) -> usize {
        stretches.clear();
        let mut rows = 0;
        while rows < BLOCK
            && let Some(range) = self.ranges.last_mut()
        {
            let taken = range.len().min(BLOCK - rows);
            let stretch = Stretch {
                gap: range.start - self.at,
                rows: taken,
            };
            range.start += taken;
            self.at = range.start;
            if range.start == range.end {
                self.ranges.pop();
            }
            rows += taken;
            // What touches is one.
            match stretches.last_mut() {
                Some(last) if stretch.gap == 0 => last.rows += taken,
                _ => stretches.push(stretch),
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests;
