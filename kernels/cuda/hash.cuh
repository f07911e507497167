// An open-addressed table of groups in global memory.
//
// Keys are packed to 64 bits by their ranges, so that EMPTY is no key; linear probing from the mixed
// key, at most PROBES_MAX slots. A key that finds no slot goes with its words to the spill buffer, in
// which there is room for every row that the resident blocks have begun; a block that sees the
// buffer in use stops before its next tile and notes where. The host then grows the table, moves the
// old groups and the spilled records into it (`absorb`) and lets the blocks go on.

#define EMPTY 0xffffffffffffffffull
#define NO_SLOT 0xffffffffffffffffull
#define PROBES_MAX 128u

// `records` holds a key every `stride` words.
__device__ __forceinline__ u64 find_or_insert(u64* records, u32 stride, u64 mask, u64 key) {
    u64 slot = mix(key) & mask;
    for (u32 probe = 0; probe < PROBES_MAX; probe++) {
        u64* place = records + slot * stride;
        u64 seen = *(volatile u64*)place;
        if (seen == key) return slot;
        if (seen == EMPTY) {
            seen = atomicCAS(place, EMPTY, key);
            if (seen == EMPTY || seen == key) return slot;
        }
        slot = (slot + 1) & mask;
    }
    return NO_SLOT;
}
