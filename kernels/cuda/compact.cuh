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

// Returns where the rows go that a warp has selected in a tile, `found` of them; called by the whole block, whose
// warps take the tile's rows in order. `warp_counts` has a word for each warp.
__device__ __forceinline__ u64 place_of_warp(u64* tiles, u64 tile, u32 found, u32* warp_counts, u64* first_place) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    if (lane == 0) warp_counts[warp] = found;
    __syncthreads();
    u32 place_in_tile = 0, total = 0;
    for (u32 other = 0; other < TG_BLOCK / 32; other++) {
        if (other == warp) place_in_tile = total;
        total += warp_counts[other];
    }
    if (warp == 0) {
        if (lane == 0) atomicExch(tiles + tile, (tile == 0 ? TILE_SUMMED : TILE_COUNTED) | total);
        const u64 before = rows_before(tiles, tile);
        if (lane == 0) {
            atomicExch(tiles + tile, TILE_SUMMED | (before + total));
            *first_place = before;
        }
    }
    __syncthreads();
    return *first_place + place_in_tile;
}
