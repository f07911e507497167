//! The parts of a kernel that read columns.
//!
//! In a step a thread takes TG_UNROLL runs of TG_ROWS consecutive rows. Packets of raw values are
//! fetched first, all before the first use, and decoded in registers. A kernel with few threads runs
//! ahead: it fetches the packets of the next step before it takes the rows of this one.

use std::fmt::Write;

use arrow_schema::DataType;
use tidegate_pipeline::program::{Class, Type};

use super::packet::Packet;
use super::print::c_type;
use super::shape::Shape;
use super::slots::{Slot, SlotFacts, SlotKind};

/// How the code for each of a step's rows is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowCode {
    /// Once, in a loop that the compiler unrolls.
    Unrolled,
    /// For each row, for a compiler that unrolls no loops.
    SpelledOut,
    /// Once for a run, in a loop that stays one: the packets move on by a row. Each column has one width
    /// and no NULLs.
    InTurn,
}

/// Writes how a thread reads the columns of its rows.
#[derive(Clone, Copy)]
pub(super) struct LoadCode<'a> {
    slots: &'a [(Slot, SlotFacts)],
    /// Consecutive rows of a run.
    rows: u32,
    /// Runs of a step.
    unroll: u32,
    row_code: RowCode,
}

impl<'a> LoadCode<'a> {
    pub(super) fn new(slots: &'a [(Slot, SlotFacts)], shape: &Shape, row_code: RowCode) -> Self {
        Self {
            slots,
            rows: shape.rows,
            unroll: shape.unroll,
            row_code,
        }
    }

    /// Repeats code for each `index` below `count`.
    fn write_repeated(&self, text: &mut String, index: &str, count: u32, code: &str) {
        let indent = "            ";
        if self.row_code != RowCode::Unrolled {
            for value in 0..count {
                let _ = write!(
                    text,
                    "{indent}{{\n{indent}    const int {index} = {value};\n{code}{indent}}}\n"
                );
            }
        } else {
            let _ = write!(
                text,
                "#pragma unroll\n{indent}for (int {index} = 0; {index} < {count}; {index}++) {{\n{code}{indent}}}\n"
            );
        }
    }

    /// Returns the columns with their packets.
    fn columns(&self) -> impl Iterator<Item = (usize, &'a Slot, &'a SlotFacts, Packet)> + use<'a> {
        let rows = self.rows;
        let column = move |(index, (slot, facts)): (usize, &'a (Slot, SlotFacts))| {
            (index, slot, facts, Packet::of(index, &facts.widths, rows))
        };
        self.slots.iter().enumerate().map(column)
    }

    /// Reads the descriptions of a segment's columns, once for a tile.
    pub(super) fn write_columns(&self, text: &mut String) {
        write_columns(text, self.slots.len());
    }

    /// Returns whether packets can be fetched before it is known what of them is wanted: each column
    /// has one width, and a step's packets are not needed any more once they are decoded.
    pub(super) fn can_run_ahead(&self) -> bool {
        self.row_code != RowCode::InTurn && have_one_width(self.slots)
    }

    /// Fetches the first step's packets, ahead of the loop over steps.
    pub(super) fn write_first_fetch(&self, text: &mut String) {
        self.write_packets(text);
        self.write_fetch(text, "0u", "true");
    }

    /// Decodes the packets of a step and fetches those of the next.
    pub(super) fn write_decode_ahead(&self, text: &mut String) {
        self.write_values(text);
        self.write_decode(text);
        self.write_fetch(text, "step + TG_STEP", "step + TG_STEP < TG_TILE");
    }

    /// Fetches the packets of a step, and decodes them, unless that is done when a row's turn comes.
    pub(super) fn write_loads(&self, text: &mut String) {
        if self.row_code == RowCode::InTurn {
            self.write_packets(text);
            self.write_fetch(text, "step", "true");
            return;
        }
        self.write_values(text);
        self.write_packets(text);
        self.write_fetch(text, "step", "true");
        self.write_decode(text);
    }

    /// Writes what is done with each of a step's rows.
    pub(super) fn write_rows(&self, text: &mut String, of_row: &str) {
        if self.row_code == RowCode::InTurn {
            return self.write_rows_in_turn(text, of_row);
        }
        let mut code = "                const int u = ur / TG_ROWS, r = ur % TG_ROWS;\n\
             \x20               const u32 at = first + step + TG_RUN(u);\n\
             \x20               const bool selected = at + r < rows;\n"
            .to_owned();
        for (index, (slot, facts)) in self.slots.iter().enumerate() {
            let class = c_type(slot_class(slot, facts));
            let _ = writeln!(
                code,
                "                const {class}* const c{index} = d{index}[u];"
            );
            if facts.nullable {
                let _ = writeln!(code, "                const u32 b{index} = n{index}[u];");
            }
        }
        code.push_str(of_row);
        self.write_repeated(text, "ur", self.unroll * self.rows, &code);
    }

    fn write_rows_in_turn(&self, text: &mut String, of_row: &str) {
        let mut code = "#pragma unroll 1\n\
             \x20               for (u32 turn = 0; turn < TG_ROWS; turn++) {\n\
             \x20               const int r = 0;\n\
             \x20               const u32 at = first + step + TG_RUN(u) + turn;\n\
             \x20               const bool selected = at + r < rows;\n"
            .to_owned();
        for (index, slot, facts, packet) in self.columns() {
            let class = c_type(slot_class(slot, facts));
            let width = facts.widths.first().copied().unwrap_or(0);
            let value = decoded(index, slot, facts, width, &packet.raw(width, 0));
            let _ = writeln!(
                code,
                "                const {class} c{index}[1] = {{{value}}}; {}",
                packet.advance(width)
            );
        }
        code.push_str(of_row);
        code.push_str("                }\n");
        self.write_repeated(text, "u", self.unroll, &code);
    }

    /// Declares what a step's rows are decoded to.
    pub(super) fn write_values(&self, text: &mut String) {
        for (index, (slot, facts)) in self.slots.iter().enumerate() {
            let class = c_type(slot_class(slot, facts));
            let _ = writeln!(text, "            {class} d{index}[TG_UNROLL][TG_ROWS];");
            if facts.nullable {
                let _ = writeln!(text, "            u32 n{index}[TG_UNROLL];");
            }
        }
    }

    /// Declares the packets.
    pub(super) fn write_packets(&self, text: &mut String) {
        for (index, _, facts, packet) in self.columns() {
            packet.write_declaration(text);
            if facts.nullable {
                let _ = writeln!(text, "            u32 g{index}[TG_UNROLL];");
            }
        }
    }

    /// Fetches the packets of the step, which is `wanted` or not.
    pub(super) fn write_fetch(&self, text: &mut String, step: &str, wanted: &str) {
        // Behind the end, rows that are there are read and not selected.
        let mut code = format!(
            "                const u32 run = first + {step} + TG_RUN(u);\n\
             \x20               const u32 at = {wanted} && run < rows ? run : 0u;\n"
        );
        for (index, _, facts, packet) in self.columns() {
            by_width(&mut code, index, &facts.widths, &|width| {
                packet.fetch(width)
            });
            if facts.nullable {
                let _ = writeln!(
                    code,
                    "                g{index}[u] = validity_word(k{index}, at);"
                );
            }
        }
        self.write_repeated(text, "u", self.unroll, &code);
    }

    /// Decodes the packets of a step.
    pub(super) fn write_decode(&self, text: &mut String) {
        let mut code = String::new();
        for (index, slot, facts, packet) in self.columns() {
            by_width(&mut code, index, &facts.widths, &|width| {
                let value = |row| {
                    let value = decoded(index, slot, facts, width, &packet.raw(width, row));
                    format!("d{index}[u][{row}] = {value};")
                };
                (0..self.rows).map(value).collect::<Vec<_>>().join(" ")
            });
            if facts.nullable {
                let _ = writeln!(
                    code,
                    "                n{index}[u] = g{index}[u] >> (TG_RUN(u) & 31);"
                );
            }
        }
        self.write_repeated(text, "u", self.unroll, &code);
    }
}

/// Returns whether the chunks of each column have values of one width.
pub(super) fn have_one_width(slots: &[(Slot, SlotFacts)]) -> bool {
    slots.iter().all(|(_, facts)| facts.widths.len() == 1)
}

/// Reads the descriptions of so many columns of a segment, once for a tile.
pub(super) fn write_columns(text: &mut String, num_columns: usize) {
    for index in 0..num_columns {
        let _ = writeln!(text, "        const Column k{index} = columns[{index}];");
    }
}

/// Writes a statement for the width that a column's chunk has.
fn by_width(text: &mut String, index: usize, widths: &[u32], statement: &dyn Fn(u32) -> String) {
    let indent = "                ";
    let Some((last, others)) = widths.split_last() else {
        return;
    };
    if others.is_empty() {
        let _ = writeln!(text, "{indent}{}", statement(*last));
        return;
    }
    let _ = writeln!(text, "{indent}switch (k{index}.width) {{");
    for width in others {
        let _ = writeln!(
            text,
            "{indent}    case {width}: {} break;",
            statement(*width)
        );
    }
    let _ = writeln!(text, "{indent}    default: {} break;", statement(*last));
    let _ = writeln!(text, "{indent}}}");
}

/// Returns the value that a raw one of `width` bytes stands for.
fn decoded(index: usize, slot: &Slot, facts: &SlotFacts, width: u32, raw: &str) -> String {
    let class = slot_class(slot, facts);
    let kind = if facts.lookup.is_some() {
        SlotKind::Code
    } else {
        slot.kind
    };
    let name = c_type(class);
    // Arithmetic of unsigned words wraps; that of fewer bits is as good where the value has fewer.
    let sum = |signed: &str, word: &str| {
        let factor = match facts.scaled {
            true => format!(" * ({word})k{index}.factor"),
            false => String::new(),
        };
        format!("({signed})(({word}){raw}{factor} + ({word})k{index}.base)")
    };
    match (kind, class, width) {
        (SlotKind::Float32, ..) => format!("__int_as_float((i32){raw})"),
        (SlotKind::Float64, ..) => format!("double_of_bits({raw})"),
        (_, _, 0) => format!("({name})k{index}.base"),
        // Perhaps of values that are known to need less.
        (_, _, 16) => format!("({name}){raw}"),
        (_, Class::I128, 8) if slot.expr.data_type == DataType::UInt64 => {
            format!("(i128)({raw} + (u64)k{index}.base)")
        }
        (_, Class::I32, _) => sum("i32", "u32"),
        (_, Class::I64, _) => sum("i64", "u64"),
        _ => format!("(i128){}", sum("i64", "u64")),
    }
}

/// Returns how a slot's values are held in registers.
pub(super) fn slot_class(slot: &Slot, facts: &SlotFacts) -> Class {
    match slot.kind {
        _ if facts.lookup.is_some() => Type::Int(facts.range).class(),
        SlotKind::Float32 => Class::F32,
        SlotKind::Float64 => Class::F64,
        _ => Type::Int(facts.range).class(),
    }
}
