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

// Brings what lies at an address into the cache.
__device__ __forceinline__ void prefetch(const u64* place) {
#ifndef TG_HOST
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
#endif
}

// A block's own table has its cells in pairs, of which the first is claimed first. A mixed key's cell
// is in the first pair that has room for it, from where the key lies among all 32-bit words.
#define NO_CELL 0xffffffffu
#define PAIRS_MAX 16u
__device__ __forceinline__ u32 first_pair(u32 cells, u64 hash) { return __umulhi((u32)hash, cells >> 1) * 2; }
__device__ __forceinline__ u32 next_pair(u32 cells, u32 pair) { return pair + 2 >= cells ? 0 : pair + 2; }

// Finds a mixed key's cell in a pair, without claiming one; says whether the pair is full.
__device__ __forceinline__ u32 cell_of_pair(const u64* keys, u32 pair, u64 hash, bool& is_full) {
    const ulonglong2 held = *(const ulonglong2*)(keys + pair);
    is_full = held.y != EMPTY;
    return held.x == hash ? pair : held.y == hash ? pair + 1 : NO_CELL;
}

// The same, and claims a cell if one is vacant.
__device__ __forceinline__ u32 claim_cell_of_pair(u64* keys, u32 pair, u64 hash) {
    const ulonglong2 held = *(const ulonglong2*)(keys + pair);
    if (held.x == hash) return pair;
    if (held.y == hash) return pair + 1;
    if (held.y != EMPTY) return NO_CELL;
#pragma unroll 1
    for (u32 i = 0; i < 2; i++) {
        const u64 before = atomicCAS(keys + pair + i, EMPTY, hash);
        if (before == EMPTY || before == hash) return pair + i;
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
