//! The kernel that writes the selected rows.
//!
//! A thread holds all of its rows of a tile in registers. It evaluates them twice: once to find which
//! are selected, once to write them, with the places in between.

use std::fmt::Write;

use arrow_schema::DataType;
use tidegate_pipeline::Unsupported;
use tidegate_pipeline::program::{Order, Output};
use tidegate_pipeline::types::is_string;

use super::load_code::{LoadCode, RowCode};
use super::order::order_words;
use super::print::RowText;
use super::shape::Shape;
use super::source::{TILE_PLACE, finish, preamble, write_kernel_head};
use super::{DeviceProgram, OutputColumn, ProgramOptions, Sink};

pub(super) const COMPACT: &str = include_str!("../../cuda/compact.cuh");

/// Returns the program that writes the columns of selected rows, and behind them the words of the order,
/// whose bits come back.
pub(super) fn compacted(
    row: RowText<'_>,
    outputs: &[Output],
    order: &[Order],
    num_steps: usize,
    options: &ProgramOptions,
) -> Result<(DeviceProgram, Vec<u32>), Unsupported> {
    let mut columns = Vec::new();
    let mut writes = String::new();
    for (index, output) in outputs.iter().enumerate() {
        let (name, width) = written_as(&output.data_type);
        let nullable = !row.program.is(output.value.valid, true);
        let _ = writeln!(
            writes,
            "                    (({name}*)p.outputs[{}])[position] = ({name}){};",
            2 * index,
            row.name(output.value.value)
        );
        if nullable {
            let _ = writeln!(
                writes,
                "                    ((u8*)p.outputs[{}])[position] = {};",
                2 * index + 1,
                row.name(output.value.valid)
            );
        }
        columns.push(OutputColumn {
            width,
            nullable,
            dictionary: row.dictionary_of(output.value.value),
        });
    }
    let order = order_words(&row, order);
    for word in &order {
        let _ = writeln!(
            writes,
            "                    ((u64*)p.outputs[{}])[position] = {};",
            2 * columns.len(),
            word.code
        );
        columns.push(OutputColumn {
            width: 8,
            nullable: false,
            dictionary: None,
        });
    }
    let shape = Shape::of_one_step(row.slots, options.threads);
    let guard = row.name(row.program.selected).to_owned();
    let mut text = preamble(&row, None, &shape);
    text.push_str(COMPACT);
    write_kernel_head(&mut text, "write_rows", 1, row.slots);
    text.push_str(
        "    __shared__ u32 warp_counts[TG_BLOCK / 32];\n\
         \x20   __shared__ u64 ticket, first_place;\n\
         \x20   const u32 lane = threadIdx.x & 31;\n\
         \x20   while (true) {\n\
         \x20       __syncthreads();\n\
         \x20       if (threadIdx.x == 0) ticket = atomicAdd(p.resume, 1ull);\n\
         \x20       __syncthreads();\n\
         \x20       const u64 tile = ticket;\n\
         \x20       if (tile >= p.num_tiles) break;\n\
         \x20       const u32 step = 0;\n",
    );
    text.push_str(TILE_PLACE);
    let loads = LoadCode::new(row.slots, &shape, RowCode::Unrolled);
    loads.write_columns(&mut text);
    text.push_str("        {\n");
    loads.write_loads(&mut text);
    text.push_str("            u32 mask = 0;\n");
    let mut of_row = String::new();
    for line in &row.lines {
        let _ = writeln!(of_row, "                {line}");
    }
    let marked = format!("{of_row}                mask |= ({guard} ? 1u : 0u) << ur;\n");
    loads.write_rows(&mut text, &marked);
    text.push_str(
        "            // A warp's rows are consecutive: run u of all its lanes, then run u + 1.\n\
         \x20           const u32 lanes_before = (1u << lane) - 1;\n\
         \x20           u32 place_in_warp[TG_UNROLL];\n\
         \x20           u32 found = 0;\n\
         #pragma unroll\n\
         \x20           for (int u = 0; u < TG_UNROLL; u++) {\n\
         \x20               u32 before = 0, all = 0;\n\
         #pragma unroll\n\
         \x20               for (int r = 0; r < TG_ROWS; r++) {\n\
         \x20                   const u32 selected = __ballot_sync(0xffffffffu, (mask >> (u * TG_ROWS + r)) & 1);\n\
         \x20                   before += __popc(selected & lanes_before);\n\
         \x20                   all += __popc(selected);\n\
         \x20               }\n\
         \x20               place_in_warp[u] = found + before;\n\
         \x20               found += all;\n\
         \x20           }\n\
         \x20           const u64 place = place_of_warp(p.spill, tile, found, warp_counts, &first_place);\n",
    );
    let written = format!(
        "                if (((mask >> ur) & 1) != 0) {{\n\
         {of_row}                const u64 position = place + place_in_warp[u] + __popc((mask >> (u * TG_ROWS)) & ((1u << r) - 1));\n\
         {writes}                }}\n"
    );
    loads.write_rows(&mut text, &written);
    text.push_str("        }\n    }\n}");
    let program = finish(row, text, Sink::Rows(columns), num_steps, &shape)?;
    Ok((program, order.iter().map(|word| word.bits).collect()))
}

/// Returns how values of a type are written for the host: as Arrow has them, booleans as bytes,
/// strings as codes.
pub(super) fn written_as(data_type: &DataType) -> (&'static str, u32) {
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
