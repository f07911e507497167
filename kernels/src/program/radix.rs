//! The kernels that sort rows with many groups into partitions first, and take partition by partition.
//!
//! Beside `fold`, which reads columns and writes records, a program has `aggregate`, which reads the
//! records of one partition after another. Over a hash table it does so in a table of the block's own
//! in shared memory; partitions with too many keys for one go through `repartition` before, and
//! `estimate` counts the keys of a few partitions, so that all of this can be decided.

mod limits;
mod readers;

use std::cmp::Reverse;
use std::fmt::Write;
use std::iter;

use tidegate_pipeline::Interval;

use super::ProgramOptions;
use super::layout::{Rows, Term, Word, WordOp};
use super::load_code::LoadCode;
use super::shape::Shape;
use super::store::{Presence, Store};
use super::store_code::StoreCode;

pub use limits::{RadixLimits, RadixPlan};

const RADIX: &str = include_str!("../../cuda/radix.cuh");

/// Partitions of one sorting, at most.
const WAYS_MAX: u64 = 512;

/// What a block counts by partition, in bytes.
const COUNTER_BYTES: u64 = 5 * 4 * WAYS_MAX + 48;

/// Rows that a thread has in registers at once, at most; bytes of them and of their records.
const ROWS_MAX: u64 = 16;
const ROW_BYTES_MAX: u64 = 96;

/// A value of a record.
struct Field {
    data_type: FieldType,
    source: Source,
}

/// An integer of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FieldType {
    bytes: u64,
    is_signed: bool,
}

enum Source {
    Key,
    /// What a word adds, by its place among the words.
    Word(usize),
    /// The conditions of counts, a bit each.
    Conditions,
}

/// Records and what is done with them.
pub(super) struct Radix {
    /// The widest first, so that each begins at a multiple of its width.
    fields: Vec<Field>,
    conditions: Vec<Rows>,
    /// The words as a record `r` has them.
    words: Vec<Word>,
    rows_per_thread: u32,
    /// Shared memory for records, in bytes.
    room: u64,
    hot_keys: u32,
    limits: RadixLimits,
}

impl Radix {
    /// Plans the records, if the store gains by them.
    pub(super) fn of(
        words: &[Word],
        store: Store,
        state_bytes: u64,
        (threads, row_bytes): (u32, u32),
        options: &ProgramOptions,
    ) -> Option<Self> {
        let limits = options.limits.radix;
        let data_type = match store {
            Store::Hash => FieldType::unsigned(8),
            Store::Dense if state_bytes >= limits.dense_bytes_min => FieldType::unsigned(4),
            _ => return None,
        };
        let mut radix = Self {
            fields: vec![Field {
                data_type,
                source: Source::Key,
            }],
            conditions: Vec::new(),
            words: Vec::new(),
            rows_per_thread: 1,
            room: 0,
            hot_keys: hot_keys(words, &limits),
            limits,
        };
        for (position, word) in words.iter().enumerate() {
            if word.is_complement() {
                radix.words.push(Word {
                    term: Term::FieldComplement { word: position - 1 },
                    rows: Rows::Selected,
                    ..*word
                });
                continue;
            }
            radix.add(position, word);
        }
        let condition = match radix.conditions.len() {
            0 => None,
            1..=8 => Some(FieldType::unsigned(1)),
            9..=32 => Some(FieldType::unsigned(4)),
            _ => return None,
        };
        let condition = condition.map(|data_type| Field {
            data_type,
            source: Source::Conditions,
        });
        radix.fields.extend(condition);
        radix
            .fields
            .sort_by_key(|field| Reverse(field.data_type.bytes));
        let record = radix.record_bytes();
        radix.room = limits
            .block_bytes
            .saturating_sub(u64::from(radix.hot_keys) * hot_bytes(words) + COUNTER_BYTES);
        let rows = (ROW_BYTES_MAX / u64::from(row_bytes.max(1)))
            .min(ROW_BYTES_MAX / record)
            .min(radix.room * 3 / 4 / (record * u64::from(threads)))
            .min(ROWS_MAX);
        radix.rows_per_thread = match rows {
            0 => return None,
            1 => 1,
            _ => rows as u32 & !1,
        };
        (limits.way_bits >= 1).then_some(radix)
    }

    fn add(&mut self, position: usize, word: &Word) {
        let mut of_record = Word {
            rows: Rows::Selected,
            ..*word
        };
        match (word.op, word.rows) {
            (WordOp::Count | WordOp::Seen, Rows::Selected) => {}
            (WordOp::Count | WordOp::Seen, rows) => {
                of_record.rows = Rows::Recorded(self.conditions.len());
                self.conditions.push(rows);
            }
            (WordOp::Add | WordOp::Max | WordOp::Part | WordOp::Combine(_), _) => {
                let data_type = match word.op {
                    WordOp::Add => FieldType::of(word.range.hull(Interval::of(0))),
                    _ => FieldType::unsigned(8),
                };
                of_record.term = Term::Field {
                    word: position,
                    is_signed: data_type.is_signed,
                };
                self.fields.push(Field {
                    data_type,
                    source: Source::Word(position),
                });
            }
        }
        self.words.push(of_record);
    }

    fn record_bytes(&self) -> u64 {
        self.fields.iter().map(|field| field.data_type.bytes).sum()
    }

    /// Returns how many hot keys a block has.
    pub(super) fn hot_keys(&self) -> u32 {
        self.hot_keys
    }

    /// Returns the tile: as many rows as a thread has in registers.
    pub(super) fn rows_per_thread(&self) -> u32 {
        self.rows_per_thread
    }

    /// Returns the shared memory for so many records, in bytes.
    fn stage_bytes(&self, records: u64) -> u64 {
        COUNTER_BYTES - 32 + records * self.record_bytes()
    }

    /// Returns how many records `fold` writes together: as many as there is room to keep of each
    /// partition.
    fn unit(&self, shape: &Shape) -> u64 {
        let fits = |unit: &u64| self.staged(shape, *unit) * self.record_bytes() <= self.room;
        [4, 2].into_iter().find(fits).unwrap_or(1)
    }

    /// Returns the records that a block of `fold` has in shared memory.
    fn staged(&self, shape: &Shape, unit: u64) -> u64 {
        u64::from(shape.tile_rows()) + (unit - 1) * (1 << self.way_bits(shape))
    }

    /// Returns how many records a block of `fold` spills at most: whoever sees a spill has taken two more
    /// tiles, hot keys leave with each tile and at the end, and what was kept then too.
    fn spilled_max(&self, shape: &Shape) -> u64 {
        let (tile, hot_keys) = (u64::from(shape.tile_rows()), u64::from(self.hot_keys));
        let kept = self.staged(shape, self.unit(shape)) - tile;
        3 * (tile + hot_keys) + hot_keys + kept
    }

    /// Returns the shared memory of a block of `fold`, beside its hot keys.
    pub(super) fn fold_bytes(&self, shape: &Shape) -> u32 {
        let records = self.staged(shape, self.unit(shape));
        (self.stage_bytes(records).next_multiple_of(16) + 16) as u32
    }

    /// Returns the bits of a partition's number: a thread each has a partition of a tile in hand.
    fn way_bits(&self, shape: &Shape) -> u32 {
        let most = shape.threads.ilog2().min(WAYS_MAX.ilog2());
        self.limits.way_bits.min(most)
    }

    pub(super) fn plan(&self, code: &StoreCode<'_>, shape: &Shape) -> RadixPlan {
        RadixPlan {
            limits: self.limits,
            way_bits: self.way_bits(shape),
            record_bytes: self.record_bytes(),
            cell_bytes: code.cell_bytes() + 8,
            dense_cell_bytes: StoreCode {
                store: Store::Shared { replicas: 1 },
                ..self.over_records(code)
            }
            .cell_bytes(),
            spilled_max: self.spilled_max(shape),
            repartition_bytes: (self
                .stage_bytes(u64::from(shape.tile_rows()))
                .next_multiple_of(16)
                + 16) as u32,
        }
    }

    /// Writes the record and how it is kept in columns.
    pub(super) fn write_records(&self, text: &mut String) {
        let fields = || {
            self.fields
                .iter()
                .map(|field| (field.data_type.name(), field.name()))
        };
        text.push_str("\ntypedef signed char i8;\ntypedef short i16;\n\nstruct Record {");
        for (data_type, name) in fields() {
            let _ = write!(text, " {data_type} {name};");
        }
        text.push_str(" };\n// Columns of records.\nstruct Records {");
        for (data_type, name) in fields() {
            let _ = write!(text, " {data_type}* {name};");
        }
        text.push_str(
            " };\n__device__ __forceinline__ Records records_at(u8* at, u64 capacity) {\n    Records records;\n",
        );
        for (data_type, name) in fields() {
            let _ = writeln!(
                text,
                "    records.{name} = ({data_type}*)at;\n    at += capacity * sizeof({data_type});"
            );
        }
        text.push_str("    return records;\n}\n");
        let put = "void put(const Records& to, u64 i, const Record& r) {";
        let take = "Record take(const Records& from, u64 i) {\n    Record r;";
        let take_once = "Record take_once(const Records& from, u64 i) {\n    Record r;";
        for (head, line, end) in [
            (put, "to.#[i] = r.#;", ""),
            (take, "r.# = from.#[i];", "    return r;\n"),
            // The pool's records are read once, and leave the caches to the table.
            (take_once, "r.# = __ldcs(from.# + i);", "    return r;\n"),
        ] {
            let _ = writeln!(text, "__device__ __forceinline__ {head}");
            for (_, name) in fields() {
                let _ = writeln!(text, "    {}", line.replace('#', &name));
            }
            let _ = writeln!(text, "{end}}}");
        }
    }

    /// Writes the functions over records: where a key belongs, and how one is added to the table.
    fn write_functions(&self, rows: &StoreCode<'_>, text: &mut String) {
        let code = self.over_records(rows);
        let hot_bits = self.hot_keys.ilog2();
        let (cell, part) = if rows.store == Store::Hash {
            (
                format!("(u32)key & {}u", self.hot_keys - 1),
                "(u32)(key >> (64 - p.radix_shift - p.radix_bits)) & ((1u << p.radix_bits) - 1)",
            )
        } else {
            (
                format!("(key * 2654435761u) >> {}", 32 - hot_bits),
                "dense_part(p, key)",
            )
        };
        let key = self.key_type();
        if rows.store == Store::Dense {
            // 32 neighbours stay together. A run of keys is spread evenly, and so are keys at even
            // distances, by a turn that depends on the upper bits.
            text.push_str(
                "// The partition of a key is the number of its 32 neighbours, turned by its upper bits;\n\
                 // the upper bits themselves tell its place in the partition.\n\
                 __device__ __forceinline__ u32 turn_of(const Launch& p, u32 upper) {\n\
                 \x20   return (upper * 2654435761u) >> (32 - p.radix_bits);\n}\n\
                 __device__ __forceinline__ u32 dense_part(const Launch& p, u32 key) {\n\
                 \x20   const u32 number = key >> 5;\n\
                 \x20   return (number + turn_of(p, number >> p.radix_bits)) & ((1u << p.radix_bits) - 1);\n}\n",
            );
        }
        let _ = write!(
            text,
            "__device__ __forceinline__ u32 hot_cell_of({key} key) {{ return {cell}; }}\n\
             __device__ __forceinline__ u32 part_of(const Launch& p, {key} key) {{ return {part}; }}\n"
        );
        let absorb = match rows.store {
            Store::Hash => "absorb_key(p, unmix(r.key), words);",
            _ => "absorb_words(p.state + (u64)r.key * NUM_WORDS, words);",
        };
        text.push_str(
            "\n__device__ __forceinline__ void absorb_values(const Launch& p, const Record& r) {\n",
        );
        code.write_row_words(text);
        let mark = match rows.presence {
            Presence::Bit => "    mark_present(p.present, r.key);\n",
            _ => "",
        };
        let _ = write!(
            text,
            "    {absorb}\n}}\n\
             __device__ __forceinline__ void absorb_record(const Launch& p, const Record& r) {{\n\
             {mark}    absorb_values(p, r);\n}}\n"
        );
    }

    /// The same store, with what rows add taken from records.
    fn over_records<'a>(&'a self, rows: &StoreCode<'a>) -> StoreCode<'a> {
        StoreCode {
            store: rows.store,
            row: rows.row,
            words: &self.words,
            num_words: rows.num_words,
            keys: rows.keys,
            key_literals: rows.key_literals,
            guard: "true".into(),
            is_full: rows.is_full,
            wide: rows.wide,
            presence: rows.presence,
            hot_keys: rows.hot_keys,
        }
    }

    fn key_type(&self) -> &'static str {
        let is_key = |field: &&Field| matches!(field.source, Source::Key);
        self.fields
            .iter()
            .find(is_key)
            .map_or("u64", |field| field.data_type.name())
    }

    /// Writes what comes before `fold`.
    pub(super) fn write_head(&self, rows: &StoreCode<'_>, shape: &Shape, text: &mut String) {
        self.write_records(text);
        self.write_functions(rows, text);
        text.push('\n');
        let unit = self.unit(shape);
        let _ = writeln!(
            text,
            "#define WAYS {}u\n#define UNIT {unit}u\n#define STAGED {}u",
            1_u32 << self.way_bits(shape),
            self.staged(shape, unit)
        );
        text.push_str(RADIX);
    }

    /// Opens `fold`: the block's shared memory, and its tiles. What a tile's rows are decoded of is on
    /// its way while the records of the tile before are written out.
    pub(super) fn write_fold_begin(
        &self,
        rows: &StoreCode<'_>,
        loads: &LoadCode<'_>,
        text: &mut String,
    ) {
        rows.write_begin(text);
        let _ = write!(
            text,
            "    const Staging staging = staging_at((u8*)(plane + {}u * cells), STAGED);\n\
             \x20   __syncthreads();\n\
             \x20   if (threadIdx.x == 0) *staging.next = take_ticket(p);\n\
             \x20   __syncthreads();\n\
             \x20   bool spilled = false;\n\
             \x20   const u32 step = 0;\n\
             \x20   u32 tile = *staging.next, first = 0, rows = 0;\n\
             \x20   const Column* columns = p.columns;\n",
            rows.narrow_planes()
        );
        loads.write_packets(text);
        write_tile_fetch(text, loads);
        text.push_str(
            "    while (tile < (u32)p.num_tiles) {\n\
             \x20       Record records[RECORDS];\n\
             \x20       u32 places[RECORDS], special = 0, next = NO_TICKET;\n",
        );
        loads.write_columns(text);
        loads.write_values(text);
        loads.write_decode(text);
    }

    /// Takes the next ticket while the tile's rows are on their way.
    pub(super) fn write_ticket(text: &mut String) {
        text.push_str(
            "        if (threadIdx.x == 0) {\n\
             \x20           if (!spilled) next = take_ticket(p);\n\
             \x20           spilled = has_spilled(p);\n\
             \x20       }\n",
        );
    }

    /// Makes a record of one row, and sees whether its key may be hot.
    pub(super) fn write_row(&self, rows: &StoreCode<'_>, text: &mut String) {
        let indent = "                ";
        rows.write_key(text);
        let guard = &rows.guard;
        let (hash, counts) = if rows.store == Store::Hash {
            ("mix(key)", guard.clone())
        } else {
            let _ = writeln!(
                text,
                "{indent}if ({guard} && key >= (u32)p.num_slots) atomicMax(&p.flags[FLAG_KEY_RANGE], 1u);"
            );
            ("key", format!("{guard} && key < (u32)p.num_slots"))
        };
        let _ = writeln!(text, "{indent}const {} hash = {hash};", self.key_type());
        self.write_record_of_row(rows, text);
        let _ = writeln!(
            text,
            "{indent}const u64 held = hot_keys[hot_cell_of(hash)];\n\
             {indent}places[ur] = NO_PLACE;\n\
             {indent}if ({counts}) {{"
        );
        let null_apart = rows.write_null_apart(text);
        let _ = writeln!(
            text,
            "{indent}    places[ur] = 0;\n\
             {indent}    special |= (held == hash || held == 0xffffffffffffffffull ? 1u : 0u) << ur;"
        );
        let close = if null_apart { "    }\n" } else { "" };
        let _ = writeln!(text, "{close}{indent}}}");
    }

    /// Adds the rows of hot keys to their cells; a vacant cell's first key is hot from then on.
    fn write_hot(&self, rows: &StoreCode<'_>, text: &mut String) {
        // A mixed key of all ones is what a vacant cell has.
        let is_hot = if rows.store == Store::Hash {
            "held == r.key && r.key != EMPTY"
        } else {
            "held == r.key"
        };
        let _ = writeln!(
            text,
            "        if (special != 0) {{\n\
             #pragma unroll\n\
             \x20           for (int ur = 0; ur < RECORDS; ur++) {{\n\
             \x20               if (((special >> ur) & 1) == 0) continue;\n\
             \x20               const Record& r = records[ur];\n\
             \x20               const u32 cell = hot_cell_of(r.key);\n\
             \x20               u64 held = ((volatile u64*)hot_keys)[cell];\n\
             \x20               if (held == 0xffffffffffffffffull) {{\n\
             \x20                   held = atomicCAS(hot_keys + cell, 0xffffffffffffffffull, (u64)r.key);\n\
             \x20                   if (held == 0xffffffffffffffffull) held = r.key;\n\
             \x20               }}\n\
             \x20               if (!({is_hot})) continue;"
        );
        self.over_records(rows).write_shared_update(text, "cell");
        text.push_str(
            "                places[ur] = NO_PLACE;\n\
             \x20           }\n\
             \x20       }\n",
        );
    }

    fn write_record_of_row(&self, rows: &StoreCode<'_>, text: &mut String) {
        let indent = "                ";
        for field in &self.fields {
            let name = field.name();
            let value = match field.source {
                Source::Key => "hash".into(),
                Source::Conditions => {
                    let bits = self.conditions.iter().enumerate();
                    let bits = bits.map(|(bit, of)| {
                        let code = of.code(rows.row, &rows.guard);
                        format!("({code} ? {}u : 0u)", 1_u32 << bit)
                    });
                    bits.collect::<Vec<_>>().join(" | ")
                }
                Source::Word(position) => {
                    let word = &rows.words[position];
                    let (condition, value) = rows.addend(word);
                    match word.rows {
                        Rows::Selected => value,
                        _ => format!("{condition} ? {value} : 0ull"),
                    }
                }
            };
            let _ = writeln!(
                text,
                "{indent}records[ur].{name} = ({})({value});",
                field.data_type.name()
            );
        }
    }

    /// Ends a tile of `fold`, and the kernel.
    pub(super) fn write_fold_end(
        &self,
        rows: &StoreCode<'_>,
        loads: &LoadCode<'_>,
        outside: &str,
        text: &mut String,
    ) {
        self.write_hot(rows, text);
        text.push_str(
            "        const u32 total = sort_tile<UNIT>(p, staging, places, records, 0, next);\n\
             \x20       tile = *staging.next;\n",
        );
        write_tile_fetch(text, loads);
        text.push_str("        write_tile<UNIT>(p, staging, total, 0);\n");
        text.push_str("       if (*staging.crowded != 0) {\n");
        let absorb = absorb_cell(rows.store);
        rows.write_cells_end(text, absorb, true);
        text.push_str(
            "            __syncthreads();\n\
             \x20       }\n\
             \x20   }\n\
             \x20   if (UNIT > 1) absorb_kept(p, staging);\n",
        );
        text.push_str(outside);
        text.push_str("    __syncthreads();\n");
        rows.write_cells_end(text, absorb, false);
        text.push_str("}\n");
    }

    /// Writes the kernels that read records.
    pub(super) fn write_readers(&self, rows: &StoreCode<'_>, text: &mut String) {
        let code = self.over_records(rows);
        text.push('\n');
        readers::write(&code, text);
    }
}

/// Finds the place of the next tile, if there is one, and fetches what its rows are decoded of.
fn write_tile_fetch(text: &mut String, loads: &LoadCode<'_>) {
    text.push_str(
        "        if (tile < (u32)p.num_tiles) {\n\
         \x20           const u32 segment = tile / (u32)p.tiles_per_segment;\n\
         \x20           first = (tile - segment * (u32)p.tiles_per_segment) * TG_TILE;\n\
         \x20           rows = p.segment_rows[segment];\n\
         \x20           columns = p.columns + (u64)segment * num_columns;\n",
    );
    loads.write_columns(text);
    loads.write_fetch(text, "step", "true");
    text.push_str("        }\n");
}

impl Field {
    fn name(&self) -> String {
        match self.source {
            Source::Key => "key".into(),
            Source::Word(position) => format!("word{position}"),
            Source::Conditions => "conditions".into(),
        }
    }
}

/// Returns how many hot keys a block has room for.
pub(super) fn hot_keys(words: &[Word], limits: &RadixLimits) -> u32 {
    let fits = |keys: &u32| u64::from(*keys) * hot_bytes(words) <= limits.block_bytes / 4;
    let halves = iter::successors(Some(limits.hot_keys), |keys| Some(keys / 2));
    halves.take_while(|keys| *keys > 2).find(fits).unwrap_or(2)
}

/// Returns the bytes of a hot key and what its rows add.
fn hot_bytes(words: &[Word]) -> u64 {
    let word_bytes = |word: &Word| match word.op {
        WordOp::Count | WordOp::Seen => 4,
        WordOp::Add | WordOp::Max | WordOp::Part | WordOp::Combine(_) => 8,
    };
    8 + words.iter().map(word_bytes).sum::<u64>()
}

/// Returns how a cell's words are added to the table.
fn absorb_cell(store: Store) -> &'static str {
    match store {
        Store::Hash => "absorb_key(p, unmix(key), words);",
        _ => "absorb_words(p.state + key * NUM_WORDS, words);",
    }
}

impl FieldType {
    fn unsigned(bytes: u64) -> Self {
        Self {
            bytes,
            is_signed: false,
        }
    }

    /// Returns the narrowest that holds the integers of an interval.
    fn of(range: Interval) -> Self {
        for bytes in [1, 2, 4] {
            let bits = bytes as u32 * 8;
            for is_signed in [false, true] {
                let held = match is_signed {
                    true => Interval::signed(bits),
                    false => Interval::unsigned(bits),
                };
                if range.is_within(held) {
                    return Self { bytes, is_signed };
                }
            }
        }
        Self {
            bytes: 8,
            is_signed: true,
        }
    }

    /// Returns what C++ calls it.
    fn name(self) -> &'static str {
        match (self.bytes, self.is_signed) {
            (1, false) => "u8",
            (2, false) => "u16",
            (4, false) => "u32",
            (_, false) => "u64",
            (1, true) => "i8",
            (2, true) => "i16",
            (4, true) => "i32",
            (_, true) => "i64",
        }
    }
}
