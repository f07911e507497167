//! The parts of a kernel that read columns.
//!
//! In a step a thread takes TG_UNROLL runs of TG_ROWS consecutive rows. Packets of raw values are
//! fetched first, all before the first use, and decoded in registers. A kernel with few threads runs
//! ahead: it fetches the packets of the next step before it takes the rows of this one.

use std::fmt::Write;

use arrow_schema::DataType;

use super::emit::Class;
use super::slots::{Slot, SlotFacts, SlotKind};

type Slots = [(Slot, SlotFacts)];

/// Reads the descriptions of a segment's columns, once for a tile.
pub(super) fn write_columns(text: &mut String, num_slots: usize) {
    for index in 0..num_slots {
        let _ = writeln!(text, "        const Column k{index} = columns[{index}];");
    }
}

/// Returns whether packets can be fetched before it is known what of them is wanted: each column has
/// one width.
pub(super) fn can_run_ahead(slots: &Slots) -> bool {
    slots.iter().all(|(_, facts)| facts.widths.len() == 1)
}

/// Fetches the first step's packets, ahead of the loop over steps.
pub(super) fn write_first_fetch(text: &mut String, slots: &Slots) {
    write_packets(text, slots);
    write_fetch(text, slots, "0u", "true");
}

/// Decodes the packets of a step and fetches those of the next.
pub(super) fn write_decode_ahead(text: &mut String, slots: &Slots) {
    write_values(text, slots);
    write_decode(text, slots);
    write_fetch(text, slots, "step + TG_STEP", "step + TG_STEP < TG_TILE");
}

/// Fetches and decodes the packets of a step.
pub(super) fn write_loads(text: &mut String, slots: &Slots) {
    write_values(text, slots);
    write_packets(text, slots);
    write_fetch(text, slots, "step", "true");
    write_decode(text, slots);
}

/// Opens the loop over a step's rows.
pub(super) fn write_row_loop(text: &mut String, slots: &Slots) {
    text.push_str(
        "#pragma unroll\n\
         \x20           for (int ur = 0; ur < TG_UNROLL * TG_ROWS; ur++) {\n\
         \x20               const int u = ur / TG_ROWS, r = ur % TG_ROWS;\n\
         \x20               const u32 at = first + step + TG_RUN(u);\n\
         \x20               const bool selected = at + r < rows;\n",
    );
    for (index, (slot, facts)) in slots.iter().enumerate() {
        let class = slot_class(slot, facts).name();
        let _ = writeln!(
            text,
            "                const {class}* const c{index} = d{index}[u];"
        );
        if facts.nullable {
            let _ = writeln!(text, "                const u32 b{index} = n{index}[u];");
        }
    }
}

/// Declares what a step's rows are decoded to.
pub(super) fn write_values(text: &mut String, slots: &Slots) {
    for (index, (slot, facts)) in slots.iter().enumerate() {
        let class = slot_class(slot, facts).name();
        let _ = writeln!(text, "            {class} d{index}[TG_UNROLL][TG_ROWS];");
        if facts.nullable {
            let _ = writeln!(text, "            u32 n{index}[TG_UNROLL];");
        }
    }
}

/// Declares the packets; a column of several widths has the widest.
pub(super) fn write_packets(text: &mut String, slots: &Slots) {
    for (index, (_, facts)) in slots.iter().enumerate() {
        let width = facts.widths.iter().copied().max().unwrap_or(8);
        if is_long(facts) {
            let _ = writeln!(text, "            Longs<TG_ROWS> f{index}[TG_UNROLL];");
        } else if width > 0 {
            let _ = writeln!(
                text,
                "            Packet<{width} * TG_ROWS> f{index}[TG_UNROLL];"
            );
        }
        if facts.nullable {
            let _ = writeln!(text, "            u32 g{index}[TG_UNROLL];");
        }
    }
}

/// Tells whether all values of a column have 8 bytes, so that they are read as whole words.
fn is_long(facts: &SlotFacts) -> bool {
    facts.widths == [8]
}

/// Fetches the packets of the step, which is `wanted` or not.
pub(super) fn write_fetch(text: &mut String, slots: &Slots, step: &str, wanted: &str) {
    let _ = writeln!(
        text,
        "#pragma unroll\n\
         \x20           for (int u = 0; u < TG_UNROLL; u++) {{\n\
         \x20               // Behind the end, rows that are there are read and not selected.\n\
         \x20               const u32 run = first + {step} + TG_RUN(u);\n\
         \x20               const u32 at = {wanted} && run < rows ? run : 0u;"
    );
    for (index, (_, facts)) in slots.iter().enumerate() {
        by_width(text, index, &facts.widths, &|width| match width {
            0 => String::new(),
            _ if is_long(facts) => {
                format!("fetch_longs(f{index}[u], k{index}.data + (u64)at * {width});")
            }
            _ => format!(
                "fetch_part<{width} * TG_ROWS>(f{index}[u], k{index}.data + (u64)at * {width});"
            ),
        });
        if facts.nullable {
            let _ = writeln!(
                text,
                "                g{index}[u] = validity_word(k{index}, at);"
            );
        }
    }
    text.push_str("            }\n");
}

pub(super) fn write_decode(text: &mut String, slots: &Slots) {
    text.push_str("#pragma unroll\n            for (int u = 0; u < TG_UNROLL; u++) {\n");
    for (index, (slot, facts)) in slots.iter().enumerate() {
        by_width(text, index, &facts.widths, &|width| {
            decode_of(index, slot, facts, width)
        });
        if facts.nullable {
            let _ = writeln!(
                text,
                "                n{index}[u] = g{index}[u] >> (TG_RUN(u) & 31);"
            );
        }
    }
    text.push_str("            }\n");
}

/// Writes a statement for the width that a column's chunk has.
fn by_width(text: &mut String, index: usize, widths: &[u32], call: &dyn Fn(u32) -> String) {
    let indent = "                ";
    let Some((last, others)) = widths.split_last() else {
        return;
    };
    if others.is_empty() {
        let _ = writeln!(text, "{indent}{}", call(*last));
        return;
    }
    let _ = writeln!(text, "{indent}switch (k{index}.width) {{");
    for width in others {
        let _ = writeln!(text, "{indent}    case {width}: {} break;", call(*width));
    }
    let _ = writeln!(text, "{indent}    default: {} break;", call(*last));
    let _ = writeln!(text, "{indent}}}");
}

fn decode_of(index: usize, slot: &Slot, facts: &SlotFacts, width: u32) -> String {
    let class = slot_class(slot, facts);
    let kind = if facts.lookup.is_some() {
        SlotKind::Code
    } else {
        slot.kind
    };
    let (from, to) = (format!("f{index}[u]"), format!("d{index}[u]"));
    match (kind, class, width) {
        (SlotKind::Float32, ..) => format!("decode_float<TG_ROWS>({from}, {to});"),
        (SlotKind::Float64, ..) => format!("decode_double<TG_ROWS>({from}, {to});"),
        (_, _, 0) => format!("decode_constant<TG_ROWS>(k{index}, {to});"),
        (_, Class::I128, 16) => format!("decode_wide<TG_ROWS>({from}, {to});"),
        // Plain, and of values that are known to need less.
        (_, class, 16) => format!(
            "{{ i128 wide[TG_ROWS]; decode_wide<TG_ROWS>({from}, wide); for (int r = 0; r < TG_ROWS; r++) {to}[r] = ({})wide[r]; }}",
            class.name()
        ),
        (_, Class::I128, 8) if slot.expr.data_type == DataType::UInt64 => {
            format!("decode_unsigned<TG_ROWS>(k{index}, {from}, {to});")
        }
        (_, class, width) => format!(
            "decode<{width}, TG_ROWS, {}, {}>(k{index}, {from}, {to});",
            class.name(),
            facts.scaled
        ),
    }
}

/// Returns how a slot's values are held in registers.
pub(super) fn slot_class(slot: &Slot, facts: &SlotFacts) -> Class {
    match slot.kind {
        _ if facts.lookup.is_some() => Class::of(facts.range),
        SlotKind::Float32 => Class::F32,
        SlotKind::Float64 => Class::F64,
        _ => Class::of(facts.range),
    }
}
