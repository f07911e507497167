//! Which kernels are compiled with fewer optimisations, to be there sooner.
//!
//! NVRTC then unrolls no loop and keeps in local memory what a loop indexes, so a kernel of this kind has
//! code of its own for each row, or takes one row after the other from packets that move on by a row
//! (`RowCode`), and calls nothing for them that has loops. What is given up costs little where a kernel
//! waits for memory in any case. On an H200 (CUDA 13.0) Q6 over packed columns, a row after the other,
//! compiles in 40 ms (47 with code for each row, 55 with all optimisations) and runs in 0.94 ms (0.91 with
//! either); Q1 over doubles, with code for each row, runs in 4.79 instead of 4.85 ms. Where columns have
//! NULLs (Q6: 1.65 instead of 1.40 ms), where groups are found for rows of few bytes (Q1 packed: 1.75
//! instead of 1.66, though it compiles in four fifths of the time) and with a table for a block (packed
//! decimals: 0.89 instead of 0.80) the optimisations are worth their time.

use super::layout::Layout;
use super::print::RowText;
use super::store::Store;

/// The fewest bytes of a row for which a thread's own cells are as fast with fewer optimisations.
const ROW_BYTES_MIN: u32 = 16;

/// The most steps of all rows that have code of their own: reading text takes time too. A word of a group's
/// state has a few.
const STEPS_MAX: usize = 256;
const STEPS_OF_WORD: usize = 4;

/// Returns whether a kernel of this code, of which a step has so many rows of so many bytes, is compiled
/// with fewer optimisations.
pub(super) fn suits(
    row: &RowText<'_>,
    layout: &Layout,
    (store, is_fixed): (Store, bool),
    (num_rows, row_bytes): (u32, u32),
) -> bool {
    let waits_for_memory = match store {
        Store::Registers => true,
        Store::Private { .. } => row_bytes >= ROW_BYTES_MIN,
        _ => false,
    };
    let has_nulls = row.slots.iter().any(|(_, facts)| facts.nullable);
    let is_simple = !row.blocks.checked
        && !row.blocks.calendar
        && !is_fixed
        && row.customs.is_empty()
        && row.lookups.is_empty()
        && !layout.has_moments()
        && layout.ranks.is_empty();
    let num_words = layout.global_ops().len();
    let num_steps = (row.num_steps() + STEPS_OF_WORD * num_words) * num_rows as usize;
    waits_for_memory && !has_nulls && is_simple && num_steps <= STEPS_MAX
}
