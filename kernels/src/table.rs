//! A group table on a device: made, folded into, grown, counted, read back.

mod radix;

use std::sync::Arc;

use tidegate_device::{DeviceError, MemoryBudget, Reservation};

use crate::backend::{RunError, Unsuited};
use crate::columns::{self, Slots, ToldBy};
use crate::engine::{
    Engine, FLAGS_BYTES, Flags, Prepared, Segments, bytes_of_words, outcome_of, read_words,
};
use crate::groups::{Groups, TableImage};
use crate::host::Finish;
use crate::program::{
    DeviceProgram, EMPTY_KEY, GroupPlan, HOT_KEYS, LOCAL_ROWS_MAX, NUM_LAUNCH_FIELDS, Presence,
    STATE_ROWS_MAX, Store, launch_words,
};

/// Slots with which a hash table begins.
const HASH_SLOTS_START: u64 = 1 << 18;

/// How much a hash table grows by at least when a key finds no slot.
const GROWTH: u64 = 4;

/// A table of no more bytes is copied to the host with the flags of each launch: a second copy takes
/// longer than so many bytes.
const SMALL_BYTES_MAX: u64 = 32 << 10;

/// Where a part of a small table's buffer may begin.
const PART_ALIGNMENT: u64 = 256;

/// The groups' state of one run.
#[derive(Debug)]
pub struct GroupTable<B> {
    plan: GroupPlan,
    finishes: Arc<[Finish]>,
    literals: Vec<u64>,
    state: B,
    /// A bit for each group, where that tells the group and the table is not small.
    present: Option<B>,
    small: Option<Small>,
    /// A small table's buffer as the last launch left it.
    image: Option<Vec<u8>>,
    num_slots: u64,
    rows: u64,
    /// What is promised for the table, if it is held to a budget.
    memory: Option<Reservation>,
}

/// A table that has all its parts in one buffer: it is made by one filling, and one copy brings the
/// groups and what the launch had to say.
#[derive(Clone, Copy, Debug)]
struct Small {
    /// Where the bits of the groups begin, behind the state.
    present: u64,
    /// Where the flags of a launch begin, behind these.
    flags: u64,
}

impl Small {
    /// Places the parts, if the table is small and its fold is one launch.
    fn of(plan: &GroupPlan, num_slots: u64) -> Option<Self> {
        if plan.store == Store::Hash || plan.radix.is_some() {
            return None;
        }
        let bits = match plan.presence {
            Presence::Bit => present_bytes(num_slots),
            _ => 0,
        };
        let present = state_bytes(plan, num_slots).checked_next_multiple_of(PART_ALIGNMENT)?;
        let flags = (present + bits).next_multiple_of(PART_ALIGNMENT);
        let small = Self { present, flags };
        (small.bytes() <= SMALL_BYTES_MAX).then_some(small)
    }

    fn bytes(&self) -> u64 {
        self.flags + FLAGS_BYTES as u64
    }
}

impl<B: std::fmt::Debug + Send + 'static> GroupTable<B> {
    /// Makes an empty table for the program; `literals` are those of all its launches.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; a lost device.
    pub fn new<E: Engine<Buffer = B>>(
        engine: &E,
        program: &DeviceProgram,
        plan: &GroupPlan,
        slots_hint: Option<u64>,
    ) -> Result<Self, DeviceError> {
        let num_slots = first_slots(plan, slots_hint);
        let small = Small::of(plan, num_slots);
        let (state, present) = match &small {
            Some(small) => {
                let state = engine.alloc(small.bytes())?;
                engine.fill(&state, 0, small.bytes(), 0)?;
                (state, None)
            }
            None => (
                empty_state(engine, program, plan, num_slots)?,
                empty_present(engine, plan, num_slots)?,
            ),
        };
        Ok(Self {
            plan: plan.clone(),
            finishes: Arc::clone(&program.finishes),
            literals: program.literals.clone(),
            state,
            present,
            small,
            image: None,
            num_slots,
            rows: 0,
            memory: None,
        })
    }

    /// Makes an empty table whose memory, also as it grows, is promised by a budget before it is
    /// taken.
    ///
    /// # Errors
    /// As [`GroupTable::new`].
    pub fn within<E: Engine<Buffer = B>>(
        engine: &E,
        program: &DeviceProgram,
        plan: &GroupPlan,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Self, DeviceError> {
        let memory = budget.reserve(first_bytes(plan, first_slots(plan, None)))?;
        let mut table = Self::new(engine, program, plan, None)?;
        table.memory = Some(memory);
        Ok(table)
    }

    /// Returns the table's plan.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// Returns what its groups become, by what is known of all rows that were folded.
    pub fn finishes(&self) -> &Arc<[Finish]> {
        &self.finishes
    }

    /// Returns the literals of the table's launches.
    pub fn literals(&self) -> &[u64] {
        &self.literals
    }

    /// Returns the bytes that the table takes.
    pub fn bytes(&self) -> u64 {
        match self.small {
            Some(small) => small.bytes(),
            None => table_bytes(&self.plan, self.num_slots),
        }
    }

    /// Returns how many slots there are, without the two apart of a hash table.
    pub fn num_slots(&self) -> u64 {
        self.num_slots
    }

    /// Returns how many slots have a place in memory.
    pub(crate) fn num_places(&self) -> u64 {
        self.num_slots + slots_apart(&self.plan)
    }

    /// Counts the groups. The engine is that of [`columns::SOURCE`].
    ///
    /// # Errors
    /// The device's own.
    pub fn count<E: Engine<Buffer = B>>(&self, engine: &E) -> Result<u64, RunError> {
        let told_by = match self.plan.presence {
            Presence::Always => return Ok(1),
            Presence::Word(word) => ToldBy::Word(word as u64),
            Presence::Bit => ToldBy::Bit,
            Presence::Key => ToldBy::Key,
        };
        columns::count_groups(engine, self.slots(engine, told_by))
    }

    /// Returns whether keys of more than 64 bits have met in some group, so that the table is void. The
    /// engine is that of [`columns::SOURCE`].
    ///
    /// # Errors
    /// The device's own.
    pub(crate) fn keys_have_met<E: Engine<Buffer = B>>(
        &self,
        engine: &E,
    ) -> Result<bool, RunError> {
        let Some(wide) = &self.plan.wide else {
            return Ok(false);
        };
        let (_, first) = self.plan.record();
        let first = (first + wide.first) as u64;
        let slots = self.slots(engine, ToldBy::Key);
        let num_pairs = wide.num_words as u64 - 1;
        Ok(columns::count_met(engine, slots, first, num_pairs)? != 0)
    }

    fn slots<E: Engine<Buffer = B>>(&self, engine: &E, told_by: ToldBy) -> Slots {
        Slots {
            state: engine.address(&self.state),
            present: self.present_address(engine),
            num_slots: self.num_places(),
            stride: record_bytes(&self.plan) / 8,
            told_by,
        }
    }

    /// Returns whether no row was folded.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns how many rows were folded.
    pub fn num_rows(&self) -> u64 {
        self.rows
    }

    /// Folds the rows of segments in. After an error the table is void.
    ///
    /// # Errors
    /// What the rows raise, values outside of the kernel's ranges, and the device's own;
    /// [`DeviceError::Refused`] for more than [`STATE_ROWS_MAX`] rows at once.
    pub fn fold<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        segments: &Segments,
    ) -> Result<(), RunError> {
        self.fold_while(engine, program, segments, || {})
    }

    /// As [`GroupTable::fold`]; `meanwhile` is called while a device folds into a small table.
    ///
    /// What the first fold has to say is waited for, since it may be made again in other digits or under another seed; of later ones somebody may
    /// hear [later](Engine::read_flags_later), where one launch is all.
    pub(crate) fn fold_while<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        segments: &Segments,
        meanwhile: impl FnOnce(),
    ) -> Result<(), RunError> {
        if segments.num_rows == 0 {
            return Ok(());
        }
        if segments.num_rows > STATE_ROWS_MAX {
            // The words of a group could wrap without a sign of it.
            return Err(RunError::Device(DeviceError::Refused {
                device: engine.device(),
                what: format!("fold {} rows at once", segments.num_rows),
                why: format!("{STATE_ROWS_MAX} rows are the most that a group's state counts"),
            }));
        }
        let is_first = self.is_empty();
        self.finishes = Arc::clone(&program.finishes);
        self.rows += segments.num_rows;
        self.image = None;
        let mut prepared = Prepared::new(engine, &self.literals, segments)?;
        let shared = self.plan.shared_bytes;
        let resident = engine.resident_blocks("fold", program.threads, shared)?;
        // A block's own sums hold so many rows.
        let least = segments.num_rows.div_ceil(LOCAL_ROWS_MAX);
        let blocks = u64::from(resident)
            .max(least)
            .min(prepared.num_tiles)
            .max(1) as u32;
        if let Some(small) = self.small {
            let flags = engine.address(&self.state) + small.flags;
            if !is_first {
                engine.fill(&self.state, small.flags, FLAGS_BYTES as u64, 0)?;
            }
            self.address(engine, &mut prepared.words, flags);
            engine.launch("fold", blocks, program.threads, shared, &prepared.words)?;
            meanwhile();
            if is_first || !engine.read_flags_later(&self.state, small.flags)? {
                self.image = Some(self.read_small(engine, small)?);
            }
            return Ok(());
        }
        let flags = Flags::new(engine)?;
        if let Some(radix) = self.plan.radix.clone() {
            return self.fold_sorted(engine, program, &prepared, &flags, &radix);
        }
        if self.plan.store != Store::Hash {
            self.address(engine, &mut prepared.words, flags.address(engine));
            engine.launch("fold", blocks, program.threads, shared, &prepared.words)?;
            if is_first || !flags.read_later(engine)? {
                flags.read(engine)?;
            }
            return Ok(());
        }
        self.fold_hashed(engine, program, prepared, &flags, blocks)
    }

    fn fold_hashed<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        mut prepared: Prepared<B>,
        flags: &Flags<B>,
        blocks: u32,
    ) -> Result<(), RunError> {
        // Every row of the tiles begun, and every hot key, finds room.
        let records = u64::from(blocks) * u64::from(program.tile_rows + HOT_KEYS);
        let spill = engine.alloc(records * record_bytes(&self.plan))?;
        let resume = engine.alloc(u64::from(blocks) * 8)?;
        let first: Vec<u64> = (0..u64::from(blocks)).collect();
        engine.write(&resume, 0, &bytes_of_words(&first))?;
        prepared.words[launch_words("spill")] = engine.address(&spill);
        prepared.words[launch_words("spill_capacity")] = records;
        prepared.words[launch_words("resume")] = engine.address(&resume);
        loop {
            self.address(engine, &mut prepared.words, flags.address(engine));
            let shared = self.plan.shared_bytes;
            engine.launch("fold", blocks, program.threads, shared, &prepared.words)?;
            let spilled = flags.read(engine)?;
            if spilled == 0 {
                return Ok(());
            }
            let resumed = read_words(engine, &resume, u64::from(blocks))?;
            let tiles = resumed
                .iter()
                .map(|tile| tile.saturating_sub(1).min(prepared.num_tiles));
            // Each block takes every so many-th tile.
            let tiles_done: u64 = tiles.map(|tile| tile / u64::from(blocks)).sum();
            let rows_done = (tiles_done.max(1) * u64::from(program.tile_rows)).max(spilled + 1);
            let slots = self.slots_wanted(rows_done, spilled);
            self.grow(engine, program, &prepared, flags, &spill, spilled, slots)?;
        }
    }

    /// Estimates how many slots the keys want. The table is about full: of all groups it holds the
    /// share whose rows have found a slot.
    fn slots_wanted(&self, rows_done: u64, spilled: u64) -> u64 {
        let found = (rows_done - spilled) as f64 / rows_done as f64;
        let groups = self.num_slots as f64 / found.max(1e-6);
        let slots = ((groups * 1.5) as u64)
            .min(STATE_ROWS_MAX)
            .next_power_of_two();
        slots.max(self.num_slots.saturating_mul(GROWTH))
    }

    #[expect(clippy::too_many_arguments, reason = "what a launch has at hand")]
    /// Makes the table larger, moves its groups and takes the spilled records in.
    fn grow<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        flags: &Flags<B>,
        spill: &B,
        spilled: u64,
        mut slots: u64,
    ) -> Result<(), RunError> {
        let record = record_bytes(&self.plan);
        loop {
            // Both tables are there while the groups move.
            self.promise(self.bytes() + state_bytes(&self.plan, slots))?;
            let state = empty_state(engine, program, &self.plan, slots)?;
            let old_state = std::mem::replace(&mut self.state, state);
            let old_slots = std::mem::replace(&mut self.num_slots, slots);
            // The two slots apart have a place of their own in each table.
            engine.copy(
                &old_state,
                old_slots * record,
                &self.state,
                slots * record,
                2 * record,
            )?;
            flags.clear(engine)?;
            let resident = engine.resident_blocks("absorb", program.threads, 0)?;
            for (from, count) in [(&old_state, old_slots), (spill, spilled)] {
                if count == 0 {
                    continue;
                }
                let mut words = prepared.words.clone();
                self.address(engine, &mut words, flags.address(engine));
                words[launch_words("from_words")] = engine.address(from);
                words[launch_words("from_count")] = count;
                // What finds no slot here is only counted, and the table is made larger still.
                words[launch_words("spill_capacity")] = 0;
                let blocks = count
                    .div_ceil(u64::from(program.threads))
                    .min(u64::from(resident));
                engine.launch("absorb", blocks.max(1) as u32, program.threads, 0, &words)?;
            }
            if flags.read(engine)? == 0 {
                drop(old_state);
                return Ok(self.promise(self.bytes())?);
            }
            // Begin again from the old table, which is untouched.
            self.state = old_state;
            self.num_slots = old_slots;
            slots = slots.saturating_mul(GROWTH);
            flags.clear(engine)?;
        }
    }

    fn promise(&mut self, bytes: u64) -> Result<(), DeviceError> {
        match &mut self.memory {
            Some(memory) => memory.resize(bytes),
            None => Ok(()),
        }
    }

    /// Writes the table's addresses among the words of a launch, and that of the launch's flags.
    pub(crate) fn address<E: Engine<Buffer = B>>(&self, engine: &E, words: &mut [u64], flags: u64) {
        words[launch_words("state")] = engine.address(&self.state);
        words[launch_words("present")] = self.present_address(engine);
        words[launch_words("num_slots")] = self.num_slots;
        words[launch_words("flags")] = flags;
    }

    fn present_address<E: Engine<Buffer = B>>(&self, engine: &E) -> u64 {
        match (self.small, &self.present) {
            (Some(small), _) if self.plan.presence == Presence::Bit => {
                engine.address(&self.state) + small.present
            }
            (_, Some(map)) => engine.address(map),
            _ => 0,
        }
    }

    /// Copies a small table back, whose last launch must have nothing to say.
    fn read_small<E: Engine<Buffer = B>>(
        &self,
        engine: &E,
        small: Small,
    ) -> Result<Vec<u8>, RunError> {
        let mut image = vec![0; small.bytes() as usize];
        engine.read(&self.state, 0, &mut image)?;
        if let Some(flags) = image.last_chunk() {
            outcome_of(engine.device(), flags)?;
        }
        Ok(image)
    }

    /// Copies the groups back, unless they came with the flags of the last launch.
    ///
    /// # Errors
    /// [`Unsuited::KeysMet`]; a lost device.
    pub fn read<E: Engine<Buffer = B>>(&self, engine: &E) -> Result<Groups, RunError> {
        if let Some(groups) = self.known() {
            return Ok(groups);
        }
        let num_words = state_bytes(&self.plan, self.num_slots) / 8;
        let words = read_words(engine, &self.state, num_words)?;
        let mut bits = Vec::new();
        if self.plan.presence == Presence::Bit {
            bits.resize(present_bytes(self.num_slots) as usize, 0);
            match (self.small, &self.present) {
                (Some(small), _) => engine.read(&self.state, small.present, &mut bits)?,
                (None, Some(map)) => engine.read(map, 0, &mut bits)?,
                (None, None) => {}
            }
        }
        self.decoded(&words, &bits)
            .map_err(|why| RunError::Unsuited {
                device: engine.device(),
                why,
            })
    }

    /// Returns the groups if the last launch has brought them to the host.
    pub(crate) fn known(&self) -> Option<Groups> {
        let (small, image) = (self.small?, self.image.as_deref()?);
        let (state, rest) = image.split_at(state_bytes(&self.plan, self.num_slots) as usize);
        let (words, _) = state.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let bits = &rest[small.present as usize - state.len()..];
        let num_bytes = match self.plan.presence {
            Presence::Bit => present_bytes(self.num_slots) as usize,
            _ => 0,
        };
        self.decoded(&words, &bits[..num_bytes]).ok()
    }

    fn decoded(&self, words: &[u64], bits: &[u8]) -> Result<Groups, Unsuited> {
        let (bits, _) = bits.as_chunks::<4>();
        let present: Vec<u32> = bits.iter().map(|bits| u32::from_le_bytes(*bits)).collect();
        let table = TableImage {
            present: &present,
            words,
        };
        Groups::decode(&self.plan, &self.literals, table)
    }
}

/// Bytes of a slot.
fn record_bytes(plan: &GroupPlan) -> u64 {
    let key = u64::from(plan.store == Store::Hash);
    (plan.num_words() as u64 + key) * 8
}

/// Slots that a table begins with.
fn first_slots(plan: &GroupPlan, slots_hint: Option<u64>) -> u64 {
    match (plan.store, plan.num_packed) {
        (Store::Hash, _) => slots_hint.unwrap_or(HASH_SLOTS_START).next_power_of_two(),
        (_, packed) => packed.unwrap_or(1),
    }
}

/// Slots behind those of the table.
fn slots_apart(plan: &GroupPlan) -> u64 {
    if plan.store == Store::Hash { 2 } else { 0 }
}

fn state_bytes(plan: &GroupPlan, num_slots: u64) -> u64 {
    (num_slots + slots_apart(plan)) * record_bytes(plan)
}

fn table_bytes(plan: &GroupPlan, num_slots: u64) -> u64 {
    let present = if plan.presence == Presence::Bit {
        present_bytes(num_slots)
    } else {
        0
    };
    state_bytes(plan, num_slots) + present
}

/// Bytes of a table of so many slots that was just made.
fn first_bytes(plan: &GroupPlan, num_slots: u64) -> u64 {
    let small = Small::of(plan, num_slots);
    small.map_or_else(|| table_bytes(plan, num_slots), |small| small.bytes())
}

fn present_bytes(num_slots: u64) -> u64 {
    num_slots.div_ceil(32) * 4
}

/// Makes the bits of the groups of a table that is not small, if they tell the groups.
fn empty_present<E: Engine>(
    engine: &E,
    plan: &GroupPlan,
    num_slots: u64,
) -> Result<Option<E::Buffer>, DeviceError> {
    if plan.presence != Presence::Bit {
        return Ok(None);
    }
    let bytes = present_bytes(num_slots);
    let present = engine.alloc(bytes)?;
    engine.fill(&present, 0, bytes, 0)?;
    Ok(Some(present))
}

fn empty_state<E: Engine>(
    engine: &E,
    program: &DeviceProgram,
    plan: &GroupPlan,
    num_slots: u64,
) -> Result<E::Buffer, DeviceError> {
    const { assert!(EMPTY_KEY == u64::MAX, "a vacant slot is all ones") };
    let bytes = state_bytes(plan, num_slots);
    let state = engine.alloc(bytes)?;
    if plan.store != Store::Hash {
        engine.fill(&state, 0, bytes, 0)?;
        return Ok(state);
    }
    let mut words = vec![0; NUM_LAUNCH_FIELDS + program.literals.len().max(1)];
    words[launch_words("state")] = engine.address(&state);
    words[launch_words("num_slots")] = num_slots;
    let resident = engine.resident_blocks("clear", program.threads, 0)?;
    let blocks = (bytes / 8)
        .div_ceil(u64::from(program.threads))
        .min(u64::from(resident));
    engine.launch("clear", blocks.max(1) as u32, program.threads, 0, &words)?;
    Ok(state)
}
