//! The kernel that finishes an aggregate: groups of a table become rows of plain columns.
//!
//! A warp takes consecutive slots, finds by the order of slots where its groups go, and a thread
//! computes a group's keys and values from its words, as the host's [`Groups`](crate::groups::Groups)
//! do. Columns are written as Arrow has them, for the host; or stored, as the next program reads
//! them, with what it may know of their values.

use std::fmt::Write;

use arrow_schema::DataType;
use tidegate_pipeline::types::{Decimal, DecimalWidth, is_string};
use tidegate_pipeline::{Aggregate, AggregateCall, AggregateFunction, AggregateOutput, Interval};

use super::compact::{COMPACT, written_as};
use super::layout::{CallPlan, FloatScaleAt, MomentScale, Sums};
use super::source::{CHECKED, LITERALS_MAX, PRELUDE, STORE, write_launch};
use super::store::{GroupPlan, KEY_LITERALS, KeyPlan, Presence, Store};
use super::wide::{KEY_WORD, WIDE_KEY};
use super::{OutputColumn, SlotFacts};

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

/// Writes the kernel that finishes an aggregate whose groups are laid out by `plan`, under launches
/// with `num_literals` literals.
///
/// # Errors
/// What of the aggregate only the host can finish.
pub fn finish_program(
    aggregate: &Aggregate,
    plan: &GroupPlan,
    num_literals: usize,
    layout: FinishLayout,
) -> Result<FinishProgram, String> {
    let literals: Vec<u64> = plan.keys.iter().map(|key| (key.low >> 64) as u64).collect();
    if num_literals + literals.len() > LITERALS_MAX {
        return Err(format!("more than {LITERALS_MAX} words of literals"));
    }
    let mut row = RowCode {
        plan,
        num_literals,
        layout,
        lines: Vec::new(),
        columns: Vec::new(),
    };
    row.keys();
    for (position, (call, call_plan)) in aggregate.calls.iter().zip(&plan.calls).enumerate() {
        row.call(position, call, call_plan, aggregate.output)?;
    }
    let mut text = String::with_capacity(32 << 10);
    for (name, value) in [
        ("TG_BLOCK", THREADS),
        ("TG_UNROLL", SLOTS_PER_THREAD),
        ("TG_TILE", THREADS * SLOTS_PER_THREAD),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    for block in [PRELUDE, CHECKED, STORE, COMPACT, FINISH] {
        text.push_str(block);
    }
    let is_moments = |call: &CallPlan| matches!(call.sums, Sums::Moments { .. });
    if plan.calls.iter().any(is_moments) {
        text.push_str(MOMENTS_FINISH);
    }
    if plan.wide.is_some() {
        text.push_str(WIDE_KEY);
    }
    // A launch has columns, of which this kernel reads none.
    text.push_str("\nstruct Column;\n");
    write_launch(&mut text, num_literals + literals.len());
    row.write_kernel(&mut text);
    Ok(FinishProgram {
        text,
        literals,
        columns: row.columns,
        threads: THREADS,
        tile_slots: THREADS * SLOTS_PER_THREAD,
    })
}

/// How a value stands in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// An integer of at most 64 bits, signed or not.
    Integer,
    /// An `i128`.
    Wide,
    Float32,
    Float64,
}

/// Writes the code of one group.
struct RowCode<'a> {
    plan: &'a GroupPlan,
    num_literals: usize,
    layout: FinishLayout,
    lines: Vec<String>,
    columns: Vec<FinishedColumn>,
}

impl RowCode<'_> {
    /// Writes a value to the next column.
    fn column(
        &mut self,
        data_type: &DataType,
        form: Form,
        code: &str,
        valid: Option<&str>,
        dictionary: Option<usize>,
    ) {
        let index = self.columns.len();
        let (name, width) = match self.layout {
            FinishLayout::Arrow => written_as(data_type),
            FinishLayout::Stored => stored_as(data_type, form),
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
        let noted = match (self.layout, form) {
            (FinishLayout::Arrow, _) => Noted::Nothing,
            (_, Form::Float32 | Form::Float64) => Noted::Floats,
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
            self.column(&key.data_type, Form::Wide, &code, valid, None);
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
        let (form, code) = match &key.data_type {
            DataType::Float32 => (Form::Float32, format!("__int_as_float((i32)({bits}))")),
            DataType::Float64 => (
                Form::Float64,
                format!("__longlong_as_double((i64)({bits}))"),
            ),
            DataType::UInt64 => (Form::Integer, format!("(u64)({bits})")),
            DataType::Decimal128(_, _) if !fits => {
                let high = self.num_literals + position;
                let code = format!(
                    "wrapping_add(i128_of(p.literals[{high}], p.literals[{at}]), (i128)index{position})"
                );
                (Form::Wide, code)
            }
            _ => (Form::Integer, format!("(i64)({bits})")),
        };
        let data_type = key.data_type.clone();
        self.column(&data_type, form, &code, valid, key.dictionary);
    }

    fn call(
        &mut self,
        position: usize,
        call: &AggregateCall,
        plan: &CallPlan,
        output: AggregateOutput,
    ) -> Result<(), String> {
        let count = match plan.count {
            Some(word) => format!("w{word}"),
            // A group that is there has a row, and every row a value.
            None => "1ull".to_owned(),
        };
        if call.function == AggregateFunction::Count {
            self.column(
                &call.data_type,
                Form::Integer,
                &format!("(i64){count}"),
                None,
                None,
            );
            return Ok(());
        }
        if let Sums::Moments {
            sums,
            squares,
            scale,
        } = &plan.sums
        {
            self.moments(position, call, (sums, squares, *scale), &count, output);
            return Ok(());
        }
        let there = format!("there{position}");
        let valid = plan.count.map(|_| {
            self.lines
                .push(format!("const bool {there} = {count} != 0;"));
            there.as_str()
        });
        match (call.function, output) {
            (AggregateFunction::Avg, AggregateOutput::Value) => {
                self.mean(position, call, plan, &count, valid)
            }
            (AggregateFunction::Avg, AggregateOutput::State) => {
                let sum_type = call.state.get(1).map(|field| field.data_type().clone());
                let sum_type = sum_type.unwrap_or_else(|| call.data_type.clone());
                self.column(&DataType::UInt64, Form::Integer, &count, valid, None);
                self.sum(position, &sum_type, &plan.sums, valid)
            }
            _ => self.sum(position, &call.data_type, &plan.sums, valid),
        }
    }

    /// Writes a sum or an extreme.
    fn sum(
        &mut self,
        position: usize,
        data_type: &DataType,
        sums: &Sums,
        valid: Option<&str>,
    ) -> Result<(), String> {
        let (form, code) = match sums {
            Sums::None | Sums::Moments { .. } => return Err("a sum without words".into()),
            Sums::Limbs(limbs) => {
                let is_one = matches!(limbs.as_slice(), [(_, 0)]);
                let sum = self.limbs(position, limbs);
                match (
                    data_type,
                    Decimal::of(data_type).map(|decimal| decimal.width),
                ) {
                    (DataType::Float64, _) => (Form::Float64, format!("double_of({sum})")),
                    (_, Some(DecimalWidth::W128)) if !is_one => (Form::Wide, sum),
                    (_, Some(DecimalWidth::W32)) => (Form::Integer, format!("(i32){sum}")),
                    (DataType::UInt64, _) => (Form::Integer, format!("(u64){sum}")),
                    _ => (Form::Integer, format!("(i64){sum}")),
                }
            }
            Sums::Float(digits, scale) if *data_type == DataType::Float64 => {
                (Form::Float64, self.float_sum(position, digits, *scale))
            }
            Sums::Float(..) => return Err(format!("a float sum as {data_type}")),
            Sums::String { .. } => return Err("min and max of strings leave from the host".into()),
            Sums::Extreme { word, complement } => {
                let image = format!("{}w{word}", if *complement { "~" } else { "" });
                let ordered = format!("extreme_of({image})");
                match data_type {
                    DataType::Float64 => (Form::Float64, format!("double_of_order({ordered})")),
                    DataType::Float32 => (Form::Float32, format!("float_of_order({ordered})")),
                    // What is unsigned is its own image.
                    DataType::UInt64 => (Form::Integer, format!("(u64)({image})")),
                    _ => (Form::Integer, ordered),
                }
            }
        };
        self.column(data_type, form, &code, valid, None);
        Ok(())
    }

    fn mean(
        &mut self,
        position: usize,
        call: &AggregateCall,
        plan: &CallPlan,
        count: &str,
        valid: Option<&str>,
    ) -> Result<(), String> {
        let data_type = &call.data_type;
        let overflow = || format!("a mean of more digits than {data_type} has");
        let (form, code) = match &plan.sums {
            Sums::Float(digits, scale) if *data_type == DataType::Float64 => {
                let sum = self.float_sum(position, digits, *scale);
                (Form::Float64, format!("__ddiv_rn({sum}, (double){count})"))
            }
            Sums::Limbs(limbs) => {
                let sum = self.limbs(position, limbs);
                let summed = call.state.get(1).map(|field| field.data_type());
                match (summed.and_then(Decimal::of), Decimal::of(data_type)) {
                    _ if *data_type == DataType::Float64 => {
                        let code = format!("__ddiv_rn(double_of({sum}), (double){count})");
                        (Form::Float64, code)
                    }
                    (Some(summed), Some(given)) => {
                        let digits = u32::try_from(given.scale - summed.scale);
                        let digits = digits.map_err(|_| overflow())?;
                        let factor = summed.width.power_of_ten(digits).ok_or_else(overflow)?;
                        let sum = match summed.width {
                            DecimalWidth::W32 => format!("(i128)(i32){sum}"),
                            DecimalWidth::W64 => format!("(i128)(i64){sum}"),
                            DecimalWidth::W128 => sum,
                        };
                        let limit = 10_i128.pow(u32::from(given.precision.min(38)));
                        let name = format!("mean{position}");
                        self.lines.push(format!(
                            "const i128 {name} = decimal_mean({sum}, {count}, {}, {}, (u128){}, {}, p.flags);",
                            constant(factor),
                            bits(summed.width),
                            constant(limit),
                            bits(given.width),
                        ));
                        match given.width {
                            DecimalWidth::W128 => (Form::Wide, name),
                            _ => (Form::Integer, format!("(i64){name}")),
                        }
                    }
                    // A mean of durations.
                    _ => (Form::Integer, format!("duration_mean((i64){sum}, {count})")),
                }
            }
            _ => return Err(format!("a mean of {data_type} without a sum")),
        };
        self.column(data_type, form, &code, valid, None);
        Ok(())
    }

    /// Writes the state or the value of a variance.
    fn moments(
        &mut self,
        position: usize,
        call: &AggregateCall,
        (sums, squares, scale): (&[usize], &[usize], MomentScale),
        count: &str,
        output: AggregateOutput,
    ) {
        let listed = |words: &[usize]| {
            let words: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
            words.join(", ")
        };
        let levels = scale.levels;
        self.lines.extend([
            format!("const u64 sums{position}[{levels}] = {{{}}};", listed(sums)),
            format!(
                "const u64 squares{position}[{}] = {{{}}};",
                2 * levels,
                listed(squares)
            ),
            format!("double mean{position}, spread{position};"),
            format!(
                "moments_of<{levels}>({count}, sums{position}, squares{position}, {}, mean{position}, spread{position});",
                scale.unit_code()
            ),
        ]);
        let (mean, m2) = (format!("mean{position}"), format!("spread{position}"));
        if output == AggregateOutput::State {
            self.column(&DataType::UInt64, Form::Integer, count, None, None);
            self.column(&DataType::Float64, Form::Float64, &mean, None, None);
            self.column(&DataType::Float64, Form::Float64, &m2, None, None);
            return;
        }
        let fewer = u64::from(call.function.is_of_sample());
        let there = format!("there{position}");
        self.lines
            .push(format!("const bool {there} = {count} > {fewer}ull;"));
        let variance = format!("__ddiv_rn({m2}, (double)({count} - {fewer}ull))");
        let code = if call.function.is_root() {
            format!("__dsqrt_rn({variance})")
        } else {
            variance
        };
        self.column(&DataType::Float64, Form::Float64, &code, Some(&there), None);
    }

    /// Returns the sum of limbs, modulo 2^128.
    fn limbs(&mut self, position: usize, limbs: &[(usize, u32)]) -> String {
        let limb = |(word, shift): &(usize, u32)| format!("((u128)(i128)(i64)w{word} << {shift})");
        let terms: Vec<String> = limbs.iter().map(limb).collect();
        let name = format!("sum{position}");
        let sum = format!("const i128 {name} = (i128)({});", terms.join(" + "));
        self.lines.push(sum);
        name
    }

    fn float_sum(
        &mut self,
        position: usize,
        digits: &[(usize, Option<usize>)],
        scale: FloatScaleAt,
    ) -> String {
        let digit = |(low, high): &(usize, Option<usize>)| match high {
            None => format!("(i128)(i64)w{low}"),
            Some(high) => format!("(i128)w{low} + (i128)((u128)(i128)(i64)w{high} << 32)"),
        };
        let digits: Vec<String> = digits.iter().map(digit).collect();
        let unit = |level: usize| format!("unit_of(p.literals[{}])", scale.literal + 2 + level);
        let units: Vec<String> = (0..scale.levels).map(unit).collect();
        let levels = scale.levels;
        self.lines.push(format!(
            "i128 digits{position}[{levels}] = {{{}}};",
            digits.join(", ")
        ));
        self.lines.push(format!(
            "const double units{position}[{levels}] = {{{}}};",
            units.join(", ")
        ));
        let name = format!("sum{position}");
        self.lines.push(format!(
            "const double {name} = fixed_point_sum<{levels}>(digits{position}, units{position}, {});",
            scale.digit_bits
        ));
        name
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
        for word in 0..self.plan.num_words() {
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
fn stored_as(data_type: &DataType, form: Form) -> (&'static str, u32) {
    match form {
        Form::Float32 => ("float", 4),
        Form::Float64 => ("double", 8),
        Form::Wide => ("i128", 16),
        Form::Integer => match data_type {
            DataType::Boolean => ("u8", 1),
            string if is_string(string) => ("u32", 4),
            other => match other.primitive_width() {
                Some(1 | 2 | 4) => ("u32", 4),
                _ => ("u64", 8),
            },
        },
    }
}

fn bits(width: DecimalWidth) -> u32 {
    match width {
        DecimalWidth::W32 => 32,
        DecimalWidth::W64 => 64,
        DecimalWidth::W128 => 128,
    }
}

/// Returns the C++ constant.
fn constant(value: i128) -> String {
    format!("i128_of({}ull, {}ull)", (value >> 64) as u64, value as u64)
}
