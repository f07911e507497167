//! Folding rows with many groups: sorted by partition, then partition by partition.
//!
//! The rows go in slices, so many at a time as the pool has room for. `fold` writes a slice's records
//! to the pool, each partition's to a region of its own; regions have an eighth more room than even
//! partitions need, and what finds none is added to the table at once. In front of a hash table a
//! sample of the first slice's records tells how many groups there are: how large the table has to
//! be, whether a block's own table holds a partition's groups, and into how many more partitions
//! `repartition` has to sort the records if not. Every row is added once, wherever it finds room; an
//! estimate that is wrong costs time only.
//!
//! Without memory for the pool its regions have no room at all, and all records are added at once.

use tidegate_device::{DeviceError, Reservation};

use super::{GroupTable, record_bytes};
use crate::backend::RunError;
use crate::engine::{Engine, Flags, Prepared, bytes_of_words, read_words};
use crate::program::{DeviceProgram, LOCAL_ROWS_MAX, RadixPlan, Store, launch_words};

/// Records that a block takes into its own table before it adds that to the other.
const PIECE: u64 = 1 << 16;
/// The same without a table of its own.
const DENSE_PIECE: u64 = 1 << 13;

/// The same where a block's own table is addressed by keys; at most as many as its sums have room for.
const OWN_PIECE: u64 = 1 << 18;

/// Partitions whose keys are counted, and how few of the keys of one are.
const SAMPLED_PARTITIONS: u64 = 8;
const SAMPLED_SHARE: u64 = 16;
const SAMPLE_SLOTS: u64 = 1 << 18;

/// Cells of a block's own table for each group that it is to hold; and the fewest, before the records
/// are sorted once more.
const CELLS_PER_GROUP: f64 = 4.0;
const CELLS_PER_GROUP_MIN: f64 = 1.4;
/// The same after they were sorted once more, when there are few records for each cell to be read; and
/// where groups have fewer records than so many, so that emptying cells takes longer than finding them.
const CELLS_PER_GROUP_SORTED: f64 = 2.5;
const CELLS_PER_GROUP_OF_FEW: f64 = 2.0;
const FEW_RECORDS: f64 = 16.0;
const CELLS_MIN: u64 = 256;

/// Slots of a hash table for each group: as many as keep most keys to their first sector, and what does
/// where there is no memory for them.
const SLOTS_PER_GROUP: [f64; 2] = [2.5, 1.5];

/// Memory for the records of a slice, as often as they are sorted.
#[derive(Debug)]
struct Arena<B> {
    records: B,
    cursors: B,
    /// Bytes for one sorting.
    pool_bytes: u64,
    _memory: Reservation,
}

impl<B> Arena<B> {
    fn new<E: Engine<Buffer = B>>(
        engine: &E,
        plan: &RadixPlan,
        pool_bytes: u64,
        num_pools: u64,
    ) -> Result<Self, DeviceError> {
        let second = if num_pools > 1 { plan.way_bits } else { 0 };
        let cursors = (1_u64 << plan.way_bits) + (1 << (plan.way_bits + second));
        let memory = engine.reserve(pool_bytes * num_pools)?;
        Ok(Self {
            records: engine.alloc(pool_bytes * num_pools)?,
            cursors: engine.alloc(cursors * CURSOR_BYTES)?,
            pool_bytes,
            _memory: memory,
        })
    }
}

/// Bytes of a partition's cursor.
const CURSOR_BYTES: u64 = 4;

/// Records of a partition that lie together.
const CHUNK: u64 = 64;

/// Regions of records, one for each partition.
#[derive(Clone, Copy, Debug)]
struct Pool {
    /// The address of the records.
    records: u64,
    first_cursor: u64,
    /// Records of a region.
    region: u64,
    /// Bits of a partition's number that an earlier sorting has used.
    shift: u32,
    bits: u32,
}

impl Pool {
    /// Places regions for so many records, of a first sorting or of a second.
    fn new<E: Engine>(
        engine: &E,
        arena: &Arena<E::Buffer>,
        plan: &RadixPlan,
        num_records: u64,
        (shift, bits): (u32, u32),
    ) -> Self {
        let partitions = 1_u64 << (shift + bits);
        let is_second = shift > 0;
        let room = arena.pool_bytes / (partitions * plan.record_bytes) / CHUNK * CHUNK;
        let records = engine.address(&arena.records);
        Self {
            records: records + if is_second { arena.pool_bytes } else { 0 },
            first_cursor: if is_second { 1 << shift } else { 0 },
            region: region_of(num_records, partitions).min(room),
            shift,
            bits,
        }
    }

    fn partitions(&self) -> u64 {
        1 << (self.shift + self.bits)
    }

    fn clear<E: Engine>(&self, engine: &E, arena: &Arena<E::Buffer>) -> Result<(), DeviceError> {
        let bytes = self.partitions() * CURSOR_BYTES;
        engine.fill(&arena.cursors, self.first_cursor * CURSOR_BYTES, bytes, 0)
    }

    /// Makes a launch write here.
    fn write_here<E: Engine>(&self, engine: &E, arena: &Arena<E::Buffer>, words: &mut [u64]) {
        words[launch_words("radix_bits")] = u64::from(self.bits);
        words[launch_words("radix_shift")] = u64::from(self.shift);
        words[launch_words("pool")] = self.records;
        words[launch_words("pool_records")] = self.partitions() * self.region;
        words[launch_words("cursors")] =
            engine.address(&arena.cursors) + self.first_cursor * CURSOR_BYTES;
        words[launch_words("region")] = self.region;
    }

    /// Makes a launch read from here, pieces of so many records.
    fn read_here<E: Engine>(
        &self,
        engine: &E,
        arena: &Arena<E::Buffer>,
        words: &mut [u64],
        piece: u64,
    ) {
        let pieces = self.region.div_ceil(piece).max(1);
        words[launch_words("from_pool")] = self.records;
        words[launch_words("from_records")] = self.partitions() * self.region;
        words[launch_words("from_cursors")] =
            engine.address(&arena.cursors) + self.first_cursor * CURSOR_BYTES;
        words[launch_words("from_region")] = self.region;
        words[launch_words("from_bits")] = u64::from(self.shift + self.bits);
        words[launch_words("from_count")] = piece;
        words[launch_words("tiles_per_segment")] = pieces;
        words[launch_words("num_tiles")] = pieces * self.partitions();
    }
}

/// Returns the records of a region: an eighth more than of even partitions, and some for the chance.
fn region_of(num_records: u64, partitions: u64) -> u64 {
    let even = num_records.div_ceil(partitions);
    (even + even / 8 + 64).next_multiple_of(CHUNK)
}

/// A launch that goes on where its blocks have stopped.
struct Pass<'a> {
    kernel: &'static str,
    blocks: u64,
    shared_bytes: u32,
    words: &'a mut [u64],
    /// The first tile or piece.
    first: u64,
}

/// How the records of a slice are to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Bits of a second sorting's partitions; 0 for none.
    more_bits: u32,
    /// Cells of a block's own table.
    cells: u64,
}

impl Layout {
    /// Lays out the adding of so many records of so many groups.
    fn of(plan: &RadixPlan, records: u64, groups: u64) -> Self {
        let partition = groups as f64 / f64::from(1_u32 << plan.way_bits);
        let most = plan.limits.table_bytes / plan.cell_bytes;
        let cells = |groups: f64, each: f64| {
            let wanted = (groups * each) as u64;
            wanted.max(CELLS_MIN).min(most).max(2) & !1
        };
        if partition * CELLS_PER_GROUP_MIN <= most as f64 {
            return Self {
                more_bits: 0,
                cells: cells(partition, CELLS_PER_GROUP),
            };
        }
        let each = match records as f64 / groups.max(1) as f64 {
            few if few < FEW_RECORDS => CELLS_PER_GROUP_OF_FEW,
            _ => CELLS_PER_GROUP_SORTED,
        };
        let more_bits = (partition * each / most.max(1) as f64).log2().ceil();
        let more_bits = (more_bits.max(1.0) as u32).min(plan.way_bits);
        Self {
            more_bits,
            cells: cells(partition / f64::from(1_u32 << more_bits), each),
        }
    }
}

impl<B: std::fmt::Debug + Send + 'static> GroupTable<B> {
    /// Folds rows in by way of records.
    pub(super) fn fold_sorted<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        flags: &Flags<B>,
        plan: &RadixPlan,
    ) -> Result<(), RunError> {
        let rows = prepared.num_rows;
        let tile = u64::from(program.tile_rows);
        let (arena, slice_rows) = self.arena(engine, plan, rows)?;
        let first = Pool::new(engine, &arena, plan, slice_rows, (0, plan.way_bits));
        let slice_tiles = match first.region {
            0 => prepared.num_tiles,
            _ if slice_rows == rows => prepared.num_tiles,
            _ => (slice_rows / tile).max(1),
        };
        let shared = self.plan.shared_bytes;
        let blocks = u64::from(engine.resident_blocks("fold", program.threads, shared)?)
            .max(rows.div_ceil(LOCAL_ROWS_MAX))
            .min(prepared.num_tiles.max(1));
        let mut work = Work {
            flags,
            ticket: engine.alloc(8)?,
            spill: engine.alloc(0)?,
            spill_records: 0,
        };
        let mut layout = None;
        let mut begin = 0;
        while begin < prepared.num_tiles {
            let end = (begin + slice_tiles).min(prepared.num_tiles);
            first.clear(engine, &arena)?;
            let mut words = prepared.words.clone();
            first.write_here(engine, &arena, &mut words);
            words[launch_words("num_tiles")] = end;
            let pass = Pass {
                kernel: "fold",
                blocks,
                shared_bytes: shared,
                words: &mut words,
                first: begin,
            };
            self.run_pass(engine, program, prepared, &mut work, pass, plan.spilled_max)?;
            begin = end;
            if first.region == 0 {
                continue;
            }
            if self.plan.store != Store::Hash {
                let mut words = prepared.words.clone();
                match self.own_cells(plan) {
                    Some(cells) => {
                        first.read_here(engine, &arena, &mut words, OWN_PIECE);
                        words[launch_words("table_cells")] = cells;
                        let shared = cells * plan.dense_cell_bytes + cells / 8;
                        let by = ("aggregate_shared", shared, OWN_PIECE);
                        self.aggregate(engine, program, prepared, &mut work, words, by)?;
                    }
                    None => {
                        first.read_here(engine, &arena, &mut words, DENSE_PIECE);
                        let by = ("aggregate", 0, DENSE_PIECE);
                        self.aggregate(engine, program, prepared, &mut work, words, by)?;
                    }
                }
                continue;
            }
            let layout = match layout {
                Some(layout) => layout,
                None => {
                    let source = (&arena, first, slice_rows);
                    *layout.insert(self.plan_rest(engine, program, prepared, &work, source)?)
                }
            };
            let mut from = first;
            if layout.more_bits > 0 {
                let bits = (plan.way_bits, layout.more_bits);
                from = Pool::new(engine, &arena, plan, slice_rows, bits);
                from.clear(engine, &arena)?;
                let mut words = prepared.words.clone();
                from.write_here(engine, &arena, &mut words);
                first.read_here(engine, &arena, &mut words, tile);
                self.repartition(engine, program, prepared, &mut work, words)?;
            }
            let mut words = prepared.words.clone();
            from.read_here(engine, &arena, &mut words, PIECE);
            words[launch_words("table_cells")] = layout.cells;
            let shared = layout.cells * plan.cell_bytes;
            let by = ("aggregate", shared, PIECE);
            self.aggregate(engine, program, prepared, &mut work, words, by)?;
        }
        flags.read(engine)?;
        Ok(())
    }

    /// Returns the cells of a block's own table for the groups of a partition, if it has room for them.
    fn own_cells(&self, plan: &RadixPlan) -> Option<u64> {
        let cells = self.num_slots.div_ceil(32 << plan.way_bits) * 32;
        (cells * plan.dense_cell_bytes + cells / 8 <= plan.limits.table_bytes).then_some(cells)
    }

    /// Takes memory for records, and returns of how many rows. Without it there is room for none.
    fn arena<E: Engine<Buffer = B>>(
        &self,
        engine: &E,
        plan: &RadixPlan,
        rows: u64,
    ) -> Result<(Arena<B>, u64), RunError> {
        let num_pools = if self.plan.store == Store::Hash { 2 } else { 1 };
        let partitions = 1 << plan.way_bits;
        let bytes_of = |rows| partitions * region_of(rows, partitions) * plan.record_bytes;
        let mut slice = rows;
        while rows >= plan.limits.rows_min && slice >= plan.limits.rows_min.min(SLICE_ROWS_MIN) {
            let bytes = bytes_of(slice);
            if bytes * num_pools <= plan.limits.pool_bytes {
                match Arena::new(engine, plan, bytes, num_pools) {
                    Ok(arena) => return Ok((arena, slice)),
                    Err(DeviceError::OutOfMemory { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            slice /= 2;
        }
        Ok((Arena::new(engine, plan, 0, 1)?, rows))
    }

    /// Estimates the groups by a sample, makes the table large enough for them, and decides how the
    /// records are added.
    fn plan_rest<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        work: &Work<'_, B>,
        (arena, first, num_records): (&Arena<B>, Pool, u64),
    ) -> Result<Layout, RunError> {
        let sample = engine.alloc(SAMPLE_SLOTS * 8)?;
        engine.fill(&sample, 0, SAMPLE_SLOTS * 8, 0xff)?;
        let mut words = prepared.words.clone();
        self.address(engine, &mut words, work.flags.address(engine));
        first.read_here(engine, arena, &mut words, 1);
        let partitions = SAMPLED_PARTITIONS.min(first.partitions());
        words[launch_words("from_count")] = partitions;
        words[launch_words("spill")] = engine.address(&sample);
        words[launch_words("spill_capacity")] = SAMPLE_SLOTS;
        let blocks = engine.resident_blocks("estimate", program.threads, 0)?;
        engine.launch("estimate", blocks, program.threads, 0, &words)?;
        let found = work.flags.read_distinct(engine)?;
        let groups = found * SAMPLED_SHARE * first.partitions() / partitions;
        let [wanted, enough] = SLOTS_PER_GROUP.map(|each| (groups as f64 * each) as u64);
        let mut grow_to = |slots: u64| match slots > self.num_slots {
            true => self.grow(engine, program, prepared, work.flags, &work.spill, 0, slots),
            false => Ok(()),
        };
        match grow_to(wanted) {
            Err(RunError::Device(DeviceError::OutOfMemory { .. })) => grow_to(enough)?,
            grown => grown?,
        }
        let layout = self
            .plan
            .radix
            .as_ref()
            .map(|plan| Layout::of(plan, num_records, groups));
        Ok(layout.unwrap_or(Layout {
            more_bits: 0,
            cells: CELLS_MIN,
        }))
    }

    fn repartition<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        work: &mut Work<'_, B>,
        mut words: Vec<u64>,
    ) -> Result<(), RunError> {
        let shared = self
            .plan
            .radix
            .as_ref()
            .map_or(0, |plan| plan.repartition_bytes);
        let tile = u64::from(program.tile_rows);
        let resident = engine.resident_blocks("repartition", program.threads, shared)?;
        let blocks = u64::from(resident).min(words[launch_words("num_tiles")]);
        let pass = Pass {
            kernel: "repartition",
            blocks,
            shared_bytes: shared,
            words: &mut words,
            first: 0,
        };
        self.run_pass(engine, program, prepared, work, pass, 3 * tile)
    }

    fn aggregate<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        work: &mut Work<'_, B>,
        mut words: Vec<u64>,
        (kernel, shared, piece): (&'static str, u64, u64),
    ) -> Result<(), RunError> {
        let shared_bytes = shared as u32;
        let resident = engine.resident_blocks(kernel, program.threads, shared_bytes)?;
        let blocks = u64::from(resident).min(words[launch_words("num_tiles")]);
        let region = words[launch_words("from_region")];
        let pass = Pass {
            kernel,
            blocks,
            shared_bytes,
            words: &mut words,
            first: 0,
        };
        self.run_pass(engine, program, prepared, work, pass, 2 * piece.min(region))
    }

    /// Launches until all is done, making a hash table larger when it has no room. A block spills at
    /// most so many records before it stops.
    fn run_pass<E: Engine<Buffer = B>>(
        &mut self,
        engine: &E,
        program: &DeviceProgram,
        prepared: &Prepared<B>,
        work: &mut Work<'_, B>,
        pass: Pass<'_>,
        spilled_by_block: u64,
    ) -> Result<(), RunError> {
        let blocks = pass.blocks.max(1);
        let is_hashed = self.plan.store == Store::Hash;
        if is_hashed && work.spill_records < blocks * spilled_by_block {
            work.spill_records = blocks * spilled_by_block;
            work.spill = engine.alloc(work.spill_records * record_bytes(&self.plan))?;
        }
        engine.write(&work.ticket, 0, &bytes_of_words(&[pass.first]))?;
        let words = pass.words;
        words[launch_words("resume")] = engine.address(&work.ticket);
        loop {
            words[launch_words("spill")] = engine.address(&work.spill);
            words[launch_words("spill_capacity")] = work.spill_records;
            self.address(engine, words, work.flags.address(engine));
            engine.launch(
                pass.kernel,
                blocks as u32,
                program.threads,
                pass.shared_bytes,
                words,
            )?;
            if !is_hashed {
                return Ok(());
            }
            let spilled = work.flags.read(engine)?;
            if spilled == 0 {
                return Ok(());
            }
            let slots = match pass.kernel {
                "fold" => {
                    let taken = read_words(engine, &work.ticket, 1)?;
                    let tiles: u64 = taken.iter().map(|ticket| ticket - pass.first).sum();
                    let rows = (tiles * u64::from(program.tile_rows)).max(spilled + 1);
                    self.slots_wanted(rows, spilled)
                }
                // The sample has told how many groups there are, but for its chance.
                _ => self.num_slots.saturating_mul(2),
            };
            self.grow(
                engine,
                program,
                prepared,
                work.flags,
                &work.spill,
                spilled,
                slots,
            )?;
        }
    }
}

/// Slices of fewer rows are not worth their launches.
const SLICE_ROWS_MIN: u64 = 1 << 22;

/// What the passes of a fold have in common.
struct Work<'a, B> {
    flags: &'a Flags<B>,
    /// The next tile or piece.
    ticket: B,
    spill: B,
    spill_records: u64,
}
