//! What an execution's program reads: its slots, and what is known of their values so far.

use std::sync::Arc;

use parking_lot::RwLockReadGuard;
use tidegate_device::DeviceError;
use tidegate_pipeline::{ExprKind, Scalar};

use super::lookup::{LookupTable, column_of};
use super::ranks::RankTable;
use super::{not_as_stored, refused, unfit};
use crate::backend::RunError;
use crate::engine::{Machine, ResidentChunk, ResidentColumn, Segments};
use crate::load::Intake;
use crate::program::{DeviceProgram, Interval, Slot, SlotFacts, SlotKind, declared_facts};
use crate::stored::{ColumnDictionary, StoredRun};
use crate::strings::Dictionary;

/// The slots of a program, with what was learnt of them.
pub(super) struct Inputs<B> {
    pub(super) slots: Vec<Slot>,
    facts: Vec<Option<SlotFacts>>,
    pub(super) dictionaries: Vec<Arc<ColumnDictionary>>,
    /// The values of slots that are looked up by the codes of stored columns.
    tables: Vec<Option<LookupTable<B>>>,
    /// The order of slots' strings, where a program asked for it.
    ranks: Vec<Option<RankTable<B>>>,
}

/// A column that lies on the device.
#[derive(Clone, Copy)]
pub(super) struct ColumnView<'a> {
    pub(super) column: ResidentColumn,
    pub(super) facts: &'a SlotFacts,
    /// The dictionary of its codes, if it holds strings.
    pub(super) dictionary: Option<&'a Arc<ColumnDictionary>>,
}

impl<B> Inputs<B> {
    pub(super) fn of(program: &DeviceProgram) -> Self {
        let slots: Vec<Slot> = program.slots.iter().map(|(slot, _)| slot.clone()).collect();
        Self {
            facts: vec![None; slots.len()],
            dictionaries: slots.iter().map(|_| ColumnDictionary::new()).collect(),
            tables: slots.iter().map(|_| None).collect(),
            ranks: slots.iter().map(|_| None).collect(),
            slots,
        }
    }

    /// Returns what is known of a slot.
    pub(super) fn facts_of(&self, slot: &Slot) -> SlotFacts {
        let position = self.slots.iter().position(|known| known == slot);
        let facts = position.and_then(|position| self.facts[position].clone());
        facts.unwrap_or_else(|| declared_facts(slot))
    }

    /// Fills in where a program looks values up.
    pub(super) fn fill_lookups<M: Machine<Buffer = B>>(
        &self,
        machine: &M,
        program: &mut DeviceProgram,
    ) {
        for (slot, literal) in &program.lookups {
            if let Some(Some(table)) = self.tables.get(*slot) {
                program.literals[*literal..literal + 3].copy_from_slice(&table.literals(machine));
            }
        }
    }

    /// Fills in where a program finds the order of strings, of which the device gets a copy when the
    /// dictionary has grown: at another place, so that no launch takes one order for another.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; a lost device.
    pub(super) fn fill_ranks<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        program: &mut DeviceProgram,
    ) -> Result<(), DeviceError> {
        for (slot, literal) in &program.ranks {
            let dictionary = &self.dictionaries[*slot];
            let known = self.ranks[*slot].as_ref();
            if !known.is_some_and(|known| known.is_of(dictionary)) {
                let made = RankTable::new(machine, dictionary)?;
                self.ranks[*slot] = Some(made);
            }
            if let Some(table) = &self.ranks[*slot] {
                program.literals[*literal] = table.address(machine);
            }
        }
        Ok(())
    }

    /// Returns what of batches is encoded.
    pub(super) fn intake(&self, parameters: &[Scalar]) -> Intake {
        Intake {
            slots: self.slots.clone(),
            parameters: parameters.to_vec(),
            dictionaries: self.dictionaries.clone(),
        }
    }

    /// Takes columns of the device for the slots, and learns what is known of them. `rows` are those
    /// of each chunk; `view` gives a chunk's input column.
    pub(super) fn adopt<'a, M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        parameters: &[Scalar],
        rows: &[u64],
        view: impl Fn(usize, usize) -> Result<ColumnView<'a>, RunError>,
    ) -> Result<Vec<ResidentChunk>, RunError> {
        let mut chunks: Vec<ResidentChunk> = rows
            .iter()
            .map(|rows| ResidentChunk {
                num_rows: *rows,
                columns: Vec::with_capacity(self.slots.len()),
            })
            .collect();
        for index in 0..self.slots.len() {
            let slot = self.slots[index].clone();
            let column = column_of(&slot.expr).map_err(|why| not_as_stored(machine, why))?;
            let mut known = self.facts[index].take();
            let range_before = known.as_ref().map(|known| known.range);
            let mut dictionary: Option<&Arc<ColumnDictionary>> = None;
            for (position, chunk) in chunks.iter_mut().enumerate() {
                let stored = view(position, column)?;
                let is_computed = !matches!(slot.expr.kind, ExprKind::Column(_));
                if is_computed && stored.dictionary.is_none() {
                    let why = "an expression that the host evaluates, over a stored column";
                    return Err(not_as_stored(machine, why));
                }
                chunk.columns.push(stored.column);
                known = Some(match known.take() {
                    Some(known) => known.join(stored.facts),
                    None => stored.facts.clone(),
                });
                if let (Some(of_run), Some(of_chunk)) = (dictionary, stored.dictionary)
                    && !Arc::ptr_eq(of_run, of_chunk)
                {
                    let why = "chunks with codes of several dictionaries";
                    return Err(refused(machine, why));
                }
                dictionary = dictionary.or(stored.dictionary);
            }
            if let (Some(before), Some(known)) = (range_before, &mut known)
                && before != known.range
            {
                // It grows from fold to fold: a rounded range does so less often.
                let limit = Interval::of_type(&slot.expr.data_type).unwrap_or(Interval::ALL);
                known.round(limit);
            }
            self.facts[index] = known;
            if let Some(dictionary) = dictionary {
                self.take_dictionary(machine, parameters, index, dictionary)?;
            }
        }
        Ok(chunks)
    }

    /// Takes the columns of a run for the slots, and learns what is known of them.
    pub(super) fn adopt_run<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        parameters: &[Scalar],
        run: &StoredRun,
    ) -> Result<(), RunError> {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let column = column_of(&slot.expr).map_err(|why| not_as_stored(machine, why))?;
            let column = run.column(column).map_err(|why| unfit(machine, why))?;
            let is_computed = !matches!(slot.expr.kind, ExprKind::Column(_));
            if is_computed && column.dictionary.is_none() {
                let why = "an expression that the host evaluates, over a stored column";
                return Err(not_as_stored(machine, why));
            }
            self.facts[index] = Some(match self.facts[index].take() {
                None => column.facts.clone(),
                Some(before) => {
                    let mut known = before.join(&column.facts);
                    if known.range != before.range {
                        // It grows from fold to fold: a rounded range does so less often.
                        let limit =
                            Interval::of_type(&slot.expr.data_type).unwrap_or(Interval::ALL);
                        known.round(limit);
                    }
                    known
                }
            });
            if let Some(dictionary) = &column.dictionary {
                self.take_dictionary(machine, parameters, index, dictionary)?;
            }
        }
        Ok(())
    }

    /// Returns a run's segments for a program.
    pub(super) fn segments_of<M: Machine>(
        &self,
        machine: &M,
        program: &DeviceProgram,
        run: &StoredRun,
    ) -> Result<Arc<Segments>, RunError> {
        let columns = self.slots.iter().map(|slot| column_of(&slot.expr));
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|why| not_as_stored(machine, why))?;
        let segments = run.segments(program, &columns);
        segments.map_err(|why| unfit(machine, why))
    }

    /// Makes a slot's codes those of a stored column.
    fn take_dictionary<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        parameters: &[Scalar],
        index: usize,
        dictionary: &Arc<ColumnDictionary>,
    ) -> Result<(), RunError> {
        let slot = &self.slots[index];
        if matches!(slot.expr.kind, ExprKind::Column(_)) {
            let own = &self.dictionaries[index];
            if !Arc::ptr_eq(own, dictionary) {
                if own.num_values() > 0 {
                    let why = "loaded and stored codes of one column";
                    return Err(refused(machine, why));
                }
                self.dictionaries[index] = Arc::clone(dictionary);
            }
            return Ok(());
        }
        let num_values = dictionary.num_values();
        let is_made = self.tables[index].as_ref().is_some_and(|table| {
            table.num_values == num_values && Arc::ptr_eq(&table.dictionary, dictionary)
        });
        if !is_made {
            let strings = &self.dictionaries[index];
            let made = LookupTable::new(machine, slot, parameters, dictionary, strings)?;
            self.tables[index] = Some(made);
        }
        if let (Some(facts), Some(table)) = (&mut self.facts[index], &self.tables[index]) {
            facts.lookup = Some(table.facts);
        }
        Ok(())
    }

    /// Widens what is known of the values by what holds of rows that were encoded as `intake` says.
    ///
    /// # Errors
    /// [`DeviceError::LaunchFailed`] if stored columns with other codes were folded meanwhile.
    pub(super) fn learn<M: Machine>(
        &mut self,
        machine: &M,
        intake: &Intake,
        facts: Vec<SlotFacts>,
    ) -> Result<(), RunError> {
        let own = self.dictionaries.iter().zip(&intake.dictionaries);
        let mut codes = own
            .zip(&self.slots)
            .filter(|(_, slot)| slot.kind == SlotKind::Code);
        if codes.any(|((own, of_rows), _)| !Arc::ptr_eq(own, of_rows)) {
            return Err(refused(machine, "loaded and stored codes of one column"));
        }
        for ((slot, known), mut facts) in self.slots.iter().zip(&mut self.facts).zip(facts) {
            if let Some(mut known) = known.take() {
                // What was looked up by stored codes is here as it is.
                known.lookup = None;
                facts = known.join(&facts);
            }
            if matches!(slot.kind, SlotKind::Integer | SlotKind::Code) {
                let limit = Interval::of_type(&slot.expr.data_type).unwrap_or(Interval::ALL);
                facts.round(limit);
            }
            *known = Some(facts);
        }
        Ok(())
    }
}

/// Locked dictionaries; slots of one column share theirs.
pub(super) struct Strings<'a> {
    locked: Vec<RwLockReadGuard<'a, Dictionary>>,
    of_slot: Vec<usize>,
}

impl<'a> Strings<'a> {
    pub(super) fn of(dictionaries: &'a [Arc<ColumnDictionary>]) -> Self {
        let mut distinct: Vec<&Arc<ColumnDictionary>> = Vec::new();
        let mut of_slot = Vec::with_capacity(dictionaries.len());
        for dictionary in dictionaries {
            let known = distinct
                .iter()
                .position(|known| Arc::ptr_eq(known, dictionary));
            of_slot.push(known.unwrap_or(distinct.len()));
            if known.is_none() {
                distinct.push(dictionary);
            }
        }
        Self {
            locked: distinct.iter().map(|each| each.strings.read()).collect(),
            of_slot,
        }
    }

    pub(super) fn slot(&self, slot: usize) -> &Dictionary {
        &self.locked[self.of_slot[slot]]
    }

    pub(super) fn all(&self) -> Vec<&Dictionary> {
        (0..self.of_slot.len())
            .map(|slot| self.slot(slot))
            .collect()
    }
}
