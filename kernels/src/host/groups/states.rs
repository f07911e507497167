//! The state of all groups, and how values become it.

use std::ops::Range;

use tidegate_pipeline::RowProgram;
use tidegate_pipeline::program::Groups;

use super::super::declined::Declined;
use super::layout::{Kind, Layout, Pass, PassKind, Place, Presence, WordMerge};
use super::lines::{COLUMNS_MAX, Lines};
use super::results::Results;
use super::taken::{Taken, floats_of, integers_of};
use super::words::{Target, each_row};

/// How many copies of its words a group has while there are few: one for each of as many rows in turn, so
/// that a row does not wait for what the one before it has written.
const COPIES: usize = 4;

/// The most groups that have copies.
const COPIED_GROUPS_MAX: usize = 64;

/// The state of all groups: the words of a group lie side by side, in a line for each copy. The first lines
/// belong to no group and take in the rows that are not selected.
#[derive(Clone, Debug)]
pub(in super::super) struct States {
    layout: Layout,
    words: Vec<u64>,
    num_groups: usize,
    /// Lines of a group: 1 or [`COPIES`].
    copies: usize,
    /// Groups never have copies.
    is_single: bool,
    /// Totals of partial sums, by accumulator and group.
    totals: Vec<Vec<i128>>,
    texts: Vec<Vec<Option<Box<str>>>>,
    text_bytes: usize,
    /// How many rows partial sums may have taken in.
    rows: usize,
    scratch: Scratch,
}

/// Columns of a pass whose rows do not all count, or that are of another lane.
#[derive(Clone, Debug, Default)]
struct Scratch {
    integers: [Vec<i64>; COLUMNS_MAX],
    floats: [Vec<f64>; COLUMNS_MAX],
}

impl States {
    pub(in super::super) fn new(program: &RowProgram, groups: &Groups) -> Self {
        let layout = Layout::new(program, groups);
        let mut states = Self {
            words: Vec::new(),
            num_groups: 0,
            copies: 1,
            is_single: false,
            totals: vec![Vec::new(); layout.num_totals],
            texts: vec![Vec::new(); layout.num_texts],
            text_bytes: 0,
            rows: 0,
            scratch: Scratch::default(),
            layout,
        };
        states.clear();
        states
    }

    /// The same for groups without copies: the line of a group is its number.
    pub(in super::super) fn single(program: &RowProgram, groups: &Groups) -> Self {
        let mut states = Self::new(program, groups);
        states.is_single = true;
        states.restart();
        states
    }

    /// Forgets all groups, and keeps their memory for others. There are no strings among the states.
    pub(in super::super) fn restart(&mut self) {
        self.words.clear();
        self.num_groups = 0;
        self.copies = match self.layout.merges {
            Some(_) if !self.is_single => COPIES,
            _ => 1,
        };
        self.totals.iter_mut().for_each(Vec::clear);
        self.rows = 0;
    }

    /// Forgets all groups.
    pub(in super::super) fn clear(&mut self) {
        self.words = Vec::new();
        self.restart();
        self.totals
            .iter_mut()
            .for_each(|totals| *totals = Vec::new());
        self.texts.iter_mut().for_each(|texts| *texts = Vec::new());
        self.text_bytes = 0;
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        let totals: usize = self.totals.iter().map(Vec::capacity).sum();
        let texts: usize = self.texts.iter().map(Vec::capacity).sum();
        (self.words.capacity() + totals * 2 + texts * 2) * 8 + self.text_bytes
    }

    /// Gives new groups their state.
    pub(in super::super) fn fit(&mut self, num_groups: usize) {
        if num_groups > COPIED_GROUPS_MAX {
            self.merge_copies();
        }
        let start = &self.layout.start;
        let wanted = (num_groups + 1) * self.copies * start.len();
        self.words.reserve(wanted.saturating_sub(self.words.len()));
        while self.words.len() < wanted {
            self.words.extend_from_slice(start);
        }
        self.totals
            .iter_mut()
            .for_each(|totals| totals.resize(num_groups, 0));
        self.texts
            .iter_mut()
            .for_each(|texts| texts.resize(num_groups, None));
        self.num_groups = num_groups;
    }

    /// Makes one line of the copies of each group.
    fn merge_copies(&mut self) {
        let copies = std::mem::replace(&mut self.copies, 1);
        let (Some(merges), true) = (&self.layout.merges, copies > 1) else {
            return;
        };
        let width = merges.len();
        let mut lines = Vec::with_capacity(self.words.len() / copies);
        for group in self.words.chunks_exact(copies * width) {
            let (first, others) = group.split_at(width);
            let at = lines.len();
            lines.extend_from_slice(first);
            for line in others.chunks_exact(width) {
                let words = lines[at..].iter_mut().zip(line).zip(merges);
                words.for_each(|((word, other), merge)| *word = merge.of(*word, *other));
            }
        }
        self.words = lines;
    }

    /// Makes room for so many rows in partial sums.
    pub(in super::super) fn flush_before(&mut self, rows: usize) {
        if self.rows.saturating_add(rows) > self.layout.rows_most {
            self.flush();
        }
        self.rows += rows;
    }

    /// Adds partial sums to their totals.
    pub(in super::super) fn flush(&mut self) {
        let lines_of_group = self.layout.start.len() * self.copies;
        for place in &self.layout.places {
            if let Kind::Partial { total } = place.kind {
                let groups = self.words.chunks_exact_mut(lines_of_group).skip(1);
                for (lines, total) in groups.zip(&mut self.totals[total]) {
                    for line in lines.chunks_exact_mut(self.layout.start.len()) {
                        let partial = std::mem::take(&mut line[place.at]);
                        *total = total.wrapping_add(i128::from(partial as i64));
                    }
                }
            }
        }
        self.rows = 0;
    }

    /// Makes each row's group its line. A row of group 0 counts nowhere, the others' groups begin at 1.
    pub(in super::super) fn lines_of(&self, groups: &mut [u32]) {
        if self.copies == 1 {
            return;
        }
        for (row, group) in groups.iter_mut().enumerate() {
            *group = *group * COPIES as u32 + row as u32 % COPIES as u32;
        }
    }

    /// Takes a block's rows into their lines, by all accumulators.
    pub(in super::super) fn take_in_lines<'s, 'a: 's>(
        &mut self,
        lines: &[u32],
        taken: &impl Fn(usize) -> Result<Taken<'s, 'a>, Declined>,
    ) -> Result<(), Declined> {
        let passes = std::mem::take(&mut self.layout.passes);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut done = Ok(());
        for pass in &passes {
            done = done.and_then(|()| self.run(pass, lines, taken, &mut scratch));
        }
        (self.layout.passes, self.scratch) = (passes, scratch);
        done
    }

    fn run<'s, 'a: 's>(
        &mut self,
        pass: &Pass,
        lines: &[u32],
        taken: &impl Fn(usize) -> Result<Taken<'s, 'a>, Declined>,
        scratch: &mut Scratch,
    ) -> Result<(), Declined> {
        let columns = pass.accumulators.iter().map(|index| taken(*index));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if pass.kind == PassKind::Single {
            return self.take_in(pass.accumulators[0], Some(lines), columns[0], lines.len());
        }
        for (index, column) in pass.accumulators.iter().zip(&columns) {
            self.mark_presence(*index, Some(lines), column.rows, lines.len());
        }
        let places = pass.accumulators.iter();
        let places: Vec<Place> = places.map(|index| self.layout.places[*index]).collect();
        let to = Lines {
            words: &mut self.words,
            width: self.layout.start.len(),
            at: pass.at,
            rows: lines,
        };
        let count = lines.len();
        match pass.kind {
            PassKind::Sum { integers } => {
                let (whole, broken) = columns.split_at(integers);
                let whole = whole.iter().zip(&mut scratch.integers);
                let whole = whole.map(|(taken, scratch)| integers_of(*taken, 0, count, scratch));
                let broken = broken.iter().zip(&mut scratch.floats);
                let broken = broken.map(|(taken, scratch)| floats_of(*taken, count, scratch));
                let whole = whole.collect::<Result<Vec<_>, _>>()?;
                to.sum(&whole, &broken.collect::<Result<Vec<_>, _>>()?);
            }
            PassKind::Extreme => {
                let is_greatest = |place: &Place| place.kind == Kind::Extreme64 { greatest: true };
                let greatest: Vec<bool> = places.iter().map(is_greatest).collect();
                let starts = greatest
                    .iter()
                    .map(|greatest| if *greatest { i64::MIN } else { i64::MAX });
                let columns = columns.iter().zip(starts).zip(&mut scratch.integers);
                let columns = columns
                    .map(|((taken, start), scratch)| integers_of(*taken, start, count, scratch));
                to.extremes(&columns.collect::<Result<Vec<_>, _>>()?, &greatest);
            }
            PassKind::Single => {}
        }
        Ok(())
    }

    /// Notes for groups that an accumulator has met a row.
    fn mark_presence(
        &mut self,
        accumulator: usize,
        lines: Option<&[u32]>,
        rows: Option<&[u8]>,
        count: usize,
    ) {
        let Presence::Bit { at, bit } = self.layout.places[accumulator].presence else {
            return;
        };
        let width = self.layout.start.len();
        let first = self.copies;
        each_row(
            &mut self.words,
            (width, at, 1),
            (lines, first),
            count,
            |words, row| {
                let counts = rows.is_none_or(|rows| rows[row] != 0);
                words[0] |= u64::from(counts) << bit;
            },
        );
    }

    /// Takes a block's values of one accumulator into the lines of its rows, or into the first group.
    pub(in super::super) fn take_in(
        &mut self,
        accumulator: usize,
        lines: Option<&[u32]>,
        taken: Taken<'_, '_>,
        count: usize,
    ) -> Result<(), Declined> {
        self.mark_presence(accumulator, lines, taken.rows, count);
        let place = self.layout.places[accumulator];
        if let Kind::ExtremeText { greatest, texts } = place.kind {
            self.take_texts((greatest, texts), lines, taken, count);
            return Ok(());
        }
        let mut target = Target {
            words: &mut self.words,
            width: self.layout.start.len(),
            lines,
            first: self.copies,
            rows: taken.rows,
            count,
        };
        let Some(value) = taken.value else {
            target.count(place.at);
            return Ok(());
        };
        target.values(place, value)
    }

    fn take_texts(
        &mut self,
        (greatest, texts): (bool, usize),
        lines: Option<&[u32]>,
        taken: Taken<'_, '_>,
        count: usize,
    ) {
        let held = &mut self.texts[texts];
        for row in 0..count {
            if taken.rows.is_some_and(|rows| rows[row] == 0) {
                continue;
            }
            // Groups with strings have no copies.
            let Some(group) = lines.map_or(Some(0), |lines| (lines[row] as usize).checked_sub(1))
            else {
                continue;
            };
            let text = taken.texts.get(row);
            let is_beyond = match &held[group] {
                None => true,
                Some(held) if greatest => text.as_bytes() > held.as_bytes(),
                Some(held) => text.as_bytes() < held.as_bytes(),
            };
            if is_beyond {
                self.text_bytes += text.len();
                self.text_bytes -= held[group].as_ref().map_or(0, |held| held.len());
                held[group] = Some(text.into());
            }
        }
    }

    /// Makes state final: all sums are totals, and each group has one line.
    pub(in super::super) fn settle(&mut self) {
        self.flush();
        self.merge_copies();
    }

    /// Returns the results of an accumulator for groups. State has to be settled.
    pub(in super::super) fn results(
        &self,
        accumulator: usize,
        groups: Range<usize>,
    ) -> Vec<Results> {
        let place = self.layout.places[accumulator];
        let width = self.layout.start.len();
        let words = &self.words[(groups.start + 1) * width..(groups.end + 1) * width];
        let totals = match place.kind {
            Kind::Partial { total } => &self.totals[total][groups.clone()],
            _ => &[],
        };
        let texts = match place.kind {
            Kind::ExtremeText { texts, .. } => &self.texts[texts][groups],
            _ => &[],
        };
        Results::of(place, width, words, totals, texts)
    }
}

impl States {
    /// Returns how many words a record has of a group's state; `None` if states cannot be records.
    pub(super) fn record_words(&self) -> Option<usize> {
        let has_texts = self.layout.num_texts > 0;
        (!has_texts).then_some(self.layout.num_words)
    }

    /// Gives so many new groups the state over no rows, and forgets all others.
    pub(super) fn start_lines(&mut self, count: usize) {
        let width = self.layout.start.len();
        if self.num_groups >= count && width > 0 {
            let (first, rest) = self.words.split_at_mut(width);
            for line in rest.chunks_exact_mut(width).take(count) {
                line.copy_from_slice(first);
            }
        } else {
            self.restart();
            self.fit(count);
        }
    }

    /// Returns whether totals are small enough for records.
    pub(super) fn fits_records(&self) -> bool {
        let mut totals = self.totals.iter().flatten();
        totals.all(|total| i64::try_from(*total).is_ok())
    }

    /// Writes the words of groups, which have one line each, into records of `stride` words, from a word on.
    pub(super) fn write_records(
        &self,
        groups: Range<usize>,
        (stride, from): (usize, usize),
        records: &mut [u64],
    ) {
        let width = self.layout.start.len();
        let lines = &self.words[(groups.start + 1) * width..(groups.end + 1) * width];
        for word in 0..self.layout.num_words {
            let lines = lines.chunks_exact(width);
            let records = records.chunks_exact_mut(stride);
            records
                .zip(lines)
                .for_each(|(record, line)| record[from + word] = line[word]);
        }
        for place in &self.layout.places {
            if let Kind::Partial { total } = place.kind {
                let totals = &self.totals[total][groups.clone()];
                let records = records.chunks_exact_mut(stride).zip(totals);
                records.for_each(|(record, total)| {
                    let word = &mut record[from + place.at];
                    *word = word.wrapping_add(*total as u64);
                });
            }
        }
    }

    /// Takes records, of `stride` words with those of a state from one on, into the lines of their groups.
    pub(in super::super) fn merge_records(
        &mut self,
        groups: &[u32],
        (stride, from): (usize, usize),
        records: &[u64],
    ) -> Result<(), Declined> {
        let width = self.layout.start.len();
        for place in &self.layout.places {
            let rows = groups.iter().zip(records.chunks_exact(stride));
            if let Kind::Partial { total } = place.kind {
                let totals = &mut self.totals[total];
                for (group, record) in rows {
                    let total = &mut totals[*group as usize - 1];
                    let word = record[from + place.at] as i64;
                    *total = total.wrapping_add(word.into());
                }
                continue;
            }
            let words = &mut self.words;
            let at = |group: u32| group as usize * width + place.at;
            super::words::merge_all(place.kind, words, at, rows, from + place.at)?;
        }
        for flags in self.layout.flags() {
            for (group, record) in groups.iter().zip(records.chunks_exact(stride)) {
                self.words[*group as usize * width + flags] |= record[from + flags];
            }
        }
        Ok(())
    }
}

impl WordMerge {
    fn of(self, word: u64, other: u64) -> u64 {
        match self {
            Self::Add => word.wrapping_add(other),
            Self::AddFloat => (f64::from_bits(word) + f64::from_bits(other)).to_bits(),
            Self::Least => (word as i64).min(other as i64) as u64,
            Self::Greatest => (word as i64).max(other as i64) as u64,
            Self::Or => word | other,
        }
    }
}
