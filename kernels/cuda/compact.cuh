// Selected rows to their places, in the order of the input, in one pass.
//
// Tiles are taken by ticket, so that whoever waits for an earlier tile waits for one that runs. A
// tile's state is one word: its count, or the count of it and all before it, told apart by the top
// two bits; a word is written at once, so no fence is needed. Looking back for the first place of a
// tile, a warp reads 32 of its predecessors at a time (Merrill and Garland, "Single-pass Parallel
// Prefix Scan with Decoupled Look-back").

#define TILE_COUNTED (1ull << 62)
#define TILE_SUMMED (2ull << 62)
#define TILE_VALUE ((1ull << 62) - 1)

// Returns how many rows the tiles before this one have selected; called by one whole warp.
__device__ __forceinline__ u64 rows_before(u64* tiles, u64 tile) {
    const u32 lane = threadIdx.x & 31;
    u64 before = 0;
    for (i64 last = (i64)tile - 1; last >= 0; last -= 32) {
        const i64 mine = last - (i64)lane;
        u64 state = TILE_SUMMED;
        if (mine >= 0) {
            state = *(volatile u64*)(tiles + mine);
            while ((state >> 62) == 0) {
                __nanosleep(20);
                state = *(volatile u64*)(tiles + mine);
            }
        }
        const u32 summed = __ballot_sync(0xffffffffu, (state >> 62) == 2);
        // Lanes up to the nearest sum count.
        const u32 nearest = summed == 0 ? 31 : (u32)__ffs((int)summed) - 1;
        u64 value = lane <= nearest ? state & TILE_VALUE : 0;
        before += __shfl_sync(0xffffffffu, warp_sum(value), 0);
        if (summed != 0) break;
    }
    return before;
}
