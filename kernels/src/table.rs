//! A group table on a device: made, folded into, grown, read back.

use tidegate_device::DeviceError;

use crate::backend::RunError;
use crate::engine::{Engine, Flags, Prepared, Segments, bytes_of_words, read_words};
use crate::groups::{Groups, TableImage};
use crate::program::{
    DeviceProgram, EMPTY_KEY, GroupPlan, HOT_KEYS, STATE_ROWS_MAX, Store, launch_words,
};

/// Slots with which a hash table begins.
const HASH_SLOTS_START: u64 = 1 << 17;

/// How much a hash table grows by when a key finds no slot.
const GROWTH: u64 = 8;

/// The groups' state of one run.
#[derive(Debug)]
pub struct GroupTable<B> {
    plan: GroupPlan,
    literals: Vec<u64>,
    state: B,
    keys: Option<B>,
    num_slots: u64,
    rows: u64,
}

impl<B: std::fmt::Debug + Send> GroupTable<B> {
    /// Makes an empty table for the program; `literals` are those of all its launches.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; a lost device.
    pub fn new<E: Engine<Buffer = B>>(
        engine: &E,
        plan: &GroupPlan,
        literals: Vec<u64>,
        slots_hint: Option<u64>,
    ) -> Result<Self, DeviceError> {
        let num_slots = match (plan.store, plan.num_packed) {
            (Store::Hash, _) => slots_hint.unwrap_or(HASH_SLOTS_START).next_power_of_two(),
            (_, packed) => packed.unwrap_or(1),
        };
        let mut table = Self {
            plan: plan.clone(),
            literals,
            state: engine.alloc(state_bytes(plan, num_slots))?,
            keys: None,
            num_slots,
            rows: 0,
        };
        engine.fill(&table.state, 0, state_bytes(plan, num_slots), 0)?;
        if plan.store == Store::Hash {
            table.keys = Some(empty_keys(engine, num_slots)?);
        }
        Ok(table)
    }

    /// Returns the table's plan.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// Returns the literals of the table's launches.
    pub fn literals(&self) -> &[u64] {
        &self.literals
    }

    /// Returns the bytes that the table takes.
    pub fn bytes(&self) -> u64 {
        let keys = if self.keys.is_some() { self.num_slots * 8 } else { 0 };
        state_bytes(&self.plan, self.num_slots) + keys
    }

    /// Returns whether so many more rows may be folded.
    pub fn has_room_for(&self, rows: u64) -> bool {
        self.rows + rows <= STATE_ROWS_MAX
    }

    /// Folds the rows of segments in. After an error the table is void.
    ///
    /// # Errors
    /// What the rows raise, values outside of the kernel's ranges, and the device's own.
    pub fn fold<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        segments: &Segments,
    ) -> Result<(), RunError> {
        if segments.num_rows == 0 {
            return Ok(());
        }
        self.rows += segments.num_rows;
        let mut prepared = Prepared::new(engine, &self.literals, segments)?;
        let flags = Flags::new(engine)?;
        let shared = self.plan.shared_bytes;
        let resident = engine.resident_blocks("fold", program.threads, shared)?;
        let blocks = u64::from(resident).min(prepared.num_tiles).max(1) as u32;
        if self.plan.store != Store::Hash {
            self.address(engine, &mut prepared.words, &flags);
            engine.launch("fold", blocks, program.threads, shared, &prepared.words)?;
            flags.read(engine)?;
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
        let record = (self.plan.num_words() as u64 + 1) * 8;
        // Every row of the tiles begun, and every hot key, finds room.
        let records = u64::from(blocks) * u64::from(program.tile_rows + HOT_KEYS);
        let spill = engine.alloc(records * record)?;
        let resume = engine.alloc(u64::from(blocks) * 8)?;
        let first: Vec<u64> = (0..u64::from(blocks)).collect();
        engine.write(&resume, 0, &bytes_of_words(&first))?;
        prepared.words[launch_words("spill")] = engine.address(&spill);
        prepared.words[launch_words("spill_capacity")] = records;
        prepared.words[launch_words("resume")] = engine.address(&resume);
        loop {
            self.address(engine, &mut prepared.words, flags);
            let shared = self.plan.shared_bytes;
            engine.launch("fold", blocks, program.threads, shared, &prepared.words)?;
            let spilled = flags.read(engine)?;
            if spilled == 0 {
                return Ok(());
            }
            self.grow(engine, program, &prepared, flags, &spill, spilled)?;
        }
    }

    /// Makes the table larger, moves its groups and takes the spilled records in.
    fn grow<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        flags: &Flags<B>,
        spill: &B,
        spilled: u64,
    ) -> Result<(), RunError> {
        let mut slots = self.num_slots;
        loop {
            slots = slots.saturating_mul(GROWTH);
            let bytes = state_bytes(&self.plan, slots);
            let state = engine.alloc(bytes)?;
            engine.fill(&state, 0, bytes, 0)?;
            let keys = empty_keys(engine, slots)?;
            let old_state = std::mem::replace(&mut self.state, state);
            let old_keys = self.keys.replace(keys);
            let old_slots = std::mem::replace(&mut self.num_slots, slots);
            let moves = [
                (old_keys.as_ref(), &old_state, old_slots),
                (None, spill, spilled),
            ];
            let word_bytes = 8 * self.plan.num_words() as u64;
            engine.copy(
                &old_state,
                old_slots * word_bytes,
                &self.state,
                slots * word_bytes,
                2 * word_bytes,
            )?;
            flags.clear(engine)?;
            let resident = engine.resident_blocks("absorb", program.threads, 0)?;
            for (keys, words_from, count) in moves {
                let mut words = prepared.words.clone();
                self.address(engine, &mut words, flags);
                words[launch_words("from_keys")] = keys.map_or(0, |keys| engine.address(keys));
                words[launch_words("from_words")] = engine.address(words_from);
                words[launch_words("from_count")] = count;
                // What finds no slot here is only counted, and the table is made larger still.
                words[launch_words("spill_capacity")] = 0;
                let blocks = count.div_ceil(u64::from(program.threads)).min(u64::from(resident));
                engine.launch("absorb", blocks.max(1) as u32, program.threads, 0, &words)?;
            }
            if flags.read(engine)? == 0 {
                return Ok(());
            }
            // Begin again from the old table, which is untouched.
            self.state = old_state;
            self.keys = old_keys;
            self.num_slots = old_slots;
            flags.clear(engine)?;
        }
    }

    fn address<E: Engine<Buffer = B>>(&self, engine: &E, words: &mut [u64], flags: &Flags<B>) {
        words[launch_words("state")] = engine.address(&self.state);
        words[launch_words("keys")] = self.keys.as_ref().map_or(0, |keys| engine.address(keys));
        words[launch_words("num_slots")] = self.num_slots;
        words[launch_words("flags")] = flags.address(engine);
    }

    /// Copies the groups back.
    ///
    /// # Errors
    /// A lost device.
    pub fn read<E: Engine<Buffer = B>>(&self, engine: &E) -> Result<Groups, DeviceError> {
        let num_words = state_bytes(&self.plan, self.num_slots) / 8;
        let words = read_words(engine, &self.state, num_words)?;
        let keys = match &self.keys {
            Some(keys) => read_words(engine, keys, self.num_slots)?,
            None => Vec::new(),
        };
        let table = TableImage {
            keys: &keys,
            words: &words,
        };
        Ok(Groups::decode(&self.plan, &self.literals, table))
    }
}

fn state_bytes(plan: &GroupPlan, num_slots: u64) -> u64 {
    let apart = if plan.store == Store::Hash { 2 } else { 0 };
    (num_slots + apart) * plan.num_words() as u64 * 8
}

fn empty_keys<E: Engine>(engine: &E, num_slots: u64) -> Result<E::Buffer, DeviceError> {
    const { assert!(EMPTY_KEY == u64::MAX, "a vacant slot is all ones") };
    let keys = engine.alloc(num_slots * 8)?;
    engine.fill(&keys, 0, num_slots * 8, 0xff)?;
    Ok(keys)
}
