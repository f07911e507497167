//! Puts a kernel's source together.
//!
//! A launch takes a table of segments, each of consecutive rows of one chunk, all but the last of a
//! chunk with the same number of tiles. A block takes every `gridDim.x`-th tile; in each step of a
//! tile a thread reads UNROLL runs of ROWS consecutive rows of every column, all loads before the
//! first use, and then takes the rows one by one.

use std::fmt::Write;

use arrow_schema::DataType;
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{Aggregate, Expr, Pipeline};

use super::emit::{Class, Emitter, Scope, Val, Valid, Word, WordOp};
use super::slots::{Slot, SlotFacts, SlotKind};
use super::store::{GroupPlan, Grouping, HOT_KEYS, KeyPlan, ONE_PLANE_ROWS, Store, is_one_plane};
use super::{DeviceProgram, OutputColumn, ProgramOptions, Sink};

const PRELUDE: &str = include_str!("../../cuda/prelude.cuh");
const DECODE: &str = include_str!("../../cuda/decode.cuh");
const CHECKED: &str = include_str!("../../cuda/checked.cuh");
const CALENDAR: &str = include_str!("../../cuda/calendar.cuh");
const FLOAT_SUM: &str = include_str!("../../cuda/float_sum.cuh");
const STORE: &str = include_str!("../../cuda/store.cuh");
const HASH: &str = include_str!("../../cuda/hash.cuh");

/// Rows of a tile of 256 threads.
const ROWS_PER_TILE: u32 = 4096;

/// The fields of a launch before its literals, each a word of 64 bits, in order.
const LAUNCH_FIELDS: [(&str, &str); 16] = [
    ("const Column*", "columns"),
    ("const u32*", "segment_rows"),
    ("u64", "num_tiles"),
    ("u64", "tiles_per_segment"),
    ("u64*", "state"),
    ("u32*", "flags"),
    ("u64", "num_slots"),
    ("u64*", "keys"),
    ("u64*", "spill"),
    ("u64", "spill_capacity"),
    ("u64*", "resume"),
    ("const u64*", "from_keys"),
    ("const u64*", "from_words"),
    ("u64", "from_count"),
    ("u32*", "tile_counts"),
    ("const u64*", "outputs"),
];

/// Returns the place of a launch's field among its words.
///
/// # Panics
/// Never for a name of this module; an unknown name is a slip of the launcher's author.
pub fn launch_words(field: &str) -> usize {
    let position = LAUNCH_FIELDS.iter().position(|(_, name)| *name == field);
    assert!(position.is_some(), "no launch field is called {field}");
    position.unwrap_or(0)
}

/// Returns how many words of a launch come before its literals.
pub const NUM_LAUNCH_FIELDS: usize = LAUNCH_FIELDS.len();

/// The most literals of a launch: a kernel's parameters are limited to 4 KiB.
const LITERALS_MAX: usize = 480;

/// The kernel that groups rows.
pub(super) fn grouped(
    mut emitter: Emitter<'_>,
    aggregate: &Aggregate,
    scope: &Scope,
    num_steps: usize,
    options: &ProgramOptions,
) -> Result<DeviceProgram, String> {
    let mut grouping = Grouping::emit(&mut emitter, aggregate, scope)?;
    let packed = grouping.pack();
    if packed.is_none() && grouping.keys.len() > 1 {
        return Err("group keys whose ranges need more than 64 bits have no device form".into());
    }
    let store = grouping.choose(packed, options.limits);
    let key_literals = emitter.literals.len();
    for (key, _) in &grouping.keys {
        let null = key.num_values as u64;
        emitter.literals.extend([key.low as u64, null, key.stride]);
    }
    let shape = Shape::of(&emitter.slots, options.threads);
    let is_full = packed.is_none();
    let code = StoreCode {
        store,
        words: &grouping.words.words,
        num_words: grouping.ops.len(),
        keys: &grouping.keys,
        key_literals,
        guard: emitter.guard.clone(),
        is_full,
    };
    let mut text = preamble(&emitter, &shape);
    if store == Store::Hash {
        text.push_str(HASH);
    }
    code.write_functions(&mut text);
    write_kernel_head(&mut text, "fold", &emitter.slots);
    code.write_begin(&mut text);
    write_tile_head(&mut text, store == Store::Hash);
    write_loads(&mut text, &emitter.slots);
    for line in &emitter.lines {
        let _ = writeln!(text, "                {line}");
    }
    code.write_update(&mut text);
    text.push_str("            }\n        }\n");
    code.write_tile_end(&mut text, &shape);
    text.push_str("    }\n");
    code.write_end(&mut text);
    text.push_str("}\n");
    if store == Store::Hash {
        code.write_absorb(&mut text);
    }
    let shared_bytes = code.shared_bytes(packed);
    let plan = GroupPlan {
        keys: grouping.keys.iter().map(|(key, _)| key.clone()).collect(),
        key_literals,
        num_packed: packed,
        calls: grouping.calls,
        words: grouping.ops,
        store,
        shared_bytes,
    };
    finish(emitter, text, Sink::Groups(plan), num_steps, &shape, options)
}

/// The kernels that count and write the selected rows.
pub(super) fn compacted(
    mut emitter: Emitter<'_>,
    pipeline: &Pipeline,
    scope: &Scope,
    options: &ProgramOptions,
) -> Result<DeviceProgram, String> {
    let num_filter_lines = emitter.lines.len();
    let mut columns = Vec::new();
    let mut writes = String::new();
    for (index, field) in pipeline.output.fields().iter().enumerate() {
        let expr = Expr::column(index, field.data_type().clone()).map_err(|why| why.to_string())?;
        let value = emitter.key(&expr, scope)?;
        let dictionary = emitter.dictionary_of(&value);
        let (name, width) = written_as(field.data_type());
        let nullable = value.valid != Valid::Always;
        let _ = writeln!(
            writes,
            "                    (({name}*)p.outputs[{}])[position] = ({name}){};",
            2 * index,
            value.code
        );
        if nullable {
            let _ = writeln!(
                writes,
                "                    ((u8*)p.outputs[{}])[position] = {};",
                2 * index + 1,
                value.valid.code()
            );
        }
        columns.push(OutputColumn {
            width,
            nullable,
            dictionary,
        });
    }
    let mut shape = Shape::of(&emitter.slots, options.threads);
    shape.unroll = 1;
    shape.steps = (shape.steps * 2).max(1);
    let mut text = preamble(&emitter, &shape);
    let guard = emitter.guard.clone();
    write_kernel_head(&mut text, "count_rows", &emitter.slots);
    write_tile_head(&mut text, false);
    text.push_str("        u32 found = 0;\n");
    let body = text.len();
    write_loads(&mut text, &emitter.slots);
    for line in &emitter.lines[..num_filter_lines] {
        let _ = writeln!(text, "                {line}");
    }
    let _ = writeln!(text, "                found += {guard} ? 1 : 0;");
    text.push_str("            }\n        }\n");
    // The declaration belongs before the step's loop, which the tile's head has opened.
    let moved = text[body - "        u32 found = 0;\n".len()..body].to_owned();
    text.replace_range(body - moved.len()..body, "");
    let opening = "#pragma unroll 1\n        for (u32 step = 0;";
    let at = text.rfind(opening).unwrap_or(text.len());
    text.insert_str(at, &moved);
    text.push_str(
        "        found = (u32)warp_sum(found);\n\
         \x20       if ((threadIdx.x & 31) == 0 && found != 0) atomicAdd(&p.tile_counts[tile], found);\n\
         \x20   }\n}\n",
    );
    write_kernel_head(&mut text, "write_rows", &emitter.slots);
    text.push_str("    __shared__ u32 warp_counts[TG_BLOCK / 32];\n");
    write_tile_head(&mut text, false);
    let opening = "#pragma unroll 1\n        for (u32 step = 0;";
    let at = text.rfind(opening).unwrap_or(text.len());
    text.insert_str(at, "        u64 position_of_step = p.from_words[tile];\n");
    write_write_body(&mut text, &emitter, &guard, &writes);
    text.push_str("        }\n    }\n}\n");
    let num_steps = pipeline.steps.len();
    finish(emitter, text, Sink::Rows(columns), num_steps, &shape, options)
}

/// Rows keep their order: a thread's rows are consecutive, and its first place is the number of
/// rows that the threads before it have found in this step.
fn write_write_body(text: &mut String, emitter: &Emitter<'_>, guard: &str, writes: &str) {
    // The rows are evaluated twice: once to count them, once to write them. What is loaded stays in
    // registers.
    write_load_statements(text, &emitter.slots);
    text.push_str("            u32 found = 0;\n            u32 mask = 0;\n");
    write_row_loop(text, &emitter.slots);
    for line in &emitter.lines {
        let _ = writeln!(text, "                {line}");
    }
    let _ = writeln!(text, "                mask |= ({guard} ? 1u : 0u) << r;");
    text.push_str(
        "            }\n\
         \x20           found = __popc(mask);\n\
         \x20           u32 before = found;\n\
         #pragma unroll\n\
         \x20           for (int distance = 1; distance < 32; distance *= 2) {\n\
         \x20               u32 other = __shfl_up_sync(0xffffffffu, before, distance);\n\
         \x20               if ((threadIdx.x & 31) >= distance) before += other;\n\
         \x20           }\n\
         \x20           if ((threadIdx.x & 31) == 31) warp_counts[threadIdx.x / 32] = before;\n\
         \x20           __syncthreads();\n\
         \x20           u32 total = 0;\n\
         \x20           for (u32 warp = 0; warp < TG_BLOCK / 32; warp++) {\n\
         \x20               if (warp == threadIdx.x / 32) before += total;\n\
         \x20               total += warp_counts[warp];\n\
         \x20           }\n\
         \x20           __syncthreads();\n\
         \x20           u64 position = position_of_step + before - found;\n\
         \x20           position_of_step += total;\n",
    );
    write_row_loop(text, &emitter.slots);
    for line in &emitter.lines {
        let _ = writeln!(text, "                {line}");
    }
    let _ = writeln!(text, "                if ({guard}) {{\n{writes}                    position++;\n                }}");
    text.push_str("            }\n");
}

/// Returns how values of a type are written for the host: as Arrow has them, booleans as bytes,
/// strings as codes.
fn written_as(data_type: &DataType) -> (&'static str, u32) {
    if is_string(data_type) {
        return ("u32", 4);
    }
    match data_type {
        DataType::Boolean => ("u8", 1),
        DataType::Float32 => ("float", 4),
        DataType::Float64 => ("double", 8),
        other => match other.primitive_width() {
            Some(1) => ("u8", 1),
            Some(2) => ("u16", 2),
            Some(4) => ("u32", 4),
            Some(8) => ("u64", 8),
            _ => ("i128", 16),
        },
    }
}

fn finish(
    emitter: Emitter<'_>,
    text: String,
    sink: Sink,
    num_steps: usize,
    shape: &Shape,
    options: &ProgramOptions,
) -> Result<DeviceProgram, String> {
    if emitter.literals.len() > LITERALS_MAX {
        return Err(format!("more than {LITERALS_MAX} words of literals"));
    }
    Ok(DeviceProgram {
        text,
        slots: emitter.slots,
        literals: emitter.literals,
        sink,
        num_steps,
        threads: options.threads,
        tile_rows: shape.tile_rows(),
    })
}

/// How a tile is cut up among threads.
#[derive(Clone, Copy, Debug)]
struct Shape {
    threads: u32,
    /// Consecutive rows that a thread reads at once.
    rows: u32,
    /// Such runs of rows in flight.
    unroll: u32,
    /// Steps of a tile.
    steps: u32,
}

impl Shape {
    fn of(slots: &[(Slot, SlotFacts)], threads: u32) -> Self {
        let widest = |facts: &SlotFacts| facts.widths.iter().copied().max().unwrap_or(8).max(1);
        let width = slots.iter().map(|(_, facts)| widest(facts)).max().unwrap_or(8);
        let rows = (16 / width).clamp(2, 8);
        let row_bytes: u32 = slots.iter().map(|(_, facts)| widest(facts)).sum();
        // About 64 bytes of loads a thread are in flight.
        let unroll = (64 / (row_bytes * rows).max(1)).clamp(1, 4);
        let unroll = 1 << unroll.ilog2();
        let step = threads * rows * unroll;
        let steps = (ROWS_PER_TILE * threads / 256 / step).max(1);
        Self {
            threads,
            rows,
            unroll,
            steps,
        }
    }

    fn tile_rows(&self) -> u32 {
        self.threads * self.rows * self.unroll * self.steps
    }
}

fn preamble(emitter: &Emitter<'_>, shape: &Shape) -> String {
    let mut text = String::with_capacity(32 << 10);
    for (name, value) in [
        ("TG_BLOCK", shape.threads),
        ("TG_ROWS", shape.rows),
        ("TG_UNROLL", shape.unroll),
        ("TG_TILE", shape.tile_rows()),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    text.push_str(PRELUDE);
    text.push_str(DECODE);
    for (used, block) in [
        (emitter.uses_checked, CHECKED),
        (emitter.uses_calendar, CALENDAR),
        (emitter.uses_float_sum, FLOAT_SUM),
        (true, STORE),
    ] {
        if used {
            text.push_str(block);
        }
    }
    text.push_str("\nstruct Launch {\n");
    for (data_type, name) in LAUNCH_FIELDS {
        let _ = writeln!(text, "    {data_type} {name};");
    }
    let literals = emitter.literals.len().max(1);
    let _ = writeln!(text, "    u64 literals[{literals}];\n}};\n");
    text
}

fn write_kernel_head(text: &mut String, name: &str, slots: &[(Slot, SlotFacts)]) {
    let _ = writeln!(
        text,
        "extern \"C\" __global__ void __launch_bounds__(TG_BLOCK) {name}(const __grid_constant__ Launch p) {{"
    );
    let _ = writeln!(text, "    const u32 num_columns = {};", slots.len().max(1));
}

fn write_tile_head(text: &mut String, resumes: bool) {
    if resumes {
        text.push_str("    for (u64 tile = p.resume[blockIdx.x]; tile < p.num_tiles; tile += gridDim.x) {\n");
    } else {
        text.push_str("    for (u64 tile = blockIdx.x; tile < p.num_tiles; tile += gridDim.x) {\n");
    }
    text.push_str(
        "        const u64 segment = tile / p.tiles_per_segment;\n\
         \x20       const u32 first = (u32)(tile % p.tiles_per_segment) * TG_TILE;\n\
         \x20       const u32 rows = p.segment_rows[segment];\n\
         \x20       if (first >= rows) continue;\n\
         \x20       const Column* columns = p.columns + segment * num_columns;\n",
    );
    text.push_str(
        "#pragma unroll 1\n\
         \x20       for (u32 step = 0; step < TG_TILE; step += TG_BLOCK * TG_ROWS * TG_UNROLL) {\n",
    );
}

/// Loads all columns of a step, then opens the loop over its rows.
fn write_loads(text: &mut String, slots: &[(Slot, SlotFacts)]) {
    write_load_statements(text, slots);
    write_row_loop(text, slots);
}

fn write_load_statements(text: &mut String, slots: &[(Slot, SlotFacts)]) {
    for (index, (slot, facts)) in slots.iter().enumerate() {
        let _ = writeln!(text, "            const Column& k{index} = columns[{index}];");
        let class = slot_class(slot, facts).name();
        let _ = writeln!(text, "            {class} d{index}[TG_UNROLL][TG_ROWS];");
        if facts.nullable {
            let _ = writeln!(text, "            u32 n{index}[TG_UNROLL];");
        }
    }
    text.push_str(
        "#pragma unroll\n\
         \x20           for (int u = 0; u < TG_UNROLL; u++) {\n\
         \x20               const u32 at = first + step + (u * TG_BLOCK + threadIdx.x) * TG_ROWS;\n\
         \x20               if (at < rows) {\n",
    );
    for (index, (slot, facts)) in slots.iter().enumerate() {
        write_load(text, index, slot, facts);
    }
    text.push_str("                } else {\n");
    for (index, (_, facts)) in slots.iter().enumerate() {
        let _ = writeln!(
            text,
            "#pragma unroll\n                    for (int r = 0; r < TG_ROWS; r++) d{index}[u][r] = 0;"
        );
        if facts.nullable {
            let _ = writeln!(text, "                    n{index}[u] = 0;");
        }
    }
    text.push_str("                }\n            }\n");
}

fn write_row_loop(text: &mut String, slots: &[(Slot, SlotFacts)]) {
    text.push_str(
        "#pragma unroll\n\
         \x20           for (int ur = 0; ur < TG_UNROLL * TG_ROWS; ur++) {\n\
         \x20               const int u = ur / TG_ROWS, r = ur % TG_ROWS;\n\
         \x20               const u32 at = first + step + (u * TG_BLOCK + threadIdx.x) * TG_ROWS;\n\
         \x20               const bool selected = at + r < rows;\n",
    );
    for (index, (slot, facts)) in slots.iter().enumerate() {
        let class = slot_class(slot, facts).name();
        let _ = writeln!(text, "                const {class}* const c{index} = d{index}[u];");
        if facts.nullable {
            let _ = writeln!(text, "                const u32 b{index} = n{index}[u];");
        }
    }
    text.push_str("                (void)at;\n");
}

fn slot_class(slot: &Slot, facts: &SlotFacts) -> Class {
    match slot.kind {
        SlotKind::Float32 => Class::F32,
        SlotKind::Float64 => Class::F64,
        _ => Class::of(facts.range),
    }
}

fn write_load(text: &mut String, index: usize, slot: &Slot, facts: &SlotFacts) {
    let indent = "                    ";
    let class = slot_class(slot, facts);
    let call = |width: u32| match (slot.kind, class, width) {
        (SlotKind::Float32, ..) => format!("decode_float<TG_ROWS>(k{index}, at, d{index}[u]);"),
        (SlotKind::Float64, ..) => format!("decode_double<TG_ROWS>(k{index}, at, d{index}[u]);"),
        (_, _, 0) => format!("decode_constant<TG_ROWS>(k{index}, d{index}[u]);"),
        (_, _, 16) => format!("decode_wide<TG_ROWS>(k{index}, at, d{index}[u]);"),
        (_, Class::I128, 8) if slot.expr.data_type == DataType::UInt64 => {
            format!("decode_unsigned<TG_ROWS>(k{index}, at, d{index}[u]);")
        }
        (_, class, width) => format!(
            "decode<{width}, TG_ROWS, {}, {}>(k{index}, at, d{index}[u]);",
            class.name(),
            facts.scaled
        ),
    };
    match facts.widths.as_slice() {
        [one] => {
            let _ = writeln!(text, "{indent}{}", call(*one));
        }
        widths => {
            let _ = writeln!(text, "{indent}switch (k{index}.width) {{");
            let (last, others) = widths.split_last().unwrap_or((&8, &[]));
            for width in others {
                let _ = writeln!(text, "{indent}    case {width}: {} break;", call(*width));
            }
            let _ = writeln!(text, "{indent}    default: {} break;", call(*last));
            let _ = writeln!(text, "{indent}}}");
        }
    }
    if facts.nullable {
        let _ = writeln!(text, "{indent}n{index}[u] = validity_of(k{index}, at);");
    }
}

/// Writes the parts of a kernel that keep the groups.
struct StoreCode<'a> {
    store: Store,
    words: &'a [Word],
    num_words: usize,
    keys: &'a [(KeyPlan, Val)],
    key_literals: usize,
    guard: String,
    /// The key is one of all 64-bit integers: the one that EMPTY is has a slot of its own.
    is_full: bool,
}

impl StoreCode<'_> {
    fn cells(&self) -> String {
        match self.store {
            Store::Shared { replicas } => format!("((u32)p.num_slots * {replicas}u)"),
            _ => format!("{HOT_KEYS}u"),
        }
    }

    fn shared_bytes(&self, packed: Option<u64>) -> u32 {
        let cell: u64 = self.words.iter().map(|word| self.planes(word).0 * 4).sum();
        let bytes = match self.store {
            Store::Registers => 0,
            Store::Shared { replicas } => packed.unwrap_or(0) * u64::from(replicas) * cell,
            Store::Dense | Store::Hash => u64::from(HOT_KEYS) * (cell + 8),
        };
        u32::try_from(bytes.next_multiple_of(16)).unwrap_or(u32::MAX)
    }

    /// Returns how many planes of 32 bits a word has in shared memory, and whether it is whole.
    fn planes(&self, word: &Word) -> (u64, bool) {
        match word.op {
            WordOp::Count => (1, false),
            WordOp::Max => (2, true),
            WordOp::Add if self.has_one_plane(word) => (1, false),
            WordOp::Add => (2, false),
        }
    }

    fn has_one_plane(&self, word: &Word) -> bool {
        // A hot key's state is kept to the end, so that only the shared table is flushed in time.
        matches!(self.store, Store::Shared { .. }) && is_one_plane(word)
    }

    /// Returns the C++ address of a word's planes at a cell.
    fn plane(&self, position: usize, cell: &str) -> (String, String) {
        let word = &self.words[position];
        if word.op == WordOp::Max {
            let before = self.words[..position]
                .iter()
                .filter(|word| word.op == WordOp::Max)
                .count();
            return (format!("whole_plane + {before}u * cells + {cell}"), String::new());
        }
        let before: u64 = self.words[..position]
            .iter()
            .filter(|word| word.op != WordOp::Max)
            .map(|word| self.planes(word).0)
            .sum();
        (
            format!("plane + {before}u * cells + {cell}"),
            format!("plane + {}u * cells + {cell}", before + 1),
        )
    }

    /// The functions that put a group's words into global memory.
    fn write_functions(&self, text: &mut String) {
        let _ = writeln!(text, "#define NUM_WORDS {}", self.num_words);
        text.push_str(
            "\n// Adds what one row, or a block, has for a group.\n\
             __device__ __forceinline__ void absorb_words(u64* state, const u64 (&words)[NUM_WORDS + 1]) {\n",
        );
        for word in self.words {
            let index = word.index;
            let _ = match (word.op, word.split) {
                (WordOp::Max, _) => writeln!(text, "    if (words[{index}] != 0) max_word(state + {index}, words[{index}]);"),
                (_, true) => writeln!(
                    text,
                    "    if (words[{index}] != 0) add_word(state + {index}, words[{index}]);\n    if (words[{0}] != 0) add_word(state + {0}, words[{0}]);",
                    index + 1
                ),
                (_, false) => writeln!(text, "    if (words[{index}] != 0) add_word(state + {index}, words[{index}]);"),
            };
        }
        text.push_str("}\n");
        if self.store == Store::Hash {
            self.write_hash_functions(text);
        }
    }

    fn write_hash_functions(&self, text: &mut String) {
        text.push_str(
            "\n// Adds to a group, which is made if it is not there; without room, to the spill buffer.\n\
             __device__ __forceinline__ void absorb_key(const Launch& p, u64 key, const u64 (&words)[NUM_WORDS + 1]) {\n\
             \x20   u64 slot = key == EMPTY ? p.num_slots : find_or_insert(p.keys, p.num_slots - 1, key);\n\
             \x20   if (slot != NO_SLOT) {\n\
             \x20       absorb_words(p.state + slot * NUM_WORDS, words);\n\
             \x20       return;\n\
             \x20   }\n\
             \x20   u64 record = atomicAdd(&p.flags[FLAG_SPILLED], 1u);\n\
             \x20   if (record >= p.spill_capacity) return;\n\
             \x20   u64* to = p.spill + record * (NUM_WORDS + 1);\n\
             \x20   to[0] = key;\n\
             #pragma unroll\n\
             \x20   for (int word = 0; word < NUM_WORDS; word++) to[1 + word] = words[word];\n\
             }\n",
        );
    }

    /// Moves the groups of an older table, or spilled records, into the table of the launch.
    fn write_absorb(&self, text: &mut String) {
        text.push_str(
            "\nextern \"C\" __global__ void __launch_bounds__(TG_BLOCK) absorb(const __grid_constant__ Launch p) {\n\
             \x20   for (u64 i = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; i < p.from_count; i += gridDim.x * (u64)TG_BLOCK) {\n\
             \x20       const u64* from = p.from_keys ? p.from_words + i * NUM_WORDS : p.from_words + i * (NUM_WORDS + 1) + 1;\n\
             \x20       u64 key = p.from_keys ? p.from_keys[i] : from[-1];\n\
             \x20       if (p.from_keys && key == EMPTY) continue;\n\
             \x20       u64 words[NUM_WORDS + 1];\n\
             #pragma unroll\n\
             \x20       for (int word = 0; word < NUM_WORDS; word++) words[word] = from[word];\n\
             \x20       absorb_key(p, key, words);\n\
             \x20   }\n\
             }\n",
        );
    }

    fn write_begin(&self, text: &mut String) {
        match self.store {
            Store::Registers => {
                for (position, word) in self.words.iter().enumerate() {
                    let class = if word.op == WordOp::Count { "u32" } else { "u64" };
                    let _ = writeln!(text, "    {class} sum{position} = 0;");
                }
                return;
            }
            Store::Shared { .. } => {}
            Store::Dense | Store::Hash => {}
        }
        let wholes = self.words.iter().filter(|word| word.op == WordOp::Max).count();
        let planes: u64 = self.words.iter().map(|word| self.planes(word).0).sum();
        text.push_str("    extern __shared__ __align__(16) unsigned char shared_memory[];\n");
        let _ = writeln!(text, "    const u32 cells = {};", self.cells());
        if matches!(self.store, Store::Shared { .. }) {
            text.push_str("    u64* const whole_plane = (u64*)shared_memory;\n");
        } else {
            text.push_str(
                "    u64* const hot_keys = (u64*)shared_memory;\n\
                 \x20   u64* const whole_plane = hot_keys + cells;\n\
                 \x20   for (u32 i = threadIdx.x; i < cells; i += TG_BLOCK) hot_keys[i] = 0xffffffffffffffffull;\n",
            );
        }
        let _ = writeln!(text, "    u32* const plane = (u32*)(whole_plane + {wholes}u * cells);");
        let _ = writeln!(
            text,
            "    for (u32 i = threadIdx.x; i < {planes}u * cells; i += TG_BLOCK) ((u32*)whole_plane)[i] = 0;\n    __syncthreads();"
        );
        if let Store::Shared { replicas } = self.store {
            let _ = writeln!(text, "    const u32 replica = threadIdx.x & {}u;\n    u32 tiles_done = 0;", replicas - 1);
        }
    }

    /// Returns the C++ condition and value of a word.
    fn addend(&self, word: &Word) -> (String, String) {
        let value = match word.op {
            WordOp::Count => "1ull".to_owned(),
            _ => word.code.clone(),
        };
        (word.condition.clone(), value)
    }

    fn write_key(&self, text: &mut String) {
        let wide = matches!(self.store, Store::Hash);
        let word = if wide { "u64" } else { "u32" };
        let mut terms = Vec::new();
        for (position, (_, value)) in self.keys.iter().enumerate() {
            let at = self.key_literals + 3 * position;
            let cast = if wide && value.class != Class::I128 { "(u64)(i64)" } else { "" };
            let index = format!("(({word}){cast}{} - ({word})p.literals[{at}])", value.code);
            let index = match &value.valid {
                Valid::Always => index,
                valid => format!("({} ? {index} : ({word})p.literals[{}])", valid.code(), at + 1),
            };
            terms.push(if position == 0 {
                index
            } else {
                format!("{index} * ({word})p.literals[{}]", at + 2)
            });
        }
        let _ = writeln!(text, "                const {word} key = {};", terms.join(" + "));
    }

    fn write_update(&self, text: &mut String) {
        let indent = "                ";
        match self.store {
            Store::Registers => {
                for (position, word) in self.words.iter().enumerate() {
                    let (condition, value) = self.addend(word);
                    let _ = match word.op {
                        WordOp::Count => writeln!(text, "{indent}sum{position} += {condition} ? 1u : 0u;"),
                        WordOp::Add => writeln!(text, "{indent}sum{position} += {condition} ? {value} : 0ull;"),
                        WordOp::Max => writeln!(
                            text,
                            "{indent}{{ const u64 image = {value}; if ({condition} && image > sum{position}) sum{position} = image; }}"
                        ),
                    };
                }
            }
            Store::Shared { replicas } => {
                self.write_key(text);
                let _ = writeln!(text, "{indent}if ({} && key >= (u32)p.num_slots) atomicMax(&p.flags[FLAG_KEY_RANGE], 1u);", self.guard);
                let _ = writeln!(text, "{indent}else if ({}) {{", self.guard);
                let _ = writeln!(text, "{indent}    const u32 cell = key * {replicas}u + replica;");
                self.write_shared_update(text, "cell");
                let _ = writeln!(text, "{indent}}}");
            }
            Store::Dense | Store::Hash => self.write_global_update(text),
        }
    }

    fn write_shared_update(&self, text: &mut String, cell: &str) {
        let indent = "                    ";
        for (position, word) in self.words.iter().enumerate() {
            let (condition, value) = self.addend(word);
            let (low, high) = self.plane(position, cell);
            let guard = if condition == self.guard {
                String::new()
            } else {
                format!("if ({condition}) ")
            };
            let _ = match word.op {
                WordOp::Count => writeln!(text, "{indent}{guard}atomicAdd({low}, 1u);"),
                WordOp::Add if self.has_one_plane(word) => {
                    writeln!(text, "{indent}{guard}atomicAdd({low}, (u32)({value}));")
                }
                WordOp::Add => writeln!(text, "{indent}{guard}shared_add({low}, {high}, {value});"),
                WordOp::Max => writeln!(text, "{indent}{guard}max_word({low}, {value});"),
            };
        }
    }

    fn write_global_update(&self, text: &mut String) {
        let indent = "                ";
        self.write_key(text);
        if self.store == Store::Dense {
            let _ = writeln!(text, "{indent}if ({} && key >= (u32)p.num_slots) atomicMax(&p.flags[FLAG_KEY_RANGE], 1u);", self.guard);
            let _ = writeln!(text, "{indent}else if ({}) {{", self.guard);
            let _ = writeln!(text, "{indent}    const u32 cell = (key * 2654435761u) >> {};", 32 - HOT_KEYS.ilog2());
        } else {
            let _ = writeln!(text, "{indent}if ({}) {{", self.guard);
            let _ = writeln!(text, "{indent}    const u32 cell = (u32)((key * 11400714819323198485ull) >> {});", 64 - HOT_KEYS.ilog2());
        }
        let valid = self.keys.first().map_or("true", |(_, value)| value.valid.code());
        let null_apart = self.is_full && self.keys.iter().any(|(key, _)| key.nullable);
        if null_apart {
            let _ = writeln!(text, "{indent}    if (!({valid})) {{");
            self.write_row_words(text);
            let _ = writeln!(text, "{indent}        absorb_words(p.state + (p.num_slots + 1) * NUM_WORDS, words);\n{indent}    }} else {{");
        }
        let _ = writeln!(
            text,
            "{indent}    u64 held = ((volatile u64*)hot_keys)[cell];\n\
             {indent}    if (held == 0xffffffffffffffffull) {{\n\
             {indent}        held = atomicCAS(hot_keys + cell, 0xffffffffffffffffull, (u64)key);\n\
             {indent}        if (held == 0xffffffffffffffffull) held = key;\n\
             {indent}    }}"
        );
        // EMPTY itself may be a key where all 64-bit integers are; it never gets a cell.
        let is_key = if self.is_full { "held == key && key != 0xffffffffffffffffull" } else { "held == key" };
        let _ = writeln!(text, "{indent}    if ({is_key}) {{");
        self.write_shared_update(text, "cell");
        let _ = writeln!(text, "{indent}    }} else {{");
        self.write_row_words(text);
        if self.store == Store::Dense {
            let _ = writeln!(text, "{indent}        absorb_words(p.state + (u64)key * NUM_WORDS, words);");
        } else {
            let _ = writeln!(text, "{indent}        absorb_key(p, key, words);");
        }
        let close = if null_apart { "}" } else { "" };
        let _ = writeln!(text, "{indent}    }}{close}\n{indent}}}");
    }

    fn write_row_words(&self, text: &mut String) {
        let indent = "                        ";
        let _ = writeln!(text, "{indent}u64 words[NUM_WORDS + 1];");
        for word in self.words {
            let (condition, value) = self.addend(word);
            let chosen = if condition == self.guard {
                value
            } else {
                format!("({condition} ? {value} : 0ull)")
            };
            let index = word.index;
            let _ = if word.split {
                writeln!(
                    text,
                    "{indent}{{ const u64 whole = {chosen}; words[{index}] = (u32)whole; words[{}] = (u64)((i64)whole >> 32); }}",
                    index + 1
                )
            } else {
                writeln!(text, "{indent}words[{index}] = {chosen};")
            };
        }
    }

    fn write_tile_end(&self, text: &mut String, shape: &Shape) {
        match self.store {
            Store::Shared { .. } => {
                let any = self.words.iter().any(|word| self.has_one_plane(word));
                let rows = if any { ONE_PLANE_ROWS } else { 1 << 24 };
                let tiles = (rows / i128::from(shape.tile_rows())).max(1);
                let _ = writeln!(text, "        if (++tiles_done == {tiles}u) {{\n            tiles_done = 0;");
                self.write_flush(text, "            ");
                text.push_str("        }\n");
            }
            Store::Hash => text.push_str(
                "        // Whoever sees a spill stops before the next tile; the first barrier makes all see one.\n\
                 \x20       const int spilled = *(volatile u32*)&p.flags[FLAG_SPILLED] != 0;\n\
                 \x20       if (__syncthreads_or(spilled)) {\n\
                 \x20           if (threadIdx.x == 0) p.resume[blockIdx.x] = tile + gridDim.x;\n\
                 \x20           break;\n\
                 \x20       }\n\
                 \x20       if (threadIdx.x == 0) p.resume[blockIdx.x] = tile + gridDim.x;\n",
            ),
            _ => {}
        }
    }

    /// Adds the shared table to the global one and clears it.
    fn write_flush(&self, text: &mut String, indent: &str) {
        let Store::Shared { replicas } = self.store else {
            return;
        };
        let _ = writeln!(text, "{indent}__syncthreads();");
        let _ = writeln!(text, "{indent}for (u32 slot = threadIdx.x; slot < (u32)p.num_slots; slot += TG_BLOCK) {{");
        let _ = writeln!(text, "{indent}    u64* const state = p.state + (u64)slot * NUM_WORDS;");
        for (position, word) in self.words.iter().enumerate() {
            let (low, high) = self.plane(position, "cell");
            let (read, clear, join) = match word.op {
                WordOp::Max => (
                    format!("*({low})"),
                    format!("*({low}) = 0;"),
                    "total = part > total ? part : total;",
                ),
                WordOp::Add if !self.has_one_plane(word) => (
                    format!("shared_word({low}, {high})"),
                    format!("*({low}) = 0; *({high}) = 0;"),
                    "total += part;",
                ),
                _ => (format!("(u64)*({low})"), format!("*({low}) = 0;"), "total += part;"),
            };
            let index = word.index;
            let add = match (word.op, word.split) {
                (WordOp::Max, _) => format!("max_word(state + {index}, total)"),
                (_, true) => format!("add_split(state + {index}, total)"),
                (_, false) => format!("add_word(state + {index}, total)"),
            };
            let _ = writeln!(
                text,
                "{indent}    {{\n\
                 {indent}        u64 total = 0;\n\
                 #pragma unroll 1\n\
                 {indent}        for (u32 i = 0; i < {replicas}u; i++) {{\n\
                 {indent}            const u32 cell = slot * {replicas}u + ((i + threadIdx.x) & {}u);\n\
                 {indent}            const u64 part = {read};\n\
                 {indent}            {clear}\n\
                 {indent}            {join}\n\
                 {indent}        }}\n\
                 {indent}        if (total != 0) {add};\n\
                 {indent}    }}",
                replicas - 1
            );
        }
        let _ = writeln!(text, "{indent}}}\n{indent}__syncthreads();");
    }

    fn write_end(&self, text: &mut String) {
        match self.store {
            Store::Registers => {
                for (position, word) in self.words.iter().enumerate() {
                    let index = word.index;
                    let reduce = if word.op == WordOp::Max { "warp_max" } else { "warp_sum" };
                    let add = match (word.op, word.split) {
                        (WordOp::Max, _) => "max_word",
                        (_, true) => "add_split",
                        (_, false) => "add_word",
                    };
                    let _ = writeln!(
                        text,
                        "    {{\n        const u64 total = {reduce}(sum{position});\n        if ((threadIdx.x & 31) == 0 && total != 0) {add}(p.state + {index}, total);\n    }}"
                    );
                }
            }
            Store::Shared { .. } => self.write_flush(text, "    "),
            Store::Dense | Store::Hash => {
                text.push_str(
                    "    __syncthreads();\n\
                     \x20   for (u32 cell = threadIdx.x; cell < cells; cell += TG_BLOCK) {\n\
                     \x20       const u64 key = hot_keys[cell];\n\
                     \x20       if (key == 0xffffffffffffffffull) continue;\n\
                     \x20       u64 words[NUM_WORDS + 1];\n",
                );
                for (position, word) in self.words.iter().enumerate() {
                    let (low, high) = self.plane(position, "cell");
                    let read = match word.op {
                        WordOp::Max => format!("*({low})"),
                        WordOp::Add => format!("shared_word({low}, {high})"),
                        WordOp::Count => format!("(u64)*({low})"),
                    };
                    let index = word.index;
                    let _ = if word.split {
                        writeln!(
                            text,
                            "        {{ const u64 whole = {read}; words[{index}] = (u32)whole; words[{}] = (u64)((i64)whole >> 32); }}",
                            index + 1
                        )
                    } else {
                        writeln!(text, "        words[{index}] = {read};")
                    };
                }
                text.push_str(if self.store == Store::Dense {
                    "        absorb_words(p.state + key * NUM_WORDS, words);\n    }\n"
                } else {
                    "        absorb_key(p, key, words);\n    }\n"
                });
            }
        }
    }
}
