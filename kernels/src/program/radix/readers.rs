//! The kernels that read records, partition by partition, and add them to the table.
//!
//! Where a block's shared memory has room for the groups of a partition, they are added up there
//! first: in cells addressed by the keys, or found by the mixed key.

use std::fmt::Write;

use super::absorb_cell;
use crate::program::parts;
use crate::program::store::{Presence, Store};
use crate::program::store_code::StoreCode;

const RADIX_DENSE: &str = include_str!("../../../cuda/radix_dense.cuh");
const RADIX_HASH: &str = include_str!("../../../cuda/radix_hash.cuh");

/// Records that a thread of `aggregate` has in flight.
const IN_FLIGHT: u32 = 4;

/// Writes them for the store that the records' words are for.
pub(super) fn write(code: &StoreCode<'_>, text: &mut String) {
    if code.store == Store::Hash {
        text.push_str(RADIX_HASH);
        parts::write(text, "aggregate", |text| write_aggregate_hashed(code, text));
    } else {
        text.push_str(RADIX_DENSE);
        parts::write(text, "aggregate_shared", |text| {
            write_aggregate_shared(code, text)
        });
    }
}

/// Takes the records of a partition in a table of the block's own that is addressed by their keys.
fn write_aggregate_shared(code: &StoreCode<'_>, text: &mut String) {
    let own = StoreCode {
        store: Store::Shared { replicas: 1 },
        ..code.clone()
    };
    text.push_str(
        "\nextern \"C\" __global__ void __launch_bounds__(TG_BLOCK) aggregate_shared(const __grid_constant__ Launch p) {\n\
         \x20   __shared__ u32 next;\n\
         \x20   const Records from = records_at(p.from_pool, p.from_records);\n\
         \x20   if (threadIdx.x == 0) next = take_ticket(p);\n",
    );
    own.write_cells_begin(text, "(u32)p.table_cells");
    let notes = own.presence == Presence::Bit;
    if notes {
        let _ = writeln!(
            text,
            "    u32* const noted = plane + {}u * cells;\n\
             \x20   for (u32 i = threadIdx.x; i < cells / 32; i += TG_BLOCK) noted[i] = 0;\n\
             \x20   __syncthreads();",
            own.narrow_planes()
        );
    }
    text.push_str(
        "    for (u32 ticket = next; ticket < (u32)p.num_tiles; ticket = next) {\n\
         \x20       const Piece piece = piece_at(p, ticket, (u32)p.from_count);\n\
         #pragma unroll 1\n\
         \x20       for (u32 step = piece.begin; step < piece.end; step += IN_FLIGHT * TG_BLOCK) {\n\
         \x20           Record records[IN_FLIGHT];\n\
         \x20           read_step(p, from, piece, step, records);\n\
         #pragma unroll\n\
         \x20           for (u32 i = 0; i < IN_FLIGHT; i++) {\n\
         \x20               if (step + i * TG_BLOCK + threadIdx.x >= piece.end) continue;\n\
         \x20               const Record& r = records[i];\n\
         \x20               const u32 word = r.key >> 5 >> p.from_bits, cell = word * 32 + (r.key & 31);\n",
    );
    if notes {
        text.push_str(
            "                const u32 bit = 1u << (cell & 31);\n\
             \x20               if ((((volatile u32*)noted)[word] & bit) == 0) atomicOr(noted + word, bit);\n",
        );
    }
    own.write_shared_update(text, "cell");
    text.push_str(
        "            }\n\
         \x20       }\n\
         \x20       __syncthreads();\n\
         \x20       if (threadIdx.x == 0) next = take_ticket(p);\n\
         \x20       for (u32 cell = threadIdx.x; cell < cells; cell += TG_BLOCK) {\n\
         \x20           const u32 upper = cell >> 5, ways = 1u << p.from_bits;\n\
         \x20           const u32 turned = (piece.part - ((upper * 2654435761u) >> (32 - p.from_bits))) & (ways - 1);\n\
         \x20           const u32 number = (upper << p.from_bits) + turned;\n",
    );
    if notes {
        text.push_str(
            "            // A warp has the 32 groups of a word.\n\
             \x20           const u32 bits = noted[upper];\n\
             \x20           if (((bits >> (cell & 31)) & 1) == 0) continue;\n\
             \x20           if ((cell & 31) == __ffs((int)bits) - 1 && (*(volatile u32*)(p.present + number) & bits) != bits) {\n\
             \x20               atomicOr(p.present + number, bits);\n\
             \x20           }\n",
        );
    }
    text.push_str("            u64 words[NUM_WORDS + 1];\n");
    own.write_cell_words(text, true);
    text.push_str(
        "            absorb_words(p.state + ((u64)number * 32 + (cell & 31)) * NUM_WORDS, words);\n\
         \x20       }\n",
    );
    if notes {
        text.push_str(
            "        __syncthreads();\n\
             \x20       for (u32 i = threadIdx.x; i < cells / 32; i += TG_BLOCK) noted[i] = 0;\n",
        );
    }
    text.push_str("        __syncthreads();\n    }\n}\n");
}

/// Takes the records of a partition in a table of the block's own.
fn write_aggregate_hashed(code: &StoreCode<'_>, text: &mut String) {
    text.push_str(
        "\nextern \"C\" __global__ void __launch_bounds__(TG_BLOCK) aggregate(const __grid_constant__ Launch p) {\n\
         \x20   __shared__ u32 next;\n\
         \x20   const Records from = records_at(p.from_pool, p.from_records);\n\
         \x20   if (threadIdx.x == 0) next = take_ticket(p);\n",
    );
    code.write_cells_begin(text, "(u32)p.table_cells");
    let _ = writeln!(
        text,
        "    for (u32 ticket = next; ticket < (u32)p.num_tiles; ticket = next) {{\n\
         \x20       const Piece piece = piece_at(p, ticket, (u32)p.from_count);\n\
         #pragma unroll 1\n\
         \x20       for (u32 step = piece.begin; step < piece.end; step += {IN_FLIGHT}u * TG_BLOCK) {{\n\
         \x20           Record records[{IN_FLIGHT}];\n\
         \x20           // Lanes that have gone apart would each read for themselves.\n\
         \x20           __syncwarp();\n\
         #pragma unroll\n\
         \x20           for (u32 i = 0; i < {IN_FLIGHT}; i++) {{\n\
         \x20               const u32 at = step + i * TG_BLOCK + threadIdx.x;\n\
         \x20               if (at < piece.end) records[i] = record_of(p, from, piece, at);\n\
         \x20           }}\n\
         \x20           u32 found[{IN_FLIGHT}], pending = 0, full = 0;\n\
         #pragma unroll\n\
         \x20           for (u32 i = 0; i < {IN_FLIGHT}; i++) {{\n\
         \x20               found[i] = NO_CELL;\n\
         \x20               // What vacant cells have is no key of the block's own table.\n\
         \x20               if (step + i * TG_BLOCK + threadIdx.x < piece.end && records[i].key != EMPTY) {{\n\
         \x20                   bool is_full = false;\n\
         \x20                   found[i] = cell_of_pair(hot_keys, first_pair(cells, records[i].key), records[i].key, is_full);\n\
         \x20                   pending |= (found[i] == NO_CELL ? 1u : 0u) << i;\n\
         \x20                   full |= (is_full ? 1u : 0u) << i;\n\
         \x20               }}\n\
         \x20           }}\n\
         \x20           __syncwarp();\n\
         \x20           u32 pair = 0, pairs = 0;\n\
         #pragma unroll 1\n\
         \x20           while (__any_sync(0xffffffffu, pending != 0)) {{\n\
         \x20               if (pending != 0) {{\n\
         \x20                   const u32 which = __ffs((int)pending) - 1;\n\
         \x20                   u64 key = records[0].key;\n\
         #pragma unroll\n\
         \x20                   for (u32 i = 1; i < {IN_FLIGHT}; i++) if (which == i) key = records[i].key;\n\
         \x20                   if (pairs == 0) pair = first_pair(cells, key);\n\
         \x20                   if (pairs != 0 || ((full >> which) & 1) != 0) pair = next_pair(cells, pair);\n\
         \x20                   const u32 cell = claim_cell_of_pair(hot_keys, pair, key);\n\
         \x20                   pairs++;\n\
         \x20                   if (cell != NO_CELL || pairs == PAIRS_MAX) {{\n\
         #pragma unroll\n\
         \x20                       for (u32 i = 0; i < {IN_FLIGHT}; i++) if (which == i) found[i] = cell;\n\
         \x20                       pending &= pending - 1;\n\
         \x20                       pairs = 0;\n\
         \x20                   }}\n\
         \x20               }}\n\
         \x20               __syncwarp();\n\
         \x20           }}\n\
         #pragma unroll\n\
         \x20           for (u32 i = 0; i < {IN_FLIGHT}; i++) {{\n\
         \x20               if (step + i * TG_BLOCK + threadIdx.x >= piece.end) continue;\n\
         \x20               const Record& r = records[i];\n\
         \x20               const u32 cell = found[i];\n\
         \x20               if (cell != NO_CELL) {{"
    );
    code.write_shared_update(text, "cell");
    text.push_str(
        "                } else absorb_record(p, r);\n\
         \x20           }\n\
         \x20       }\n\
         \x20       __syncthreads();\n\
         \x20       // What this piece has still to spill, another may have to as well.\n\
         \x20       if (threadIdx.x == 0) next = has_spilled(p) ? NO_TICKET : take_ticket(p);\n",
    );
    text.push_str(
        "        // The slots come into the cache together, not one after another.\n\
         \x20       for (u32 cell = threadIdx.x; cell < cells; cell += TG_BLOCK) {\n\
         \x20           const u64 hash = hot_keys[cell];\n\
         \x20           if (hash != EMPTY) prefetch(p.state + __umul64hi(hash, p.num_slots) * RECORD);\n\
         \x20       }\n",
    );
    code.write_cells_end(text, absorb_cell(Store::Hash), true);
    text.push_str("        __syncthreads();\n    }\n}\n");
}
