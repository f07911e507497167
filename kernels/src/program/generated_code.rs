//! The code that makes columns from the rows' positions, in the place of loads.

use std::fmt::Write;

use super::generated::{Generated, GeneratedColumn};
use super::slots::{Slot, SlotFacts};
use crate::random::{ValueKind, Values};

/// Writes what stands for loads and the head of the loop over rows, in the place of a tile's steps.
pub(super) struct GeneratedCode<'a> {
    pub(super) source: &'a Generated,
    pub(super) slots: &'a [(Slot, SlotFacts)],
}

impl GeneratedCode<'_> {
    fn needs_tables(&self) -> bool {
        let is_normal = matches!(self.source.array.values(), Values::Normal { .. });
        is_normal && !self.is_single() && self.reads_value()
    }

    fn is_single(&self) -> bool {
        self.source.array.kind() == ValueKind::Single
    }

    fn reads_value(&self) -> bool {
        let is_value =
            |(slot, _): &(Slot, SlotFacts)| self.source.column(slot) == GeneratedColumn::Value;
        self.slots.iter().any(is_value)
    }

    /// Writes what comes before the first tile.
    pub(super) fn write_begin(&self, text: &mut String) {
        if self.needs_tables() {
            text.push_str(
                "    __shared__ RandomTables tables;\n\
                 \x20   random_tables(p, tables);\n",
            );
        }
    }

    /// Finds the thread's place in a tile.
    pub(super) fn write_tile(&self, text: &mut String) {
        text.push_str(
            "        Place place = place_of(k0, first / TG_ROWS + threadIdx.x * TG_UNROLL);\n",
        );
    }

    /// Writes a step: its columns are made, then `write_row` writes what becomes of a row. Where that is
    /// `short`, rows that are all inside have a way of their own, without asking each.
    pub(super) fn write_step(
        &self,
        text: &mut String,
        classes: &[&str],
        short: bool,
        mut write_row: impl FnMut(&mut String),
    ) {
        match self.source.log_step() {
            Some(log) if short => {
                let _ = writeln!(
                    text,
                    "            if ((first + step + TG_ROWS * TG_UNROLL * (threadIdx.x + 1) <= rows) & all_inside<{log}>(place, k0)) {{"
                );
                self.write_rows(text, classes, true, &mut write_row);
                text.push_str("            } else {\n");
                self.write_rows(text, classes, false, &mut write_row);
                text.push_str("            }\n");
            }
            _ => self.write_rows(text, classes, false, &mut write_row),
        }
        text.push_str("            advance(place, k0, TG_BLOCK * TG_UNROLL);\n");
    }

    /// Makes the columns of a step, of which all rows are inside or some may not be, and folds the rows.
    fn write_rows(
        &self,
        text: &mut String,
        classes: &[&str],
        all_inside: bool,
        write_row: &mut impl FnMut(&mut String),
    ) {
        for (index, class) in classes.iter().enumerate() {
            let _ = writeln!(text, "            {class} d{index}[TG_UNROLL][TG_ROWS];");
        }
        text.push_str(match all_inside {
            true => "            const Place at = place;\n",
            false => {
                "            bool inside[TG_UNROLL][TG_ROWS];\n\
                 \x20           Place at = place;\n"
            }
        });
        text.push_str(
            "#pragma unroll\n\
             \x20           for (int u = 0; u < TG_UNROLL; u++) {\n",
        );
        let ahead = if all_inside { "u" } else { "0" };
        let bunch = match self.source.log_step() {
            Some(log) => format!("block_bunch<{log}>(at, (u32)k0.width, {ahead})"),
            None => "neighbour_bunch(at, (u32)k0.width, (u32)RANDOM_WORD(RANDOM_STEP))".into(),
        };
        let _ = writeln!(text, "                const Bunch bunch = {bunch};");
        if !all_inside {
            text.push_str(
                "#pragma unroll\n                for (int r = 0; r < TG_ROWS; r++) \
                 inside[u][r] = bunch.inside[r] && first + step + TG_ROWS * (threadIdx.x * TG_UNROLL + u) < rows;\n"
            );
        }
        let mut value_at: Option<usize> = None;
        for (index, (slot, _)) in self.slots.iter().enumerate() {
            match self.source.column(slot) {
                GeneratedColumn::Index(dimension) => {
                    self.write_index(text, index, dimension, classes[index])
                }
                GeneratedColumn::Value => match value_at {
                    None => {
                        self.write_values(text, index, classes[index]);
                        value_at = Some(index);
                    }
                    Some(other) => {
                        let _ = writeln!(
                            text,
                            "                for (int r = 0; r < TG_ROWS; r++) d{index}[u][r] = d{other}[u][r];"
                        );
                    }
                },
            }
        }
        let (next, selected) = match all_inside {
            true => ("", "true"),
            false => ("                at = next_place(at, k0);\n", "inside[u][r]"),
        };
        let _ = writeln!(
            text,
            "{next}            }}\n\
             #pragma unroll\n\
             \x20           for (int ur = 0; ur < TG_UNROLL * TG_ROWS; ur++) {{\n\
             \x20               const int u = ur / TG_ROWS, r = ur % TG_ROWS;\n\
             \x20               const bool selected = {selected};"
        );
        for (index, class) in classes.iter().enumerate() {
            let _ = writeln!(
                text,
                "                const {class}* const c{index} = d{index}[u];"
            );
        }
        write_row(text);
        text.push_str("            }\n");
    }

    fn write_index(&self, text: &mut String, index: usize, dimension: usize, class: &str) {
        let within = if dimension + 1 == self.source.array.shape().len() {
            " + bunch.from[r]"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "#pragma unroll\n                for (int r = 0; r < TG_ROWS; r++) \
             d{index}[u][r] = ({class})(k{index}.base + k{index}.factor * at.run{within});"
        );
    }

    pub(super) fn write_values(&self, text: &mut String, index: usize, class: &str) {
        let indent = "                ";
        let random = match self.source.array.values() {
            Values::Series { .. } => {
                let _ = writeln!(
                    text,
                    "#pragma unroll\n{indent}for (int r = 0; r < TG_ROWS; r++) \
                     d{index}[u][r] = ({class})(RANDOM_WORD(RANDOM_FIRST) + RANDOM_WORD(RANDOM_SECOND) * (bunch.at + bunch.from[r]));"
                );
                return;
            }
            Values::Constant(_) => {
                let _ = writeln!(
                    text,
                    "#pragma unroll\n{indent}for (int r = 0; r < TG_ROWS; r++) d{index}[u][r] = {real}(RANDOM_FIRST);",
                    real = if self.is_single() {
                        "RANDOM_SINGLE"
                    } else {
                        "RANDOM_REAL"
                    }
                );
                return;
            }
            random => random,
        };
        let normals = matches!(random, Values::Normal { .. });
        if self.is_single() {
            self.write_singles(text, index, normals);
            return;
        }
        let both = |block: &str, first: &str, second: &str| match random {
            Values::Normal { .. } => {
                format!("random_normals(p, tables, {block}, {first}, {second});")
            }
            Values::Uniform { .. } => format!(
                "{first} = random_uniform(p, {block}.word[0], {block}.word[1]); {second} = random_uniform(p, {block}.word[2], {block}.word[3]);"
            ),
            _ => format!(
                "{first} = ({class})random_integer(p, {block}.word[0], {block}.word[1]); {second} = ({class})random_integer(p, {block}.word[2], {block}.word[3]);"
            ),
        };
        if self.source.log_step().is_some() {
            let (first, second) = (format!("d{index}[u][0]"), format!("d{index}[u][1]"));
            let _ = writeln!(
                text,
                "{indent}const RandomBlock block = random_block(p, bunch.counter);\n{indent}{}",
                both("block", &first, &second)
            );
            return;
        }
        let _ = writeln!(
            text,
            "#pragma unroll\n{indent}for (int r = 0; r < TG_ROWS; r++) {{\n\
             {indent}    const u64 flat = bunch.at + bunch.from[r];\n\
             {indent}    const RandomBlock block = random_block(p, flat & ~32ull);\n\
             {indent}    {class} first_value, second_value;\n\
             {indent}    {}\n\
             {indent}    d{index}[u][r] = flat & 32 ? second_value : first_value;\n\
             {indent}}}",
            both("block", "first_value", "second_value")
        );
    }

    fn write_singles(&self, text: &mut String, index: usize, normals: bool) {
        let indent = "                ";
        let _ = match (self.source.log_step(), normals) {
            (Some(_), true) => writeln!(
                text,
                "{indent}const RandomBlock block = random_block(p, bunch.counter);\n\
                 {indent}random_single_normals(p, block.word[0], block.word[1], d{index}[u][0], d{index}[u][1]);\n\
                 {indent}random_single_normals(p, block.word[2], block.word[3], d{index}[u][2], d{index}[u][3]);"
            ),
            (Some(_), false) => writeln!(
                text,
                "{indent}const RandomBlock block = random_block(p, bunch.counter);\n\
                 #pragma unroll\n\
                 {indent}for (int r = 0; r < TG_ROWS; r++) d{index}[u][r] = random_single_uniform(p, block.word[r]);"
            ),
            (None, normals) => writeln!(
                text,
                "#pragma unroll\n{indent}for (int r = 0; r < TG_ROWS; r++) {{\n\
                 {indent}    const u64 flat = bunch.at + bunch.from[r];\n\
                 {indent}    const RandomBlock block = random_block(p, flat & ~48ull);\n\
                 {indent}    const bool later = (flat & 32) != 0;\n\
                 {indent}    const u32 low = later ? block.word[2] : block.word[0], high = later ? block.word[3] : block.word[1];\n\
                 {indent}    float first_value, second_value;\n\
                 {indent}    {}\n\
                 {indent}    d{index}[u][r] = flat & 16 ? second_value : first_value;\n\
                 {indent}}}",
                match normals {
                    true => "random_single_normals(p, low, high, first_value, second_value);",
                    false => {
                        "first_value = random_single_uniform(p, low); second_value = random_single_uniform(p, high);"
                    }
                }
            ),
        };
    }
}
