//! How a run's groups become records when there are many.
//!
//! While groups take in several rows each, they are kept as before, and leave as records whenever they
//! outgrow a cache. Where they do not, each row becomes a record of its own.

use std::sync::Arc;

use tidegate_pipeline::RowProgram;
use tidegate_pipeline::program::Groups;

use super::super::block::BLOCK;
use super::super::declined::Declined;
use super::finder::{Finder, hash_all};
use super::keys::{KeyPlan, Keys};
use super::records::{Partition, RECORD_WORDS_MAX, Records};
use super::shared::SharedStrings;
use super::states::States;
use super::taken::Taken;
use crate::strings::Dictionary;

/// So many groups outgrow the second level of cache.
const GROUPS_MAX: usize = 1 << 15;

/// With fewer rows for each group, groups are not worth being kept.
const ROWS_PER_GROUP_MIN: usize = 2;

/// Returns whether rows as records are better than groups that have taken in so many.
pub(in super::super) fn are_rows_better(rows: usize, groups: usize) -> bool {
    rows < groups.saturating_mul(ROWS_PER_GROUP_MIN)
}

/// The records of a run.
#[derive(Debug)]
pub(in super::super) struct Recorder {
    plan: KeyPlan,
    shared: Arc<SharedStrings>,
    /// The shared code of each of a key's strings in the run.
    codes: Vec<Vec<u32>>,
    /// Bytes by which the run made shared strings grow.
    shared_bytes: usize,
    records: Records,
    /// Each row becomes a record.
    takes_rows: bool,
    /// One line for each row of a block.
    rows: States,
    /// The lines of a block's rows.
    lines: Vec<u32>,
    /// The words of groups' keys, column by column.
    words: Vec<Vec<u64>>,
    hashes: Vec<u64>,
    /// The records of a block.
    block: Vec<u64>,
    state_words: usize,
}

/// Returns how many words records of such groups have; `None` if they cannot be records.
pub(in super::super) fn record_width(plan: &KeyPlan, states: &States) -> Option<usize> {
    let width = plan.num_words + states.record_words()?;
    (width <= RECORD_WORDS_MAX).then_some(width)
}

impl Recorder {
    /// Starts without records; `None` if the groups cannot be records.
    pub(in super::super) fn new(
        program: &RowProgram,
        groups: &Groups,
        plan: &KeyPlan,
        shared: &Arc<SharedStrings>,
        takes_rows: bool,
    ) -> Option<Self> {
        let rows = States::single(program, groups);
        let width = record_width(plan, &rows)?;
        Some(Self {
            state_words: width - plan.num_words,
            plan: plan.clone(),
            shared: Arc::clone(shared),
            codes: vec![Vec::new(); groups.keys.len()],
            shared_bytes: 0,
            records: Records::new(width),
            takes_rows,
            rows,
            lines: (1..).take(BLOCK).collect(),
            words: vec![Vec::new(); plan.num_words],
            hashes: Vec::new(),
            block: Vec::new(),
        })
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        let codes: usize = self.codes.iter().map(Vec::capacity).sum();
        let words: usize = self.words.iter().map(Vec::capacity).sum();
        let of_block = (words + self.hashes.capacity() + self.block.capacity()) * 8;
        let own = codes * 4 + of_block + self.rows.memory_bytes() + self.lines.capacity() * 4;
        self.records.memory_bytes() + self.shared_bytes + own
    }

    /// Returns whether each row becomes a record.
    pub(in super::super) fn takes_rows(&self) -> bool {
        self.takes_rows
    }

    /// Makes records of so many rows' groups if they have outgrown a cache, and decides how it goes on.
    ///
    /// # Errors
    /// They cannot be records. Nothing has changed then.
    pub(in super::super) fn fit(
        &mut self,
        finder: &mut Finder,
        states: &mut States,
        strings: &[Dictionary],
        rows: &mut usize,
    ) -> Result<(), Declined> {
        let num_groups = finder.num_groups();
        if self.takes_rows || num_groups < GROUPS_MAX {
            return Ok(());
        }
        self.record_groups(finder, states, strings)?;
        self.takes_rows = are_rows_better(*rows, num_groups);
        *rows = 0;
        Ok(())
    }

    /// Makes records of all groups, which are then forgotten.
    ///
    /// # Errors
    /// They cannot be records. Nothing has changed then.
    pub(in super::super) fn record_groups(
        &mut self,
        finder: &mut Finder,
        states: &mut States,
        strings: &[Dictionary],
    ) -> Result<(), Declined> {
        states.settle();
        if !states.fits_records() {
            return Err(Declined::TooLarge);
        }
        self.shared_bytes += self.shared.translate(strings, &mut self.codes)?;
        let num_groups = finder.num_groups();
        for from in (0..num_groups).step_by(BLOCK) {
            let groups = from..num_groups.min(from + BLOCK);
            let width = self.plan.num_words;
            for (column, words) in self.words.iter_mut().enumerate() {
                words.clear();
                let of_groups = finder.words_of(groups.clone()).chunks_exact(width);
                words.extend(of_groups.map(|group| group[column]));
            }
            self.plan.recode(&self.codes, &mut self.words);
            let to = start_records(
                &self.words,
                self.state_words,
                &mut self.hashes,
                &mut self.block,
            );
            states.write_records(groups, to, &mut self.block);
            self.records.push(&self.hashes, &self.block);
        }
        finder.restart();
        states.restart();
        Ok(())
    }

    /// Makes a record of each row.
    ///
    /// # Errors
    /// They cannot be records. Nothing has changed then.
    pub(in super::super) fn record_rows<'s, 'a: 's>(
        &mut self,
        finder: &mut Finder,
        keys: Keys<'_>,
        strings: &[Dictionary],
        taken: &impl Fn(usize) -> Result<Taken<'s, 'a>, Declined>,
        count: usize,
    ) -> Result<(), Declined> {
        self.shared_bytes += self.shared.translate(strings, &mut self.codes)?;
        let words = finder.words_of_rows(keys, count)?;
        self.plan.recode(&self.codes, words);
        self.rows.start_lines(count);
        self.rows.take_in_lines(&self.lines[..count], taken)?;
        let to = start_records(words, self.state_words, &mut self.hashes, &mut self.block);
        self.rows.write_records(0..count, to, &mut self.block);
        self.records.push(&self.hashes, &self.block);
        Ok(())
    }

    /// Returns all records, by partition.
    pub(in super::super) fn finish(self) -> Vec<Partition> {
        self.records.finish()
    }
}

/// Hashes words, and starts records with them; returns the width of a record and where its state begins.
fn start_records(
    words: &[Vec<u64>],
    state_words: usize,
    hashes: &mut Vec<u64>,
    records: &mut Vec<u64>,
) -> (usize, usize) {
    hash_all(words, hashes);
    let width = words.len() + state_words;
    records.resize(hashes.len() * width, 0);
    for (column, words) in words.iter().enumerate() {
        let records = records.chunks_exact_mut(width).zip(words);
        records.for_each(|(record, word)| record[column] = *word);
    }
    (width, words.len())
}
