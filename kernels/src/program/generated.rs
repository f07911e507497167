//! Columns that a kernel makes from the rows' positions: the indices and the values of an array.
//!
//! A segment is then a piece of a part of an array, as [`Runs`] of indices, and a thread takes rows by
//! bunches: TG_ROWS are the values of a block. What stands in the place of a column's description is in
//! `random.cuh`.

use std::fmt::Write;

use arrow_schema::DataType;
use tidegate_pipeline::{Expr, ExprKind, Pipeline, Step};

use super::interval::Interval;
use super::slots::{Slot, SlotFacts};
use super::source::{Shape, blocks_of_random};
use crate::engine::Segments;
use crate::random::{
    Array, NORMAL_MAX, NORMAL_MAX_SINGLE, Part, Runs, ValueKind, Values, device_definitions_single,
    device_words,
};

/// The array whose indices and values a kernel's input columns are.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The array.
    pub array: Array,
    /// What each column of the pipeline's input is.
    pub columns: Vec<GeneratedColumn>,
    /// How far neighbours of the last dimension are apart in the parts that will be folded.
    pub step: u64,
    /// The parts' runs are short: a thread takes neighbours, each of which has a block of its own, where
    /// both values of a block would mostly lie outside.
    pub short_runs: bool,
}

/// What a column of a generated array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedColumn {
    /// The index in a dimension.
    Index(usize),
    /// The value.
    Value,
}

impl GeneratedColumn {
    /// Returns what a column is of the table of an array, whose first columns are the indices.
    pub fn of(array: &Array, column: usize) -> Self {
        if column < array.shape().len() {
            Self::Index(column)
        } else {
            Self::Value
        }
    }
}

/// Returns why the columns of an array are not all that a program reads, if so.
pub(super) fn check_slots(slots: &[(Slot, SlotFacts)]) -> Result<(), String> {
    let is_column = |(slot, _): &(Slot, SlotFacts)| matches!(slot.expr.kind, ExprKind::Column(_));
    if slots.iter().all(is_column) {
        return Ok(());
    }
    Err("an expression that the host evaluates, over an array that the device makes".into())
}

/// The most rows of a segment, those outside of runs included.
const ROWS_MAX: u64 = 1 << 31;
/// Indices of which some share blocks.
const GROUP: u64 = 64;
/// The farthest that a run reaches in one segment.
const REACH_MAX: u64 = 1 << 30;

/// Runs that reach less far are short: a group of indices more than they need costs more than half.
const SHORT_REACH: u64 = 96;

impl Generated {
    /// Describes what a kernel makes of parts of an array, whose last spans have all this step.
    pub fn new(array: Array, columns: Vec<GeneratedColumn>, step: u64, parts: &[Part]) -> Self {
        let indices = columns
            .iter()
            .any(|column| matches!(column, GeneratedColumn::Index(_)));
        let reach = |part: &Part| array.reach(part, indices);
        let farthest = parts.iter().map(reach).max();
        Self {
            short_runs: farthest.is_some_and(|reach| reach < SHORT_REACH),
            array,
            columns,
            step,
        }
    }

    /// Returns what is known of a column's values.
    pub fn facts(&self, slot: &Slot) -> SlotFacts {
        let (mut range, mut bound) = (Interval::ALL, 0.0);
        let mut width = 8;
        match self.column(slot) {
            GeneratedColumn::Value if self.array.kind() == ValueKind::Single => {
                width = 4;
                // A single's rounding takes it farther by 2^-24 of itself, parameters included.
                bound = self.bound() * (1.0 + f64::from(f32::EPSILON));
            }
            GeneratedColumn::Index(dimension) => {
                let last = self.array.shape()[dimension].saturating_sub(1);
                range = Interval::new(0, i128::from(last));
            }
            GeneratedColumn::Value => match self.array.values() {
                Values::Normal { .. } | Values::Uniform { .. } | Values::Constant(_) => {
                    bound = self.bound();
                }
                Values::Integers { low, count } => {
                    let high = i128::from(low) + i128::from(count.wrapping_sub(1));
                    range = Interval::new(i128::from(low), high);
                }
                Values::Series { start, step } => range = self.series(start, step),
            },
        }
        SlotFacts {
            range,
            float_bound: if bound.is_finite() {
                bound
            } else {
                f64::INFINITY
            },
            nullable: false,
            widths: vec![width],
            scaled: false,
            step: 1,
            lookup: None,
        }
    }

    /// Returns how far from zero a float can be.
    fn bound(&self) -> f64 {
        match self.array.values() {
            Values::Normal { location, scale } => {
                let farthest = match self.array.kind() {
                    ValueKind::Single => NORMAL_MAX_SINGLE,
                    _ => NORMAL_MAX,
                };
                location.abs() + farthest * scale
            }
            Values::Uniform { low, width } => low.abs() + width.abs(),
            Values::Constant(value) => value.abs(),
            Values::Integers { .. } | Values::Series { .. } => f64::INFINITY,
        }
    }

    /// Returns how many rows a group can have at the most, where a pipeline groups by indices.
    pub fn group_rows_max(&self, pipeline: &Pipeline) -> Option<u64> {
        // What each column is over the input, if it is one of its columns.
        let mut scope: Vec<Option<usize>> = (0..self.columns.len()).map(Some).collect();
        let of_input = |expr: &Expr, scope: &[Option<usize>]| match expr.kind {
            ExprKind::Column(index) => scope.get(index).copied().flatten(),
            _ => None,
        };
        for step in &pipeline.steps {
            match step {
                Step::Filter(_) => {}
                Step::Project(columns) => {
                    let columns = columns.iter();
                    scope = columns
                        .map(|column| of_input(&column.expr, &scope))
                        .collect();
                }
                Step::Aggregate(aggregate) => {
                    let shape = self.array.shape();
                    let mut is_key = vec![false; shape.len()];
                    for key in &aggregate.keys {
                        let column = of_input(&key.expr, &scope);
                        if let Some(GeneratedColumn::Index(dimension)) =
                            column.map(|column| self.columns[column])
                        {
                            is_key[dimension] = true;
                        }
                    }
                    let others = shape.iter().zip(&is_key).filter(|(_, is_key)| !**is_key);
                    let rows = others.map(|(len, _)| len).product();
                    return is_key.contains(&true).then_some(rows);
                }
                Step::Sort(_) => return None,
            }
        }
        None
    }

    /// Returns where the values of a series lie.
    fn series(&self, start: i64, step: i64) -> Interval {
        let last = i128::from(self.array.num_values().saturating_sub(1));
        let (first, last) = (
            i128::from(start),
            i128::from(start) + i128::from(step) * last,
        );
        let range = Interval::new(first.min(last), first.max(last));
        // Beyond 64 bits it wraps.
        if range.is_within(Interval::signed(64)) {
            range
        } else {
            Interval::signed(64)
        }
    }

    fn column(&self, slot: &Slot) -> GeneratedColumn {
        match slot.expr.kind {
            ExprKind::Column(index) => self.columns[index],
            _ => GeneratedColumn::Value,
        }
    }

    /// Returns the literals that the kernel's numbers are, in the order of `random.cuh`.
    pub(super) fn literals(&self) -> Vec<u64> {
        let mut words = self.array.stream().words().to_vec();
        let real = |value: f64| match self.array.kind() {
            ValueKind::Single => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        words.extend(match self.array.values() {
            Values::Normal { location, scale } => [real(location), real(scale)],
            Values::Uniform { low, width } => [real(low), real(width)],
            Values::Integers { low, count } => [low as u64, count],
            Values::Series { start, step } => [start as u64, step as u64],
            Values::Constant(value) => [real(value), 0],
        });
        words.push(self.step);
        if self.array.kind() != ValueKind::Single {
            words.extend(device_words());
        }
        words
    }

    /// Returns the definitions that the blocks for singles need.
    pub(super) fn definitions(&self) -> String {
        match self.array.kind() {
            ValueKind::Single => device_definitions_single(),
            _ => String::new(),
        }
    }

    /// Returns whether a slot of the program is an index.
    fn reads_indices(&self, slots: &[(Slot, SlotFacts)]) -> bool {
        slots
            .iter()
            .any(|(slot, _)| matches!(self.column(slot), GeneratedColumn::Index(_)))
    }

    /// Returns how many values a block gives.
    fn block_rows(&self) -> u64 {
        match self.array.kind() {
            ValueKind::Single => 4,
            _ => 2,
        }
    }

    /// Returns the power of two that the step is, if the values of a block are all of a run.
    fn log_step(&self) -> Option<u32> {
        let spread = GROUP / self.block_rows();
        let shares_blocks = self.step.is_power_of_two() && self.step <= spread && !self.short_runs;
        shares_blocks.then(|| self.step.ilog2())
    }

    /// Returns how many rows a thread takes at a time.
    fn bunch_rows(&self) -> u64 {
        match self.log_step() {
            Some(_) => self.block_rows(),
            None => 2,
        }
    }

    /// Cuts parts of the array into segments for a program of this source. The last span of each must
    /// have this source's step, unless it has one index.
    ///
    /// # Errors
    /// A part whose step is another.
    pub fn segments(
        &self,
        slots: &[(Slot, SlotFacts)],
        tile_rows: u32,
        parts: &[Part],
    ) -> Result<Segments, String> {
        let indices = self.reads_indices(slots);
        let mut segments = Segments::empty();
        for part in parts {
            for runs in self.array.runs(part, indices) {
                if runs.step != self.step && runs.len > 1 {
                    return Err(format!(
                        "a part of step {} for a kernel of step {}",
                        runs.step, self.step
                    ));
                }
                self.push(&mut segments, slots, tile_rows, &runs);
            }
        }
        Ok(segments)
    }

    /// Adds runs, in pieces that a segment can hold.
    fn push(
        &self,
        segments: &mut Segments,
        slots: &[(Slot, SlotFacts)],
        tile_rows: u32,
        runs: &Runs,
    ) {
        let (step, rows) = (self.step, self.bunch_rows());
        let len_max = (REACH_MAX / step).max(1);
        let mut begin = 0;
        while begin < runs.len {
            let len = len_max.min(runs.len - begin);
            let reach = (len - 1) * step + 1;
            let bunches = match self.log_step() {
                Some(log) => ((reach + GROUP - 2) / GROUP + 1) * ((GROUP / rows) >> log),
                None => len.div_ceil(rows),
            };
            let runs_max = (ROWS_MAX / (rows * bunches)).max(1);
            let mut run = 0;
            while run < runs.count {
                let count = runs_max.min(runs.count - run);
                let first = runs.first + run * runs.stride + begin * step;
                let geometry = [first, runs.stride, reach | bunches << 32];
                let columns = slots.iter().flat_map(|(slot, _)| {
                    let (base, by) = match self.column(slot) {
                        GeneratedColumn::Index(dimension) => {
                            let (at, by) = runs.indices[dimension];
                            let within = if dimension + 1 == runs.indices.len() {
                                begin * step
                            } else {
                                0
                            };
                            (at + run * by + within, by)
                        }
                        GeneratedColumn::Value => (0, 0),
                    };
                    [geometry[0], geometry[1], base, by, geometry[2]]
                });
                let mut words: Vec<u64> = columns.collect();
                if words.is_empty() {
                    words.extend([geometry[0], geometry[1], 0, 0, geometry[2]]);
                }
                segments.push(
                    &words,
                    (count * bunches * rows) as u32,
                    count * len,
                    tile_rows,
                );
                run += count;
            }
            begin += len;
        }
    }
}

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

    fn write_values(&self, text: &mut String, index: usize, class: &str) {
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

/// Bunches that a thread takes at once, and rows of a tile of 256 threads: a tile costs a division.
const UNROLL: u32 = 2;
const ROWS_PER_TILE: u32 = 16_384;

impl Generated {
    /// Returns how a tile is cut up; `bytes` is how many of a bunch's 16 bytes a thread holds at once.
    pub(super) fn shape(&self, threads: u32, bytes: Option<u32>) -> Shape {
        let unroll = bytes.map_or(UNROLL, |bytes| (bytes / 16).clamp(1, 4));
        let rows = self.bunch_rows() as u32;
        Shape::of_bunches(threads, rows, 1 << unroll.ilog2(), ROWS_PER_TILE)
    }
}

/// A kernel that writes the values at consecutive flat indices.
#[derive(Clone, Debug)]
pub struct ValuesKernel {
    /// CUDA C++ without a header; the kernel is called `write_values`.
    pub text: String,
    /// The last words of a launch. Before them come the address of the values, the first
    /// flat index and the number of values, both multiples of 64.
    pub literals: Vec<u64>,
}

/// Returns the kernel that writes the values of an array.
pub fn values_kernel(array: &Array) -> ValuesKernel {
    let source = Generated {
        array: array.clone(),
        columns: vec![GeneratedColumn::Value],
        step: 1,
        short_runs: false,
    };
    let literals = source.literals();
    let class = match array.kind() {
        ValueKind::Integer => "i64",
        ValueKind::Double => "double",
        ValueKind::Single => "float",
    };
    let rows = source.block_rows();
    let mut text = format!("#define TG_UNROLL 1\n#define TG_ROWS {rows}\n");
    text.push_str(&blocks_of_random(&source));
    let _ = write!(
        text,
        "\nstruct Launch {{\n    {class}* values;\n    u64 first;\n    u64 count;\n    u64 literals[{}];\n}};\n\n\
         extern \"C\" __global__ void __launch_bounds__(256) write_values(const __grid_constant__ Launch p) {{\n",
        literals.len()
    );
    if matches!(array.values(), Values::Normal { .. }) && array.kind() == ValueKind::Double {
        text.push_str("    __shared__ RandomTables tables;\n    random_tables(p, tables);\n");
    }
    let _ = write!(
        text,
        "    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < p.count / TG_ROWS; i += gridDim.x * (u64)blockDim.x) {{\n\
         \x20       const int u = 0;\n\
         \x20       {class} d0[TG_UNROLL][TG_ROWS];\n\
         \x20       const u64 to = i / TG_SPREAD * 64 + i % TG_SPREAD;\n\
         \x20       Bunch bunch = {{p.first + to, p.first + to}};\n\
         \x20       for (int r = 0; r < TG_ROWS; r++) bunch.from[r] = TG_SPREAD * r;\n"
    );
    let code = GeneratedCode {
        source: &source,
        slots: &[],
    };
    code.write_values(&mut text, 0, class);
    text.push_str(
        "        for (int r = 0; r < TG_ROWS; r++) p.values[to + TG_SPREAD * r] = d0[u][r];\n\
         \x20   }\n}\n",
    );
    ValuesKernel { text, literals }
}

/// Returns the type of an array's values.
pub fn value_type(array: &Array) -> DataType {
    match array.kind() {
        ValueKind::Integer => DataType::Int64,
        ValueKind::Double => DataType::Float64,
        ValueKind::Single => DataType::Float32,
    }
}
