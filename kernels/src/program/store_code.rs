//! The parts of a kernel that keep the groups.

mod keys;

use std::fmt::Write;

use super::layout::{LOCAL_ROWS_MAX, Rows, Word, WordOp};
use super::print::RowText;
use super::shape::Shape;
use super::store::{
    KeyPlan, KeyText, ONE_PLANE_ROWS, PRIVATE_ROWS, Presence, Store, is_one_plane,
    private_cell_bytes,
};
use super::wide::WideKeys;

/// Writes the parts of a kernel that keep the groups.
#[derive(Clone)]
pub(super) struct StoreCode<'a> {
    pub(super) store: Store,
    /// What words take is named here.
    pub(super) row: &'a RowText<'a>,
    pub(super) words: &'a [Word],
    /// How many words a group has in global memory.
    pub(super) num_words: usize,
    pub(super) keys: &'a [(KeyPlan, KeyText)],
    pub(super) key_literals: usize,
    /// The C++ condition under which a row is taken.
    pub(super) guard: String,
    /// The key is one of all 64-bit integers: the one that EMPTY is has a slot of its own.
    pub(super) is_full: bool,
    /// The keys need more than 64 bits.
    pub(super) wide: Option<WideKeys>,
    pub(super) presence: Presence,
    /// Keys that a block keeps in front of a global table.
    pub(super) hot_keys: u32,
}

impl StoreCode<'_> {
    fn cells(&self) -> String {
        match self.store {
            Store::Shared { replicas } => format!("((u32)p.num_slots * {replicas}u)"),
            _ => format!("{}u", self.hot_keys),
        }
    }

    pub(super) fn shared_bytes(&self, packed: Option<u64>) -> u32 {
        let cell = self.cell_bytes();
        let bytes = match self.store {
            Store::Registers => 0,
            Store::Shared { replicas } => packed.unwrap_or(0) * u64::from(replicas) * cell,
            Store::Private { threads } => {
                packed.unwrap_or(0) * u64::from(threads) * private_cell_bytes(self.words)
            }
            Store::Dense | Store::Hash => u64::from(self.hot_keys) * (cell + 8),
        };
        u32::try_from(bytes.next_multiple_of(16)).unwrap_or(u32::MAX)
    }

    /// Returns how many planes of 32 bits a word has in shared memory, and whether it is whole.
    fn planes(&self, word: &Word) -> (u64, bool) {
        match word.op {
            WordOp::Count | WordOp::Seen => (1, false),
            WordOp::Max | WordOp::Part | WordOp::Combine(_) => (2, true),
            WordOp::Add if self.has_one_plane(word) => (1, false),
            WordOp::Add => (2, false),
        }
    }

    fn has_one_plane(&self, word: &Word) -> bool {
        // A hot key's state is kept to the end, so that only the others are flushed in time.
        match self.store {
            Store::Shared { .. } => is_one_plane(word, ONE_PLANE_ROWS),
            _ => false,
        }
    }

    /// Returns whether a word has whole 64-bit cells in shared memory.
    fn is_whole(&self, word: &Word) -> bool {
        self.planes(word).1
    }

    /// Returns the C++ address of a word's planes at a cell.
    fn plane(&self, position: usize, cell: &str) -> (String, String) {
        let word = &self.words[position];
        if self.is_whole(word) {
            let before = self.words[..position]
                .iter()
                .filter(|word| self.is_whole(word))
                .count();
            let place = format!("whole_plane + {before}u * cells + {cell}");
            return (place, String::new());
        }
        let before: u64 = self.words[..position]
            .iter()
            .filter(|word| !self.is_whole(word))
            .map(|word| self.planes(word).0)
            .sum();
        (
            format!("plane + {before}u * cells + {cell}"),
            format!("plane + {}u * cells + {cell}", before + 1),
        )
    }

    /// The functions that put a group's words into global memory.
    pub(super) fn write_functions(&self, text: &mut String) {
        let _ = writeln!(text, "#define NUM_WORDS {}", self.num_words);
        if let Store::Private { threads } = self.store {
            self.write_private_table(text, threads);
        }
        if !matches!(self.store, Store::Dense | Store::Hash) {
            return;
        }
        text.push_str(
            "\n// Adds what one row, or a block, has for a group.\n\
             __device__ __forceinline__ void absorb_words(u64* state, const u64 (&words)[NUM_WORDS + 1]) {\n",
        );
        for word in self.words {
            let index = word.index;
            let _ = match word.split {
                true => writeln!(
                    text,
                    "    if (words[{index}] != 0) add_word(state + {index}, words[{index}]);\n    if (words[{0}] != 0) add_word(state + {0}, words[{0}]);",
                    index + 1
                ),
                false => writeln!(
                    text,
                    "    if (words[{index}] != 0) {}(state + {index}, words[{index}]);",
                    word.op.taking()
                ),
            };
        }
        text.push_str("}\n");
        if self.store == Store::Hash {
            self.write_hash_functions(text);
        }
    }

    /// Slots are records: a key, then the group's words.
    fn write_hash_functions(&self, text: &mut String) {
        text.push_str(
            "\n#define RECORD (NUM_WORDS + 1)\n\
             \n// Adds to a group, which is made if it is not there; without room, to the spill buffer.\n\
             __device__ __forceinline__ void absorb_key(const Launch& p, u64 key, const u64 (&words)[NUM_WORDS + 1]) {\n",
        );
        if self.is_full {
            text.push_str(
                "    if (key == EMPTY) {\n\
                 \x20       u64* apart = p.state + p.num_slots * RECORD;\n\
                 \x20       *(volatile u64*)apart = 0;\n\
                 \x20       absorb_words(apart + 1, words);\n\
                 \x20       return;\n\
                 \x20   }\n",
            );
        }
        text.push_str(
            "    u64 slot = find_or_insert(p.state, RECORD, p.num_slots, key);\n\
             \x20   if (slot != NO_SLOT) {\n\
             \x20       absorb_words(p.state + slot * RECORD + 1, words);\n\
             \x20       return;\n\
             \x20   }\n\
             \x20   u64 record = atomicAdd(&p.flags[FLAG_SPILLED], 1u);\n\
             \x20   if (record >= p.spill_capacity) return;\n\
             \x20   u64* to = p.spill + record * RECORD;\n\
             \x20   to[0] = key;\n\
             #pragma unroll\n\
             \x20   for (int word = 0; word < NUM_WORDS; word++) to[1 + word] = words[word];\n\
             }\n",
        );
    }

    /// Moves the records of an older table, or spilled ones, into the table of the launch; and makes
    /// a table empty.
    pub(super) fn write_absorb(&self, text: &mut String) {
        text.push_str(
            "\nextern \"C\" __global__ void __launch_bounds__(TG_BLOCK) absorb(const __grid_constant__ Launch p) {\n\
             \x20   for (u64 i = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; i < p.from_count; i += gridDim.x * (u64)TG_BLOCK) {\n\
             \x20       const u64* from = p.from_words + i * RECORD;\n\
             \x20       if (from[0] == EMPTY) continue;\n\
             \x20       u64 words[NUM_WORDS + 1];\n\
             #pragma unroll\n\
             \x20       for (int word = 0; word < NUM_WORDS; word++) words[word] = from[1 + word];\n\
             \x20       absorb_key(p, from[0], words);\n\
             \x20   }\n\
             }\n\
             \nextern \"C\" __global__ void __launch_bounds__(TG_BLOCK) clear(const __grid_constant__ Launch p) {\n\
             \x20   const u64 count = (p.num_slots + 2) * RECORD;\n\
             \x20   for (u64 i = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; i < count; i += gridDim.x * (u64)TG_BLOCK) {\n\
             \x20       p.state[i] = i % RECORD == 0 ? EMPTY : 0;\n\
             \x20   }\n\
             }\n",
        );
    }

    pub(super) fn write_begin(&self, text: &mut String) {
        match self.store {
            Store::Registers => {
                self.write_registers_begin(text);
                return;
            }
            Store::Private { threads } => {
                self.write_private_begin(text, threads);
                return;
            }
            Store::Shared { .. } | Store::Dense | Store::Hash => {}
        }
        self.write_cells_begin(text, &self.cells());
        if let Store::Shared { replicas } = self.store {
            let _ = writeln!(
                text,
                "    const u32 replica = threadIdx.x & {}u;",
                replicas - 1
            );
        }
    }

    /// Makes cells in shared memory, all of them vacant.
    pub(super) fn write_cells_begin(&self, text: &mut String, cells: &str) {
        let wholes = self.words.iter().filter(|word| self.is_whole(word)).count();
        let planes: u64 = self.words.iter().map(|word| self.planes(word).0).sum();
        text.push_str("    extern __shared__ __align__(16) unsigned char shared_memory[];\n");
        let _ = writeln!(text, "    const u32 cells = {cells};");
        if matches!(self.store, Store::Shared { .. }) {
            text.push_str("    u64* const whole_plane = (u64*)shared_memory;\n");
        } else {
            text.push_str(
                "    u64* const hot_keys = (u64*)shared_memory;\n\
                 \x20   u64* const whole_plane = hot_keys + cells;\n\
                 \x20   for (u32 i = threadIdx.x; i < cells; i += TG_BLOCK) hot_keys[i] = 0xffffffffffffffffull;\n",
            );
        }
        let _ = writeln!(
            text,
            "    u32* const plane = (u32*)(whole_plane + {wholes}u * cells);"
        );
        let _ = writeln!(
            text,
            "    for (u32 i = threadIdx.x; i < {planes}u * cells; i += TG_BLOCK) ((u32*)whole_plane)[i] = 0;\n    __syncthreads();"
        );
    }

    /// Returns the C++ condition and value of a word.
    pub(super) fn addend(&self, word: &Word) -> (String, String) {
        let condition = word.rows.code(self.row, &self.guard);
        (condition, word.code(self.row))
    }

    pub(super) fn write_update(&self, text: &mut String) {
        let indent = "                ";
        match self.store {
            Store::Registers => {
                self.write_registers_update(text, indent);
            }
            Store::Shared { replicas } => {
                self.write_key(text);
                let _ = writeln!(
                    text,
                    "{indent}if ({} && key >= (u32)p.num_slots) atomicMax(&p.flags[FLAG_KEY_RANGE], 1u);",
                    self.guard
                );
                let _ = writeln!(text, "{indent}else if ({}) {{", self.guard);
                let _ = writeln!(
                    text,
                    "{indent}    const u32 cell = key * {replicas}u + replica;"
                );
                self.write_shared_update(text, "cell");
                let _ = writeln!(text, "{indent}}}");
            }
            Store::Private { threads } => {
                self.write_key(text);
                self.write_private_update(text, threads);
            }
            Store::Dense | Store::Hash => self.write_global_update(text),
        }
    }

    pub(super) fn write_shared_update(&self, text: &mut String, cell: &str) {
        let indent = "                    ";
        for (position, word) in self.words.iter().enumerate() {
            let (condition, value) = self.addend(word);
            let (low, high) = self.plane(position, cell);
            let guard = match word.rows {
                Rows::Selected => String::new(),
                _ => format!("if ({condition}) "),
            };
            let _ = match word.op {
                WordOp::Seen => writeln!(text, "{indent}{guard}*({low}) = 1u;"),
                WordOp::Count => writeln!(text, "{indent}{guard}atomicAdd({low}, 1u);"),
                WordOp::Add if self.has_one_plane(word) => {
                    writeln!(text, "{indent}{guard}atomicAdd({low}, (u32)({value}));")
                }
                WordOp::Add | WordOp::Part => {
                    writeln!(text, "{indent}{guard}shared_add({low}, {high}, {value});")
                }
                op @ (WordOp::Max | WordOp::Combine(_)) => {
                    writeln!(text, "{indent}{guard}{}({low}, {value});", op.taking())
                }
            };
        }
    }

    fn write_global_update(&self, text: &mut String) {
        let indent = "                ";
        self.write_key(text);
        if self.store == Store::Dense {
            let _ = writeln!(
                text,
                "{indent}if ({} && key >= (u32)p.num_slots) atomicMax(&p.flags[FLAG_KEY_RANGE], 1u);",
                self.guard
            );
            let _ = writeln!(text, "{indent}else if ({}) {{", self.guard);
            let _ = writeln!(
                text,
                "{indent}    const u32 cell = (key * 2654435761u) >> {};",
                32 - self.hot_keys.ilog2()
            );
        } else {
            let _ = writeln!(text, "{indent}if ({}) {{", self.guard);
            let _ = writeln!(
                text,
                "{indent}    const u32 cell = (u32)((key * 11400714819323198485ull) >> {});",
                64 - self.hot_keys.ilog2()
            );
        }
        let null_apart = self.write_null_apart(text);
        let _ = writeln!(
            text,
            "{indent}    u64 held = ((volatile u64*)hot_keys)[cell];\n\
             {indent}    if (held == 0xffffffffffffffffull) {{\n\
             {indent}        held = atomicCAS(hot_keys + cell, 0xffffffffffffffffull, (u64)key);\n\
             {indent}        if (held == 0xffffffffffffffffull) held = key;\n\
             {indent}    }}"
        );
        // EMPTY itself may be a key where all 64-bit integers are; it never gets a cell.
        let is_key = if self.is_full {
            "held == key && key != 0xffffffffffffffffull"
        } else {
            "held == key"
        };
        let _ = writeln!(text, "{indent}    if ({is_key}) {{");
        self.write_shared_update(text, "cell");
        let _ = writeln!(text, "{indent}    }} else {{");
        self.write_row_words(text);
        if self.store == Store::Dense {
            if self.presence == Presence::Bit {
                let _ = writeln!(text, "{indent}        mark_present(p.present, key);");
            }
            let _ = writeln!(
                text,
                "{indent}        absorb_words(p.state + (u64)key * NUM_WORDS, words);"
            );
        } else {
            let _ = writeln!(text, "{indent}        absorb_key(p, key, words);");
        }
        let close = if null_apart { "}" } else { "" };
        let _ = writeln!(text, "{indent}    }}{close}\n{indent}}}");
    }

    /// Adds a row whose key is NULL to the slot apart that it has where keys fill 64 bits, and opens
    /// the block of all other rows; returns whether it has.
    pub(super) fn write_null_apart(&self, text: &mut String) -> bool {
        let indent = "                ";
        let valid = self.keys.first().and_then(|(_, key)| key.valid.as_deref());
        let valid = valid.unwrap_or("true");
        let null_apart =
            self.is_full && self.wide.is_none() && self.keys.iter().any(|(key, _)| key.nullable);
        if null_apart {
            let _ = writeln!(text, "{indent}    if (!({valid})) {{");
            self.write_row_words(text);
            let _ = writeln!(
                text,
                "{indent}        u64* const apart = p.state + (p.num_slots + 1) * RECORD;\n{indent}        *(volatile u64*)apart = 0;\n{indent}        absorb_words(apart + 1, words);\n{indent}    }} else {{"
            );
        }
        null_apart
    }

    pub(super) fn write_row_words(&self, text: &mut String) {
        let indent = "                        ";
        let _ = writeln!(text, "{indent}u64 words[NUM_WORDS + 1];");
        for word in self.words {
            let (condition, value) = self.addend(word);
            let chosen = match word.rows {
                Rows::Selected => value,
                _ => format!("({condition} ? {value} : 0ull)"),
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

    /// Returns after how many tiles a block adds what it has to global memory, if it has to.
    pub(super) fn flush_tiles(&self, shape: &Shape) -> Option<u32> {
        let rows = match self.store {
            Store::Private { threads } => PRIVATE_ROWS * i128::from(threads),
            Store::Registers if self.words.iter().any(|word| word.part().is_some()) => {
                PRIVATE_ROWS * i128::from(shape.threads)
            }
            Store::Shared { .. } if self.words.iter().any(|word| self.has_one_plane(word)) => {
                ONE_PLANE_ROWS
            }
            Store::Shared { .. } => i128::from(LOCAL_ROWS_MAX),
            _ => return None,
        };
        Some((rows / i128::from(shape.tile_rows())).max(1) as u32)
    }

    pub(super) fn write_tile_end(&self, text: &mut String) {
        match self.store {
            Store::Private { threads } => {
                text.push_str("    }\n");
                self.write_private_flush(text, threads);
            }
            Store::Shared { .. } => {
                text.push_str("    }\n");
                self.write_flush(text, "        ");
            }
            Store::Registers => self.write_registers_flush(text),
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
        let _ = writeln!(
            text,
            "{indent}for (u32 slot = threadIdx.x; slot < (u32)p.num_slots; slot += TG_BLOCK) {{"
        );
        let _ = writeln!(
            text,
            "{indent}    u64* const state = p.state + (u64)slot * NUM_WORDS;"
        );
        for (position, word) in self.words.iter().enumerate() {
            let (low, high) = self.plane(position, "cell");
            let (read, clear, join) = match word.op {
                WordOp::Max => (
                    format!("*({low})"),
                    format!("*({low}) = 0;"),
                    "total = part > total ? part : total;".to_owned(),
                ),
                op @ WordOp::Combine(_) => (
                    format!("*({low})"),
                    format!("*({low}) = 0;"),
                    format!("total = {};", op.joined("total", "part")),
                ),
                WordOp::Add if !self.has_one_plane(word) => (
                    format!("shared_word({low}, {high})"),
                    format!("*({low}) = 0; *({high}) = 0;"),
                    "total += part;".to_owned(),
                ),
                _ => (
                    format!("(u64)*({low})"),
                    format!("*({low}) = 0;"),
                    "total += part;".to_owned(),
                ),
            };
            let index = word.index;
            let add = match (word.op, word.split) {
                (WordOp::Seen, _) => format!("max_word(state + {index}, 1)"),
                (_, true) => format!("add_split(state + {index}, total)"),
                (op, false) => format!("{}(state + {index}, total)", op.taking()),
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

    pub(super) fn write_end(&self, text: &mut String) {
        match self.store {
            Store::Private { .. } => {
                text.push_str("    if (key_most >= (u32)p.num_slots) atomicMax(&p.flags[FLAG_KEY_RANGE], 1u);\n");
            }
            Store::Registers => self.write_registers_end(text),
            Store::Shared { .. } => {}
            Store::Dense | Store::Hash => {
                text.push_str("    __syncthreads();\n");
                let absorb = match self.store {
                    Store::Dense => "absorb_words(p.state + key * NUM_WORDS, words);",
                    _ => "absorb_key(p, key, words);",
                };
                self.write_cells_end(text, absorb, false);
            }
        }
    }

    /// Adds the cells' groups to global memory, and makes the cells vacant again if they are used on.
    pub(super) fn write_cells_end(&self, text: &mut String, absorb: &str, clears: bool) {
        text.push_str(
            "    // Lanes that have gone apart come together again for each cell.\n\
             \x20   for (u32 begin = threadIdx.x & ~31u; begin < cells; begin += TG_BLOCK) {\n\
             \x20       __syncwarp();\n\
             \x20       const u32 cell = begin + (threadIdx.x & 31);\n\
             \x20       const u64 key = cell < cells ? hot_keys[cell] : 0xffffffffffffffffull;\n\
             \x20       if (key == 0xffffffffffffffffull) continue;\n\
             \x20       u64 words[NUM_WORDS + 1];\n",
        );
        self.write_cell_words(text, clears);
        if clears {
            text.push_str("        hot_keys[cell] = 0xffffffffffffffffull;\n");
        }
        if self.presence == Presence::Bit {
            text.push_str("        mark_present(p.present, (u32)key);\n");
        }
        let _ = writeln!(text, "        {absorb}\n    }}");
    }

    /// Reads a cell's words, and makes the cell vacant.
    pub(super) fn write_cell_words(&self, text: &mut String, clears: bool) {
        for (position, word) in self.words.iter().enumerate() {
            let (low, high) = self.plane(position, "cell");
            let read = match word.op {
                WordOp::Max | WordOp::Combine(_) => format!("*({low})"),
                WordOp::Add if self.has_one_plane(word) => format!("(u64)*({low})"),
                WordOp::Add | WordOp::Part => format!("shared_word({low}, {high})"),
                WordOp::Count | WordOp::Seen => format!("(u64)*({low})"),
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
            if clears {
                let _ = match self.planes(word) {
                    (2, false) => writeln!(text, "        *({low}) = 0; *({high}) = 0;"),
                    _ => writeln!(text, "        *({low}) = 0;"),
                };
            }
        }
    }

    /// Returns the bytes of a cell in shared memory, beside its key.
    pub(super) fn cell_bytes(&self) -> u64 {
        self.words.iter().map(|word| self.planes(word).0 * 4).sum()
    }

    /// Returns how many planes of 32 bits come after the whole ones.
    pub(super) fn narrow_planes(&self) -> u64 {
        let narrow = self.words.iter().filter(|word| !self.is_whole(word));
        narrow.map(|word| self.planes(word).0).sum()
    }
}
