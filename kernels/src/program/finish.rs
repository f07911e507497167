//! The kernel that finishes an aggregate: groups of a table become rows of plain columns.
//!
//! A warp takes consecutive slots, finds by the order of slots where its groups go, and a thread
//! computes a group's keys from its words, and the results of accumulators, of which the calls' finishes
//! make values. Columns are written as Arrow has them, for the host; or stored, as the next program reads
//! them, with what it may know of their values.

mod results;

use std::fmt::Write;

use arrow_schema::DataType;
use tidegate_pipeline::program::{Class, InputId, Op};
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{Interval, Unsupported};

use super::compact::{COMPACT, written_as};
use super::layout::{AccumulatorPlan, Sums};
use super::print::{ResultText, RowText};
use super::source::{
    CALENDAR, CHECKED, LITERALS_MAX, PRELUDE, STORE, too_many_literals, write_launch,
};
use super::store::{GroupPlan, KEY_LITERALS, KeyPlan, Presence, Store};
use super::wide::{KEY_WORD, WIDE_KEY};
use super::{OutputColumn, SlotFacts};
use crate::host::Finish;
use results::ResultCode;

const FINISH: &str = include_str!("../../cuda/finish.cuh");
const MOMENTS_FINISH: &str = include_str!("../../cuda/moments_finish.cuh");

const THREADS: u32 = 256;

/// Slots that a thread looks at.
const SLOTS_PER_THREAD: u32 = 8;

/// What finished columns are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishLayout {
    /// To leave: values as Arrow has them, booleans as bytes, strings as codes.
    Arrow,
    /// To be read by another program: integers of 4, 8 or 16 bytes, booleans of one.
    Stored,
}

/// The kernel `finish` of one aggregate over one layout of its groups.
#[derive(Clone, Debug)]
pub struct FinishProgram {
    /// CUDA C++ without a header.
    pub text: String,
    /// What the launch has behind the literals of the table.
    pub literals: Vec<u64>,
    /// The columns, in the order of the aggregate's output.
    pub columns: Vec<FinishedColumn>,
    /// Threads of a block.
    pub threads: u32,
    /// Slots of a tile.
    pub tile_slots: u32,
}

impl FinishProgram {
    /// The names of the kernels in the source.
    pub const KERNELS: [&'static str; 1] = ["finish"];
}

/// A column that is written for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedColumn {
    /// How it is written.
    pub output: OutputColumn,
    /// Its type.
    pub data_type: DataType,
    /// How its values are noted.
    pub noted: Noted,
}

/// What the kernel notes of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Nothing.
    Nothing,
    /// The least and the greatest, as far as 64 bits hold them.
    Integers,
    /// The greatest distance from zero, and whether one is NaN, infinite or −0.0.
    Floats,
}

impl FinishedColumn {
    /// Returns what holds of the stored column, from the two words that the kernel has noted.
    pub fn facts(&self, words: [u64; 2]) -> SlotFacts {
        let declared = SlotFacts::declared(&self.data_type, self.output.nullable);
        let [low, high] = words;
        let mut range = Interval::of_type(&self.data_type).unwrap_or(declared.range);
        let mut float_bound = f64::INFINITY;
        match self.noted {
            Noted::Nothing => {}
            Noted::Floats => {
                let bound = f64::from_bits(high);
                if bound.is_finite() {
                    float_bound = bound;
                }
                range = Interval::ALL;
            }
            Noted::Integers if low == 0 && high == 0 => range = Interval::of(0),
            Noted::Integers => {
                let value = |image: u64| i128::from((image ^ (1 << 63)) as i64);
                let seen = Interval::new(value(!low), value(high));
                let limit = Interval::signed(64);
                // At the ends of 64 bits may be what is beyond them.
                let is_whole = range.is_within(limit);
                let is_inside = limit.low < seen.low && seen.high < limit.high;
                if is_whole || is_inside {
                    range = seen;
                }
                // What lies where a value is NULL.
                if self.output.nullable {
                    range = range.hull(Interval::of(0));
                }
            }
        }
        SlotFacts {
            range,
            float_bound,
            float_least: 0.0,
            widths: vec![self.output.width],
            scaled: false,
            ..declared
        }
    }
}

/// Writes the kernel that finishes groups that are laid out by `plan`, under launches with `num_literals`
/// literals.
///
/// # Errors
/// What of the groups only the host can finish.
pub fn finish_program(
    plan: &GroupPlan,
    finishes: &[Finish],
    num_literals: usize,
    layout: FinishLayout,
) -> Result<FinishProgram, Unsupported> {
    let mut literals = vec![0; num_literals];
    literals.extend(plan.keys.iter().map(|key| (key.low >> 64) as u64));
    let mut row = RowCode {
        plan,
        num_literals,
        layout,
        lines: Vec::new(),
        columns: Vec::new(),
        literals,
        results: ResultCode::new(plan),
        has_calendar: false,
    };
    row.keys();
    for finish in finishes {
        row.call(finish)?;
    }
    if row.literals.len() > LITERALS_MAX {
        return Err(too_many_literals());
    }
    let mut text = String::with_capacity(32 << 10);
    for (name, value) in [
        ("TG_BLOCK", THREADS),
        ("TG_UNROLL", SLOTS_PER_THREAD),
        ("TG_TILE", THREADS * SLOTS_PER_THREAD),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    let is_moments =
        |kept: &AccumulatorPlan| matches!(kept.sums, Sums::Moments { .. } | Sums::CoMoment { .. });
    for (used, block) in [
        (true, PRELUDE),
        (true, CHECKED),
        (row.has_calendar, CALENDAR),
        (true, STORE),
        (true, COMPACT),
        (true, FINISH),
        (plan.accumulators.iter().any(is_moments), MOMENTS_FINISH),
        (plan.wide.is_some(), WIDE_KEY),
    ] {
        if used {
            text.push_str(block);
        }
    }
    // A launch has columns, of which this kernel reads none.
    text.push_str("\nstruct Column;\n");
    write_launch(&mut text, row.literals.len());
    row.write_kernel(&mut text);
    Ok(FinishProgram {
        text,
        literals: row.literals.split_off(num_literals),
        columns: row.columns,
        threads: THREADS,
        tile_slots: THREADS * SLOTS_PER_THREAD,
    })
}

/// Writes the code of one group.
struct RowCode<'a> {
    plan: &'a GroupPlan,
    num_literals: usize,
    layout: FinishLayout,
    lines: Vec<String>,
    columns: Vec<FinishedColumn>,
    /// Those of the table's launches, then those of the kernel.
    literals: Vec<u64>,
    results: ResultCode<'a>,
    /// Whether a finish calls a function of the catalogue.
    has_calendar: bool,
}

impl RowCode<'_> {
    /// Writes a value to the next column.
    fn column(
        &mut self,
        data_type: &DataType,
        class: Class,
        code: &str,
        valid: Option<&str>,
        dictionary: Option<usize>,
    ) {
        let index = self.columns.len();
        let (name, width) = match self.layout {
            FinishLayout::Arrow => written_as(data_type),
            FinishLayout::Stored => stored_as(data_type, class),
        };
        let value = match valid {
            Some(valid) => format!("({valid} ? ({name})({code}) : ({name})0)"),
            None => format!("({name})({code})"),
        };
        self.lines.push(format!(
            "(({name}*)p.outputs[{}])[position] = {value};",
            2 * index
        ));
        if let Some(valid) = valid {
            self.lines.push(format!(
                "((u8*)p.outputs[{}])[position] = {valid} ? 1 : 0;",
                2 * index + 1
            ));
        }
        let noted = match (self.layout, class) {
            (FinishLayout::Arrow, _) => Noted::Nothing,
            (_, Class::F32 | Class::F64) => Noted::Floats,
            _ if *data_type == DataType::Boolean => Noted::Nothing,
            _ => Noted::Integers,
        };
        let guard = valid.map_or_else(String::new, |valid| format!("if ({valid}) "));
        match noted {
            Noted::Nothing => {}
            Noted::Floats => self.lines.push(format!(
                "{guard}note_float((double)({code}), least{index}, most{index});"
            )),
            Noted::Integers => self.lines.push(format!(
                "{guard}note_value({code}, least{index}, most{index});"
            )),
        }
        self.columns.push(FinishedColumn {
            output: OutputColumn {
                width,
                nullable: valid.is_some(),
                dictionary,
            },
            data_type: data_type.clone(),
            noted,
        });
    }

    fn keys(&mut self) {
        if let Some(wide) = &self.plan.wide {
            self.results
                .read_words(wide.first..wide.first + 2 * (wide.num_words - 1));
            self.lines.extend(wide.reading_code());
            for (position, key) in self.plan.keys.iter().enumerate() {
                self.wide_key(position, key);
            }
            return;
        }
        let last = self.plan.keys.len().saturating_sub(1);
        let is_full = self.plan.num_packed.is_none();
        for (position, key) in self.plan.keys.iter().enumerate() {
            let at = self.plan.key_literals + KEY_LITERALS * position;
            // The stride of the first key is 1, and above the last one nothing is.
            let mut index = "packed".to_owned();
            if position > 0 {
                index = format!("{index} / p.literals[{}]", at + 2);
            }
            if position < last {
                let nulls = u64::from(key.nullable);
                index = format!("({index}) % (p.literals[{}] + {nulls}ull)", at + 1);
            }
            self.lines
                .push(format!("const u64 index{position} = {index};"));
            let name = format!("valid{position}");
            let valid = match (key.nullable, is_full) {
                (false, _) => None,
                (true, true) => Some("!is_null".to_owned()),
                (true, false) => Some(format!("index{position} != p.literals[{}]", at + 1)),
            };
            let valid = valid.map(|code| {
                self.lines.push(format!("const bool {name} = {code};"));
                name.as_str()
            });
            self.key(position, key, valid);
        }
    }

    /// Writes a key of those that need more than 64 bits.
    fn wide_key(&mut self, position: usize, key: &KeyPlan) {
        let Some(place) = key.wide else {
            return;
        };
        let name = format!("valid{position}");
        let valid = place.null.map(|(word, bit)| {
            self.lines.push(format!(
                "const bool {name} = (({KEY_WORD}{word} >> {bit}) & 1) == 0;"
            ));
            name.as_str()
        });
        if place.is_halved {
            let low = place.word;
            let code = format!("i128_of({KEY_WORD}{}, {KEY_WORD}{low})", low + 1);
            self.column(&key.data_type, Class::I128, &code, valid, None);
            return;
        }
        let at = self.plan.key_literals + KEY_LITERALS * position;
        let index = key.among_code(&place, at);
        self.lines
            .push(format!("const u64 index{position} = {index};"));
        self.key(position, key, valid);
    }

    fn key(&mut self, position: usize, key: &KeyPlan, valid: Option<&str>) {
        let at = self.plan.key_literals + KEY_LITERALS * position;
        let distance = match key.step {
            0 | 1 => format!("index{position}"),
            _ => format!("index{position} * p.literals[{}]", at + 3),
        };
        let bits = format!("p.literals[{at}] + {distance}");
        let high = i128::try_from(key.num_values)
            .ok()
            .and_then(|values: i128| (values - 1).checked_mul(i128::from(key.step.max(1))))
            .and_then(|distance| key.low.checked_add(distance));
        let fits =
            high.is_some_and(|high| Interval::new(key.low, high).is_within(Interval::signed(64)));
        let (class, code) = match &key.data_type {
            DataType::Float32 => (Class::F32, format!("__int_as_float((i32)({bits}))")),
            DataType::Float64 => (Class::F64, format!("__longlong_as_double((i64)({bits}))")),
            DataType::UInt64 => (Class::I64, format!("(u64)({bits})")),
            DataType::Decimal128(_, _) if !fits => {
                let high = self.num_literals + position;
                let code = format!(
                    "wrapping_add(i128_of(p.literals[{high}], p.literals[{at}]), (i128)index{position})"
                );
                (Class::I128, code)
            }
            _ => (Class::I64, format!("(i64)({bits})")),
        };
        let data_type = key.data_type.clone();
        self.column(&data_type, class, &code, valid, key.dictionary);
    }

    /// Writes the columns of a call, in a scope of their own.
    fn call(&mut self, finish: &Finish) -> Result<(), Unsupported> {
        let program = finish.program();
        let reads = |op: Op| program.values.iter().any(|value| value.op == op);
        let mut results = Vec::with_capacity(program.inputs.len());
        for at in finish.accumulators() {
            for result in 0..self.results.num_results(*at) {
                let input = InputId(results.len() as u32);
                let (value, class) = match reads(Op::Input(input)) {
                    true => self.results.value(*at, result, &mut self.lines)?,
                    false => (String::new(), Class::Bool),
                };
                let valid = match reads(Op::IsPresent(input)) {
                    true => self.results.valid(*at),
                    false => String::new(),
                };
                results.push(ResultText {
                    value,
                    class,
                    valid,
                });
            }
        }
        let literals = std::mem::take(&mut self.literals);
        let mut text = RowText::of_groups(program, &results, literals)?;
        self.literals = std::mem::take(&mut text.literals);
        self.has_calendar |= text.blocks.calendar;
        self.lines.push("{".to_owned());
        self.lines.append(&mut text.lines);
        for output in finish.outputs() {
            let (value, valid) = (output.value.value, output.value.valid);
            let valid = (!program.is(valid, true)).then(|| text.name(valid));
            let class = text.class(value);
            self.column(&output.data_type, class, text.name(value), valid, None);
        }
        self.lines.push("}".to_owned());
        Ok(())
    }

    fn write_kernel(&self, text: &mut String) {
        let (stride, _) = self.plan.record();
        let is_hash = self.plan.store == Store::Hash;
        let there = match self.plan.presence {
            Presence::Always => "true".to_owned(),
            Presence::Word(word) => format!("p.state[slot * {stride} + {word}] != 0"),
            Presence::Bit => "((p.present[slot >> 5] >> (slot & 31)) & 1) != 0".to_owned(),
            Presence::Key => format!("p.state[slot * {stride}] != 0xffffffffffffffffull"),
        };
        let _ = writeln!(
            text,
            "extern \"C\" __global__ void __launch_bounds__(TG_BLOCK) finish(const __grid_constant__ Launch p) {{\n\
             \x20   __shared__ u32 warp_counts[TG_BLOCK / 32];\n\
             \x20   __shared__ u64 ticket, first_place;\n\
             \x20   const u32 lane = threadIdx.x & 31;\n\
             \x20   const u64 slots = p.num_slots + {};",
            if is_hash { 2 } else { 0 }
        );
        for (index, column) in self.columns.iter().enumerate() {
            if column.noted != Noted::Nothing {
                let _ = writeln!(text, "    u64 least{index} = 0, most{index} = 0;");
            }
        }
        let _ = writeln!(
            text,
            "    while (true) {{\n\
             \x20       __syncthreads();\n\
             \x20       if (threadIdx.x == 0) ticket = atomicAdd(p.resume, 1ull);\n\
             \x20       __syncthreads();\n\
             \x20       const u64 tile = ticket;\n\
             \x20       if (tile >= p.num_tiles) break;\n\
             \x20       const u64 first = tile * TG_TILE + threadIdx.x / 32 * (32 * TG_UNROLL) + lane;\n\
             \x20       u32 mask = 0, found = 0;\n\
             #pragma unroll\n\
             \x20       for (int u = 0; u < TG_UNROLL; u++) {{\n\
             \x20           const u64 slot = first + u * 32;\n\
             \x20           const bool there = slot < slots && {there};\n\
             \x20           found += __popc(__ballot_sync(0xffffffffu, there));\n\
             \x20           mask |= (there ? 1u : 0u) << u;\n\
             \x20       }}\n\
             \x20       u64 place = place_of_warp(p.spill, tile, found, warp_counts, &first_place);\n\
             #pragma unroll 1\n\
             \x20       for (int u = 0; u < TG_UNROLL; u++) {{\n\
             \x20           const u32 all = __ballot_sync(0xffffffffu, (mask >> u) & 1);\n\
             \x20           const u64 slot = first + u * 32, position = place + __popc(all & ((1u << lane) - 1));\n\
             \x20           place += __popc(all);\n\
             \x20           if (((mask >> u) & 1) == 0) continue;\n\
             \x20           const u64* const record = p.state + slot * {stride};"
        );
        self.write_group(text);
        text.push_str("        }\n    }\n");
        for (index, column) in self.columns.iter().enumerate() {
            if column.noted != Noted::Nothing {
                let _ = writeln!(
                    text,
                    "    note_end((u64*)p.outputs[{}] + {}, least{index}, most{index});",
                    2 * self.columns.len(),
                    2 * index
                );
            }
        }
        text.push_str("}\n");
    }

    /// Writes the code of the group in a slot.
    fn write_group(&self, text: &mut String) {
        let (_, first) = self.plan.record();
        let is_hash = self.plan.store == Store::Hash;
        let packed = if is_hash {
            "slot < p.num_slots ? record[0] : 0xffffffffffffffffull"
        } else {
            "slot"
        };
        let _ = writeln!(text, "            const u64 packed = {packed};");
        if is_hash {
            text.push_str("            const bool is_null = slot == p.num_slots + 1;\n");
        }
        for word in self.results.words_read() {
            let _ = writeln!(
                text,
                "            const u64 w{word} = record[{}];",
                first + word
            );
        }
        for line in &self.lines {
            let _ = writeln!(text, "            {line}");
        }
    }
}

/// Returns how a value is written for another program.
fn stored_as(data_type: &DataType, class: Class) -> (&'static str, u32) {
    match (class, data_type) {
        (Class::F32, _) => ("float", 4),
        (Class::F64, _) => ("double", 8),
        (_, DataType::Boolean) => ("u8", 1),
        (_, string) if is_string(string) => ("u32", 4),
        (_, other) => match (other.primitive_width(), class) {
            (Some(1 | 2 | 4), _) => ("u32", 4),
            (Some(16), Class::I128) => ("i128", 16),
            _ => ("u64", 8),
        },
    }
}
