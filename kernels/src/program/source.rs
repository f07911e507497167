//! Puts a kernel's source together.
//!
//! A launch takes a table of segments, each of consecutive rows of one chunk, all but the last of a
//! chunk with the same number of tiles. A block takes every `gridDim.x`-th tile; in each step of a
//! tile a thread reads UNROLL runs of ROWS consecutive rows of every column, all loads before the
//! first use, and then takes the rows one by one.

use std::fmt::Write;
use std::sync::Arc;

use tidegate_device::QUICKLY;
use tidegate_pipeline::Unsupported;
use tidegate_pipeline::program::Groups;

use super::generated::Generated;
use super::generated_code::GeneratedCode;
use super::layout::Layout;
use super::load_code::{LoadCode, RowCode, have_one_width, slot_class, write_columns};
use super::parts;
use super::print::{RowText, c_type};
use super::quick;
use super::radix::{Radix, hot_keys};
use super::shape::{ROWS_PER_LARGE_TILE, ROWS_PER_TILE, Shape, row_bytes};
use super::slots::{Slot, SlotFacts};
use super::store::{GroupPlan, Grouping, HOT_KEYS, Store, private_blocks, private_cell_bytes};
use super::store_code::StoreCode;
use super::wide::WIDE_KEY;
use super::{DeviceProgram, ProgramOptions, Sink};
use crate::host::Finish;

pub(super) const PRELUDE: &str = include_str!("../../cuda/prelude.cuh");
const DECODE: &str = include_str!("../../cuda/decode.cuh");
pub(super) const CHECKED: &str = include_str!("../../cuda/checked.cuh");
pub(super) const CALENDAR: &str = include_str!("../../cuda/calendar.cuh");
const FLOAT_SUM: &str = include_str!("../../cuda/float_sum.cuh");
const MOMENTS: &str = include_str!("../../cuda/moments.cuh");
const CO_MOMENTS: &str = include_str!("../../cuda/co_moments.cuh");
const RANDOM: &str = include_str!("../../cuda/random.cuh");
const RANDOM_SINGLE: &str = include_str!("../../cuda/random_single.cuh");
pub(super) const STORE: &str = include_str!("../../cuda/store.cuh");
const HASH: &str = include_str!("../../cuda/hash.cuh");
const WARM_UP: &str = include_str!("../../cuda/warm_up.cuh");

/// The fields of a launch before its literals, each a word of 64 bits, in order.
const LAUNCH_FIELDS: [(&str, &str); 26] = [
    ("const Column*", "columns"),
    ("const u32*", "segment_rows"),
    ("u64", "num_tiles"),
    ("u64", "tiles_per_segment"),
    ("u64*", "state"),
    ("u32*", "flags"),
    ("u64", "num_slots"),
    ("u32*", "present"),
    ("u64*", "spill"),
    ("u64", "spill_capacity"),
    ("u64*", "resume"),
    ("const u64*", "from_words"),
    ("u64", "from_count"),
    ("const u64*", "outputs"),
    // Records are written to regions of a pool, as many as there are values of `radix_bits` more
    // bits after the `radix_shift` by which they are told apart already.
    ("u64", "radix_bits"),
    ("u64", "radix_shift"),
    ("u8*", "pool"),
    ("u64", "pool_records"),
    ("u32*", "cursors"),
    ("u64", "region"),
    ("u8*", "from_pool"),
    ("u64", "from_records"),
    ("const u32*", "from_cursors"),
    ("u64", "from_region"),
    ("u64", "from_bits"),
    ("u64", "table_cells"),
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

/// The words of a group and the operations of a row of an array that take little, and how many threads a
/// multiprocessor then holds.
const LIGHT_WORDS_MAX: usize = 5;
const LIGHT_STEPS_MAX: usize = 6;
const LIGHT_THREADS: u32 = 1024;

/// The most literals of a launch: a kernel's parameters are limited to 4 KiB.
pub(super) const LITERALS_MAX: usize = 480;

/// The kernel that groups rows.
pub(super) fn grouped(
    mut row: RowText<'_>,
    groups: &Groups,
    num_steps: usize,
    options: &ProgramOptions,
) -> Result<DeviceProgram, Unsupported> {
    let finishes = Finish::all(groups)?;
    let grouping = Grouping::new(&mut row, groups, options)?;
    let (layout, store, packed) = (&grouping.layout, grouping.store, grouping.packed);
    let ops = layout.global_ops();
    let key_literals = row.literals.len();
    for (key, _) in &grouping.keys {
        row.literals.extend(key.literals());
    }
    let of_layout = layout.lines(&row);
    row.lines.extend(of_layout);
    let slots = row.slots;
    let threads = match store {
        Store::Private { threads } => threads,
        // Fewer blocks leave more of the memory that hot keys take to the first-level cache.
        Store::Dense | Store::Hash => options.threads * 2,
        _ => options.threads,
    };
    let sorting_threads = (options.threads * 4).min(1024);
    let generated = options.generated.as_deref();
    let state_bytes = packed.unwrap_or(0).saturating_mul(8 * ops.len() as u64);
    let radix = match generated {
        Some(_) => None,
        None => Radix::of(
            &layout.words,
            store,
            state_bytes,
            (sorting_threads, row_bytes(slots)),
            options,
        ),
    };
    let threads = if radix.is_some() {
        sorting_threads
    } else {
        threads
    };
    let rows_per_tile = match store {
        Store::Dense | Store::Hash => ROWS_PER_TILE,
        _ => ROWS_PER_LARGE_TILE,
    };
    // Of rows of an array that take little each thread makes more at once, within 64 registers.
    let is_light = generated.is_some_and(|source| source.log_step().is_some())
        && store == Store::Registers
        && ops.len() <= LIGHT_WORDS_MAX
        && row.num_steps() <= LIGHT_STEPS_MAX;
    let shape = match (&radix, generated) {
        (Some(radix), _) => Shape::of_rows(slots, threads, radix.rows_per_thread()),
        (None, Some(source)) => source.shape(threads, options.load_bytes, is_light),
        (None, None) => Shape::of(slots, threads, options.load_bytes, rows_per_tile),
    };
    let is_full = packed.is_none();
    let code = StoreCode {
        store,
        row: &row,
        words: &layout.words,
        num_words: ops.len(),
        keys: &grouping.keys,
        key_literals,
        guard: row.name(row.program.selected).to_owned(),
        is_full,
        wide: grouping.wide,
        presence: grouping.presence,
        hot_keys: match &radix {
            Some(radix) => radix.hot_keys(),
            // Many words of keys leave room for fewer.
            None if grouping.wide.is_some() => {
                hot_keys(&layout.words, &options.limits.radix).min(HOT_KEYS)
            }
            None => HOT_KEYS,
        },
    };
    let shared_bytes = code.shared_bytes(packed);
    let is_quick = radix.is_none()
        && generated.is_none()
        && quick::suits(
            &row,
            layout,
            (store, options.fixed_floats),
            (shape.rows * shape.unroll, row_bytes(slots)),
        );
    let mut text = if is_quick { QUICKLY } else { "" }.to_owned();
    text.push_str(&preamble(&row, Some(layout), &shape));
    if let Some(source) = generated {
        write_random(&mut text, source);
    }
    if store == Store::Hash {
        text.push_str(HASH);
    }
    if code.wide.is_some() {
        text.push_str(WIDE_KEY);
    }
    code.write_functions(&mut text);
    if let Some(radix) = &radix {
        radix.write_head(&code, &shape, &mut text);
    }
    let blocks = match (store, packed) {
        (Store::Private { threads }, Some(packed)) => {
            let thread_bytes = packed * private_cell_bytes(&layout.words);
            private_blocks(thread_bytes, threads, options.limits)
        }
        _ if is_light => (LIGHT_THREADS / threads).max(1),
        _ => 1,
    };
    if radix.is_some() {
        parts::write_begin(&mut text, "fold");
    }
    write_kernel_head(&mut text, "fold", blocks, slots);
    for (levels, _) in &layout.checked_scales() {
        let _ = writeln!(text, "    u32 float_far{levels} = 0;");
    }
    if layout.has_moments() {
        text.push_str("    bool moments_outside = false;\n");
    }
    let outside = floats_outside(layout);
    let row_code = match (is_quick, store) {
        (false, _) => RowCode::Unrolled,
        (true, Store::Registers) if have_one_width(slots) => RowCode::InTurn,
        (true, _) => RowCode::SpelledOut,
    };
    let loads = LoadCode::new(slots, &shape, row_code);
    match (&radix, generated) {
        (Some(radix), _) => {
            radix.write_fold_begin(&code, &loads, &mut text);
            Radix::write_ticket(&mut text);
        }
        (None, None) => {
            code.write_begin(&mut text);
            write_tile_head(&mut text, store, code.flush_tiles(&shape), slots.len());
            let runs_ahead = matches!(store, Store::Private { .. }) && loads.can_run_ahead();
            if runs_ahead {
                loads.write_first_fetch(&mut text);
            }
            write_steps(&mut text);
            if runs_ahead {
                loads.write_decode_ahead(&mut text);
            } else {
                loads.write_loads(&mut text);
            }
        }
        (None, Some(source)) => {
            code.write_begin(&mut text);
            let columns = GeneratedCode { source, slots };
            columns.write_begin(&mut text);
            write_tile_head(
                &mut text,
                store,
                code.flush_tiles(&shape),
                slots.len().max(1),
            );
            columns.write_tile(&mut text);
            write_steps(&mut text);
        }
    }
    let write_lines = |text: &mut String| {
        for line in &row.lines {
            let _ = writeln!(text, "                {line}");
        }
    };
    match &radix {
        Some(radix) => {
            let mut of_row = String::new();
            write_lines(&mut of_row);
            radix.write_row(&code, &mut of_row);
            loads.write_rows(&mut text, &of_row);
            radix.write_fold_end(&code, &loads, &outside, &mut text);
            parts::write_end(&mut text);
            radix.write_readers(&code, &mut text);
        }
        None => {
            let write_row = |text: &mut String| {
                write_lines(text);
                code.write_update(text);
            };
            if let Some(source) = generated {
                let class = |(slot, facts): &(Slot, SlotFacts)| c_type(slot_class(slot, facts));
                let classes: Vec<_> = slots.iter().map(class).collect();
                let short = store == Store::Registers;
                GeneratedCode { source, slots }.write_step(&mut text, &classes, short, write_row);
            } else {
                let mut of_row = String::new();
                write_row(&mut of_row);
                loads.write_rows(&mut text, &of_row);
            }
            text.push_str("        }\n");
            code.write_tile_end(&mut text);
            text.push_str("    }\n");
            text.push_str(&outside);
            code.write_end(&mut text);
            text.push_str("}\n");
        }
    }
    match (store, &radix) {
        (Store::Hash, Some(_)) => {
            parts::write(&mut text, "absorb", |text| code.write_absorb(text));
        }
        (Store::Hash, None) => code.write_absorb(&mut text),
        _ => {}
    }
    let staged = radix.as_ref().map_or(0, |radix| radix.fold_bytes(&shape));
    let shared_bytes = shared_bytes + staged;
    let plan = GroupPlan {
        keys: grouping.keys.iter().map(|(key, _)| key.clone()).collect(),
        key_literals,
        num_packed: packed,
        wide: grouping.wide,
        accumulators: layout.accumulators.clone(),
        calls: groups
            .calls
            .iter()
            .map(|call| call.accumulators.clone())
            .collect(),
        words: ops.clone(),
        store,
        presence: grouping.presence,
        shared_bytes,
        radix: radix.map(|radix| radix.plan(&code, &shape)),
    };
    let ranks = layout.ranks.clone();
    let sink = Sink::Groups(Box::new(plan));
    Ok(DeviceProgram {
        ranks,
        finishes: finishes.into(),
        ..finish(row, text, sink, num_steps, &shape)?
    })
}

pub(super) fn finish(
    row: RowText<'_>,
    text: String,
    sink: Sink,
    num_steps: usize,
    shape: &Shape,
) -> Result<DeviceProgram, Unsupported> {
    if row.literals.len() > LITERALS_MAX {
        return Err(too_many_literals());
    }
    Ok(DeviceProgram {
        text: text.into(),
        slots: row.slots.to_vec(),
        literals: row.literals,
        lookups: row.lookups,
        ranks: Vec::new(),
        finishes: Arc::new([]),
        sink,
        num_steps,
        threads: shape.threads,
        tile_rows: shape.tile_rows(),
    })
}

/// Says that a launch would have more literals than it can.
pub(super) fn too_many_literals() -> Unsupported {
    Unsupported::new(format!("more than {LITERALS_MAX} words of literals"))
}

pub(super) fn preamble(row: &RowText<'_>, layout: Option<&Layout>, shape: &Shape) -> String {
    let mut text = String::with_capacity(32 << 10);
    for (name, value) in [
        ("TG_BLOCK", shape.threads),
        ("TG_ROWS", shape.rows),
        ("TG_UNROLL", shape.unroll),
        ("TG_TILE", shape.tile_rows()),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    text.push_str("#define TG_STEP (TG_BLOCK * TG_ROWS * TG_UNROLL)\n");
    // Where a thread's run of rows begins in a step.
    text.push_str(if shape.warp_by_warp {
        "#define TG_RUN(u) (((threadIdx.x / 32 * TG_UNROLL + u) * 32 + threadIdx.x % 32) * TG_ROWS)\n"
    } else {
        "#define TG_RUN(u) ((u * TG_BLOCK + threadIdx.x) * TG_ROWS)\n"
    });
    text.push_str(PRELUDE);
    text.push_str(DECODE);
    for (used, block) in [
        (row.blocks.checked || row.blocks.calendar, CHECKED),
        (row.blocks.calendar, CALENDAR),
        (layout.is_some_and(Layout::sums_floats), FLOAT_SUM),
        (layout.is_some_and(Layout::has_moments), MOMENTS),
        (layout.is_some_and(Layout::has_products), CO_MOMENTS),
        (true, STORE),
    ] {
        if used {
            text.push_str(block);
        }
    }
    for (_, function) in &row.customs {
        text.push_str(function);
    }
    write_launch(&mut text, row.literals.len());
    text
}

/// Declares the parameters of a launch with so many literals.
pub(super) fn write_launch(text: &mut String, num_literals: usize) {
    text.push_str("\nstruct Launch {\n");
    for (data_type, name) in LAUNCH_FIELDS {
        let _ = writeln!(text, "    {data_type} {name};");
    }
    let _ = writeln!(text, "    u64 literals[{}];\n}};\n", num_literals.max(1));
}

/// Returns a program that is only compiled, so that the compiler is ready for others.
pub fn warm_up_source() -> String {
    [PRELUDE, DECODE, STORE, WARM_UP].concat()
}

/// Returns the blocks that a kernel with random values and nothing else is made of.
pub(super) fn blocks_of_random(source: &Generated) -> String {
    let mut text = [PRELUDE, DECODE].concat();
    write_random(&mut text, source);
    text
}

/// Writes the blocks that make values from positions.
fn write_random(text: &mut String, source: &Generated) {
    text.push_str(RANDOM);
    let definitions = source.definitions();
    if !definitions.is_empty() {
        text.push('\n');
        text.push_str(&definitions);
        text.push_str(RANDOM_SINGLE);
    }
}

/// Opens a kernel of which a multiprocessor is to hold so many blocks.
pub(super) fn write_kernel_head(
    text: &mut String,
    name: &str,
    blocks: u32,
    slots: &[(Slot, SlotFacts)],
) {
    let _ = writeln!(
        text,
        "extern \"C\" __global__ void __launch_bounds__(TG_BLOCK, {blocks}) {name}(const __grid_constant__ Launch p) {{"
    );
    let _ = writeln!(text, "    const u32 num_columns = {};", slots.len().max(1));
}

/// Opens the loop over a block's tiles; where the block's own state has to be added to the global
/// one, within a loop over so many of them.
fn write_tile_head(text: &mut String, store: Store, flush_tiles: Option<u32>, num_slots: usize) {
    if store == Store::Hash {
        text.push_str(
            "    for (u64 tile = p.resume[blockIdx.x]; tile < p.num_tiles; tile += gridDim.x) {\n",
        );
    } else if let Some(tiles) = flush_tiles {
        let _ = writeln!(
            text,
            "    u64 tile = blockIdx.x;\n\
             #pragma unroll 1\n\
             \x20   while (tile < p.num_tiles) {{\n\
             #pragma unroll 1\n\
             \x20   for (u32 left = {tiles}; left != 0 && tile < p.num_tiles; left--, tile += gridDim.x) {{"
        );
    } else {
        text.push_str("    for (u64 tile = blockIdx.x; tile < p.num_tiles; tile += gridDim.x) {\n");
    }
    text.push_str(TILE_PLACE);
    text.push_str("        if (first >= rows) continue;\n");
    write_columns(text, num_slots);
}

/// Opens the loop over the steps of a tile.
fn write_steps(text: &mut String) {
    text.push_str(
        "#pragma unroll 1\n        for (u32 step = 0; step < TG_TILE && first + step < rows; step += TG_STEP) {\n",
    );
}

/// Where a tile is. There are fewer than 2^32 of them.
pub(super) const TILE_PLACE: &str =
    "        const u32 segment = (u32)tile / (u32)p.tiles_per_segment;
        const u32 first = ((u32)tile - segment * (u32)p.tiles_per_segment) * TG_TILE;
        const u32 rows = p.segment_rows[segment];
        const Column* columns = p.columns + (u64)segment * num_columns;
";

/// Writes what tells that a float lies too far from the others for its digits.
fn floats_outside(layout: &Layout) -> String {
    let line = |(levels, literal): (usize, usize)| {
        format!(
            "    if (float_far{levels} >= (u32)p.literals[{literal}]) atomicMax(&p.flags[FLAG_FLOAT_RANGE], 1u);\n"
        )
    };
    let moments = match layout.has_moments() {
        true => "    if (moments_outside) atomicMax(&p.flags[FLAG_FLOAT_RANGE], 1u);\n",
        false => "",
    };
    let scales = layout.checked_scales().into_iter().map(line);
    scales.chain([moments.to_owned()]).collect()
}
