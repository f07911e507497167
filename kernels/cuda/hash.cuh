// An open-addressed table of groups in global memory.
//
// Keys are packed to 64 bits by their ranges, so that EMPTY is no key; linear probing, at most
// PROBES_MAX slots, from where the mixed key lies among all 64-bit words: keys whose mixed ones share
// their upper bits are neighbours. A key that finds no slot goes with its words to the spill buffer, in
// which there is room for every row that the resident blocks have begun; a block that sees the
// buffer in use stops before its next tile and notes where. The host then grows the table, moves the
// old groups and the spilled records into it (`absorb`) and lets the blocks go on.

#define EMPTY 0xffffffffffffffffull
#define NO_SLOT 0xffffffffffffffffull
#define PROBES_MAX 256u

// `records` holds a key every `stride` words.
__device__ __forceinline__ u64 find_or_insert(u64* records, u32 stride, u64 num_slots, u64 key) {
    u64 slot = __umul64hi(mix(key), num_slots);
#pragma unroll 1
    for (u32 probe = 0; probe < PROBES_MAX; probe++) {
        u64* place = records + slot * stride;
        u64 seen = *(volatile u64*)place;
        if (seen == key) return slot;
        if (seen == EMPTY) {
            seen = atomicCAS(place, EMPTY, key);
            if (seen == EMPTY || seen == key) return slot;
        }
        slot = slot + 1 == num_slots ? 0 : slot + 1;
    }
    return NO_SLOT;
}

// Finds a mixed key's cell of a block's own table, or claims one; NO_CELL after some probes. Cells are
// read in pairs, of which the first is claimed first.
#define NO_CELL 0xffffffffu
#define CELL_PROBES_MAX 16u
__device__ __forceinline__ u32 find_cell(u64* keys, u32 cells, u64 hash) {
    u32 cell = __umulhi((u32)hash, cells >> 1) * 2;
#pragma unroll 1
    for (u32 probe = 0; probe < CELL_PROBES_MAX; probe++) {
        const ulonglong2 held = *(const ulonglong2*)(keys + cell);
        if (held.x == hash) return cell;
        if (held.y == hash) return cell + 1;
        if (held.y == EMPTY) {
#pragma unroll 1
            for (u32 i = 0; i < 2; i++) {
                const u64 before = atomicCAS(keys + cell + i, EMPTY, hash);
                if (before == EMPTY || before == hash) return cell + i;
            }
        }
        cell = cell + 2 >= cells ? 0 : cell + 2;
    }
    return NO_CELL;
}

// Undoes `mix`.
__device__ __forceinline__ u64 unmix(u64 key) {
    key ^= key >> 33;
    key *= 0x9cb4b2f8129337dbull;
    key ^= key >> 33;
    key *= 0x4f74430c22a54005ull;
    return key ^ (key >> 33);
}
