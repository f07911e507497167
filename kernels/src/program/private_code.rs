//! The code of cells of each thread's own, in shared memory.
//!
//! A thread's cell of a group is the group's words, whole 64-bit ones first, cut into units of 16, 8
//! and 4 bytes. Units lie by group, then by unit, then by thread: a warp's access to a unit has no
//! bank conflict whatever groups its lanes have, and within a group all offsets are constants. A row
//! loads its cell, computes all new words and then stores them, so that the words' chains overlap.

use std::fmt::Write;

use super::layout::{Rows, Word, WordOp};
use super::store::is_wide_in_private;
use super::store_code::StoreCode;

const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// Consecutive 32-bit parts of a cell that are read and written at once.
struct Unit {
    name: String,
    /// Parts before it, and its own: 4, 2 or 1.
    first: u32,
    parts: u32,
    lanes: Lanes,
}

/// What a unit is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lanes {
    /// Parts of float sums, and nothing else. Cut in halves and joined again they take longer to
    /// compile, and leave moves of registers behind; with integers it is the other way round.
    Doubles,
    /// Parts of 32 bits.
    Parts,
}

impl Unit {
    fn data_type(&self) -> &'static str {
        match (self.lanes, self.parts) {
            (Lanes::Doubles, 4) => "double2",
            (Lanes::Doubles, _) => "double",
            (Lanes::Parts, 4) => "uint4",
            (Lanes::Parts, 2) => "uint2",
            (Lanes::Parts, _) => "u32",
        }
    }

    /// Parts of a lane.
    fn lane_parts(&self) -> u32 {
        match self.lanes {
            Lanes::Doubles => 2,
            Lanes::Parts => 1,
        }
    }

    fn holds(&self, part: u32) -> bool {
        (self.first..self.first + self.parts).contains(&part)
    }

    /// Returns the C++ value of the lane that begins with a part.
    fn lane(&self, part: u32) -> String {
        if self.parts == self.lane_parts() {
            return self.name.clone();
        }
        let lane = (part - self.first) / self.lane_parts();
        format!("{}.{}", self.name, LANES[lane as usize % LANES.len()])
    }
}

/// How a cell is laid out.
struct Layout<'a> {
    words: &'a [Word],
    threads: u32,
    /// The first 32-bit part of each word.
    firsts: Vec<u32>,
    num_parts: u32,
    units: Vec<Unit>,
}

impl<'a> Layout<'a> {
    fn new(words: &'a [Word], threads: u32) -> Self {
        let mut firsts = vec![0; words.len()];
        let mut num_parts = 0;
        for wide in [true, false] {
            for (word, first) in words.iter().zip(&mut firsts) {
                if is_wide_in_private(word) == wide {
                    *first = num_parts;
                    num_parts += if wide { 2 } else { 1 };
                }
            }
        }
        let mut units = Vec::new();
        let mut first = 0;
        for parts in [4, 2, 1] {
            while num_parts - first >= parts {
                let within = first..first + parts;
                let mut held = words
                    .iter()
                    .zip(&firsts)
                    .filter_map(|(word, first)| within.contains(first).then_some(word));
                let lanes = if held.all(|word| word.op == WordOp::Part) {
                    Lanes::Doubles
                } else {
                    Lanes::Parts
                };
                units.push(Unit {
                    name: format!("unit{}", units.len()),
                    first,
                    parts,
                    lanes,
                });
                first += parts;
            }
        }
        Self {
            words,
            threads,
            firsts,
            num_parts,
            units,
        }
    }

    fn slot_bytes(&self) -> u32 {
        self.num_parts * 4 * self.threads
    }

    /// Returns the C++ address of the thread's unit, `slot` being the address of the group's cells.
    fn address(&self, unit: &Unit) -> String {
        let offset = unit.first * 4 * self.threads;
        format!("(slot + {offset}u + threadIdx.x * {}u)", unit.parts * 4)
    }

    /// Returns where the first thread's value of a word is among a group's cells, and how far the next
    /// thread's is, in bytes.
    fn place(&self, position: usize) -> (u32, u32) {
        let first = self.firsts[position];
        let unit = self.unit_of(first);
        unit.map_or((0, 0), |unit| {
            let within = (first - unit.first) * 4;
            (unit.first * 4 * self.threads + within, unit.parts * 4)
        })
    }

    fn unit_of(&self, part: u32) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.holds(part))
    }

    /// Returns the C++ value of a word that has been loaded: a double for a part of a float sum.
    fn word(&self, position: usize) -> String {
        let first = self.firsts[position];
        let Some(unit) = self.unit_of(first) else {
            return "0u".into();
        };
        let low = unit.lane(first);
        let is_part = self.words[position].op == WordOp::Part;
        match unit.lanes {
            Lanes::Doubles => low,
            Lanes::Parts if is_part => format!("double_of_halves({low}, {})", unit.lane(first + 1)),
            Lanes::Parts if is_wide_in_private(&self.words[position]) => {
                format!("joined({low}, {})", unit.lane(first + 1))
            }
            Lanes::Parts => low,
        }
    }

    fn write_loads(&self, text: &mut String, indent: &str) {
        for unit in &self.units {
            let (data_type, name) = (unit.data_type(), &unit.name);
            let address = self.address(unit);
            let _ = writeln!(
                text,
                "{indent}const {data_type} {name} = *(const {data_type}*){address};"
            );
        }
    }

    /// Stores words, `value` giving the C++ value of each: a double for a part of a float sum.
    fn write_stores(&self, text: &mut String, indent: &str, value: &dyn Fn(usize) -> String) {
        // By the first 32-bit part of each lane.
        let mut lanes = vec![None; self.num_parts as usize];
        for (position, &first) in self.firsts.iter().enumerate() {
            let (at, value) = (first as usize, value(position));
            let lanes_of_unit = self.unit_of(first).map(|unit| unit.lanes);
            if lanes_of_unit == Some(Lanes::Doubles) {
                lanes[at] = Some(value);
                continue;
            }
            let bits = match self.words[position].op {
                WordOp::Part => format!("(u64)__double_as_longlong({value})"),
                _ => value,
            };
            lanes[at] = Some(format!("(u32){bits}"));
            if is_wide_in_private(&self.words[position]) {
                lanes[at + 1] = Some(format!("(u32)({bits} >> 32)"));
            }
        }
        for unit in &self.units {
            let data_type = unit.data_type();
            let address = self.address(unit);
            let of_unit = &lanes[unit.first as usize..(unit.first + unit.parts) as usize];
            let values: Vec<&str> = of_unit.iter().flatten().map(String::as_str).collect();
            let _ = writeln!(
                text,
                "{indent}*({data_type}*){address} = {data_type}{{{}}};",
                values.join(", ")
            );
        }
    }

    /// Returns what a word begins with.
    fn initial(&self, position: usize) -> String {
        match self.words[position].part() {
            Some(part) => format!("double_of_bits(p.literals[{}])", part.zero()),
            None => "0ull".into(),
        }
    }
}

impl StoreCode<'_> {
    pub(super) fn write_private_begin(&self, text: &mut String, threads: u32) {
        let layout = Layout::new(self.words, threads);
        let _ = writeln!(
            text,
            "    extern __shared__ __align__(16) unsigned char shared_memory[];\n\
             \x20   u32 key_most = 0;\n\
             #pragma unroll 1\n\
             \x20   for (u32 group = 0; group < (u32)p.num_slots; group++) {{\n\
             \x20       unsigned char* const slot = shared_memory + group * {}u;",
            layout.slot_bytes()
        );
        layout.write_stores(text, "        ", &|position| layout.initial(position));
        text.push_str("    }\n");
    }

    /// Nothing here is atomic. A row that does not count computes with the first group's cell and
    /// stores nothing.
    pub(super) fn write_private_update(&self, text: &mut String, threads: u32) {
        let indent = "                ";
        let layout = Layout::new(self.words, threads);
        let guard = &self.guard;
        let _ = writeln!(
            text,
            "{indent}const bool counts = {guard} && key < (u32)p.num_slots;\n\
             {indent}key_most = max(key_most, {guard} ? key : 0u);\n\
             {indent}unsigned char* const slot = shared_memory + (counts ? key : 0u) * {}u;",
            layout.slot_bytes()
        );
        layout.write_loads(text, indent);
        for (position, word) in self.words.iter().enumerate() {
            let (condition, value) = self.addend(word);
            let old = layout.word(position);
            let chosen = |value: &str, none: &str| match word.rows {
                Rows::Selected => value.to_owned(),
                _ => format!("({condition} ? {value} : {none})"),
            };
            let narrow = |value: &str| chosen(&format!("(u32)({value})"), "0u");
            let wide = is_wide_in_private(word);
            let _ = match (word.op, word.part()) {
                (WordOp::Seen, _) => {
                    writeln!(
                        text,
                        "{indent}const u32 new{position} = {old} | {};",
                        narrow("1")
                    )
                }
                (WordOp::Max, _) => writeln!(
                    text,
                    "{indent}const u64 new{position} = greater({old}, {});",
                    chosen(&value, "0ull")
                ),
                (_, Some(part)) => match part.next() {
                    Some(next) => writeln!(
                        text,
                        "{indent}const double new{position} = {old} + {value};\n\
                             {indent}const double {} = {value} - (new{position} - {old});",
                        next.name()
                    ),
                    None => writeln!(
                        text,
                        "{indent}const double new{position} = __dadd_rd({old}, {value});"
                    ),
                },
                _ if wide => writeln!(
                    text,
                    "{indent}const u64 new{position} = {old} + {};",
                    chosen(&value, "0ull")
                ),
                _ => writeln!(
                    text,
                    "{indent}const u32 new{position} = {old} + {};",
                    narrow(&value)
                ),
            };
        }
        let _ = writeln!(text, "{indent}if (counts) {{");
        let inner = format!("{indent}    ");
        layout.write_stores(text, &inner, &|position| format!("new{position}"));
        let _ = writeln!(text, "{indent}}}");
    }

    /// Adds the threads' cells to the global state and clears them, a warp at a time for each word of
    /// each group. All words share the code, so that it is compiled once.
    pub(super) fn write_private_flush(&self, text: &mut String, threads: u32) {
        let slot_bytes = Layout::new(self.words, threads).slot_bytes();
        let count = self.words.len();
        let is = |kind: u32| self.flush_test(kind);
        let _ = write!(
            text,
            "        __syncthreads();\n\
             #pragma unroll 1\n\
             \x20       for (u32 task = threadIdx.x / 32; task < (u32)p.num_slots * {count}u; task += TG_BLOCK / 32) {{\n\
             \x20           const u32 group = task / {count}u;\n\
             \x20           const FlushWord word = flush_words[task % {count}u];\n\
             \x20           unsigned char* cell = shared_memory + group * {slot_bytes}u + word.offset + (threadIdx.x & 31) * word.stride;\n\
             \x20           u64* const state = p.state + (u64)group * NUM_WORDS + word.state;\n\
             \x20           u64 total = 0;\n\
             #pragma unroll 1\n\
             \x20           for (u32 thread = threadIdx.x & 31; thread < TG_BLOCK; thread += 32) {{\n\
             \x20               u64 value;\n\
             \x20               if ({wide}) {{\n\
             \x20                   value = *(u64*)cell;\n\
             \x20                   *(u64*)cell = {part} ? p.literals[word.zero] : 0ull;\n\
             \x20               }} else {{\n\
             \x20                   value = *(u32*)cell;\n\
             \x20                   *(u32*)cell = 0;\n\
             \x20               }}\n\
             \x20               // A multiple of its unit, and few enough of them to be exact.\n\
             \x20               if ({part}) value = (u64)(i64)((double_of_bits(value) - double_of_bits(p.literals[word.zero])) * double_of_bits(p.literals[word.inverse]));\n\
             \x20               total = {max} ? greater(total, value) : total + value;\n\
             \x20               cell += 32 * word.stride;\n\
             \x20           }}\n\
             #pragma unroll 1\n\
             \x20           for (u32 distance = 16; distance != 0; distance /= 2) {{\n\
             \x20               const u64 other = __shfl_down_sync(0xffffffffu, total, distance);\n\
             \x20               total = {max} ? greater(total, other) : total + other;\n\
             \x20           }}\n\
             \x20           if ((threadIdx.x & 31) != 0 || total == 0) continue;\n\
             \x20           if ({max} || {seen}) max_word(state, {seen} ? 1ull : total);\n\
             \x20           else if ({split}) add_split(state, total);\n\
             \x20           else add_word(state, total);\n\
             \x20       }}\n\
             \x20       __syncthreads();\n",
            wide = is(WIDE),
            part = is(PART),
            max = is(MAX),
            seen = is(SEEN),
            split = is(SPLIT),
        );
    }

    /// Writes the table of the words that are flushed.
    pub(super) fn write_private_table(&self, text: &mut String, threads: u32) {
        let layout = Layout::new(self.words, threads);
        text.push_str(
            "\n// Where a word is in a thread's cell of a group and in the global state, what it is, and of a\n\
             // part the literals that its sum begins with and that turns it into units.\n\
             struct FlushWord {\n    u32 offset, stride, state, traits, zero, inverse;\n};\n\
             __constant__ const FlushWord flush_words[] = {\n",
        );
        for (position, word) in self.words.iter().enumerate() {
            let (offset, stride) = layout.place(position);
            let part = word.part();
            let (zero, inverse) = part.map_or((0, 0), |part| (part.zero(), part.inverse()));
            let _ = writeln!(
                text,
                "    {{{offset}u, {stride}u, {}u, {}u, {zero}u, {inverse}u}},",
                word.index,
                flush_traits(word)
            );
        }
        text.push_str("};\n");
    }

    /// Returns the C++ condition under which a word is of a kind.
    fn flush_test(&self, kind: u32) -> String {
        let mut found = self.words.iter().map(|word| flush_traits(word) & kind != 0);
        let first = found.next().unwrap_or(false);
        if found.all(|other| other == first) {
            return first.to_string();
        }
        format!("(word.traits & {kind}u) != 0")
    }
}

/// What a word may be, as it is flushed.
const WIDE: u32 = 1;
const PART: u32 = 2;
const MAX: u32 = 4;
const SEEN: u32 = 8;
const SPLIT: u32 = 16;

fn flush_traits(word: &Word) -> u32 {
    let of = |holds: bool, kind: u32| if holds { kind } else { 0 };
    of(is_wide_in_private(word), WIDE)
        | of(word.op == WordOp::Part, PART)
        | of(word.op == WordOp::Max, MAX)
        | of(word.op == WordOp::Seen, SEEN)
        | of(word.split, SPLIT)
}
