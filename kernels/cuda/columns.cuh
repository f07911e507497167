// Kernels over what lies on the device as it is: slots of a group table, and plain columns.

#define TG_UNROLL (TG_TILE / TG_BLOCK)

// `count_groups`: counts the slots of a table in which a group is; a thread takes every so many-th slot.

#define BY_WORD 0u  // a word of its state is not 0
#define BY_BIT 1u   // its bit is set
#define BY_KEY 2u   // the first word is not EMPTY

__device__ __forceinline__ bool is_there(const Launch& p, u64 slot) {
    if (p.kind == BY_BIT) return (p.present[slot >> 5] >> (slot & 31)) & 1;
    const u64 word = p.state[slot * p.stride + p.word];
    return p.kind == BY_KEY ? word != 0xffffffffffffffffull : word != 0;
}

extern "C" __global__ void __launch_bounds__(TG_BLOCK) count_groups(const __grid_constant__ Launch p) {
    u64 count = 0;
    for (u64 slot = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; slot < p.num_slots; slot += gridDim.x * (u64)TG_BLOCK) {
        count += is_there(p, slot) ? 1 : 0;
    }
    count = warp_sum(count);
    if ((threadIdx.x & 31) == 0 && count != 0) atomicAdd(p.counter, count);
}

// `count_met`: counts the groups in which two keys of more than 64 bits have met: of `num_words` pairs of words, the
// greatest and the greatest complement, some are no complements.

extern "C" __global__ void __launch_bounds__(TG_BLOCK) count_met(const __grid_constant__ Launch p) {
    u64 count = 0;
    for (u64 slot = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; slot < p.num_slots; slot += gridDim.x * (u64)TG_BLOCK) {
        if (!is_there(p, slot)) continue;
        const u64* const pairs = p.state + slot * p.stride + p.at;
        bool met = false;
        for (u64 pair = 0; pair < p.num_words; pair++) met = met || pairs[2 * pair] != ~pairs[2 * pair + 1];
        count += met ? 1 : 0;
    }
    count = warp_sum(count);
    if ((threadIdx.x & 31) == 0 && count != 0) atomicAdd(p.counter, count);
}

// `pack_bits`: bytes of 0 or 1 to bits, 32 at a time; there are bytes for whole groups of 32, of which those behind
// the last row are anything.

extern "C" __global__ void __launch_bounds__(TG_BLOCK) pack_bits(const __grid_constant__ Launch p) {
    const u64 num_words = (p.num_rows + 31) / 32;
    for (u64 word = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; word < num_words; word += gridDim.x * (u64)TG_BLOCK) {
        const uint4* const from = (const uint4*)(p.from + word * 32);
        const uint4 parts[2] = {from[0], from[1]};
        const u32 bytes[8] = {parts[0].x, parts[0].y, parts[0].z, parts[0].w,
                              parts[1].x, parts[1].y, parts[1].z, parts[1].w};
        u32 bits = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) bits |= (((bytes[i] & 0x01010101u) * 0x01020408u) >> 24 & 15) << (4 * i);
        const u64 rest = p.num_rows - word * 32;
        if (rest < 32) bits &= (1u << rest) - 1;
        ((u32*)p.to)[word] = bits;
    }
}

// The first rows of an order, by radix selection from the most significant digit on.
//
// A row's place in the order is told by `num_words` words, the greatest first, and behind them by its number, the
// least first. `bound` holds words of which those before `at` are decided and of that one the bits above the digit;
// `count_digits` counts, over the rows that agree with what is decided, the values of the next digit, and `pick_rows`
// writes the numbers of the rows that are not less than the bound, in order.

__device__ __forceinline__ u64 order_word(const Launch& p, u64 word, u64 row) {
    return word == p.num_words ? (u64)~(u32)row : ((const u64*)p.words[word])[row];
}

extern "C" __global__ void __launch_bounds__(TG_BLOCK) count_digits(const __grid_constant__ Launch p) {
    __shared__ u32 counts[2048];
    const u32 values = 1u << (u32)p.digit_bits, lane = threadIdx.x & 31;
    for (u32 i = threadIdx.x; i < values; i += TG_BLOCK) counts[i] = 0;
    __syncthreads();
    const u64 above = p.shift + p.digit_bits;
    // A warp's lanes leave the loop together.
    for (u64 first = blockIdx.x * (u64)TG_BLOCK + threadIdx.x - lane; first < p.num_rows; first += gridDim.x * (u64)TG_BLOCK) {
        const u64 row = first + lane;
        u32 digit = 0xffffffffu;
        if (row < p.num_rows) {
            bool agrees = true;
            for (u64 word = 0; word < p.at; word++) agrees = agrees && order_word(p, word, row) == p.bound[word];
            const u64 value = order_word(p, p.at, row);
            agrees = agrees && (above >= 64 || value >> above == p.bound[p.at] >> above);
            if (agrees) digit = (u32)(value >> p.shift) & (values - 1);
        }
        // Many rows may have the same digit: one lane adds for all.
        const u32 peers = __match_any_sync(0xffffffffu, digit);
        if (digit != 0xffffffffu && (peers & ((1u << lane) - 1)) == 0) atomicAdd(&counts[digit], (u32)__popc(peers));
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < values; i += TG_BLOCK) {
        if (counts[i] != 0) atomicAdd(p.counter + i, (u64)counts[i]);
    }
}

__device__ __forceinline__ bool is_not_less(const Launch& p, u64 row) {
    for (u64 word = 0; word <= p.at; word++) {
        const u64 value = order_word(p, word, row);
        if (value != p.bound[word]) return value > p.bound[word];
    }
    return true;
}

extern "C" __global__ void __launch_bounds__(TG_BLOCK) pick_rows(const __grid_constant__ Launch p) {
    __shared__ u32 warp_counts[TG_BLOCK / 32];
    __shared__ u64 ticket, first_place;
    const u32 lane = threadIdx.x & 31;
    const u64 num_tiles = (p.num_rows + TG_TILE - 1) / TG_TILE;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) ticket = atomicAdd(p.counter, 1ull);
        __syncthreads();
        const u64 tile = ticket;
        if (tile >= num_tiles) break;
        const u64 first = tile * TG_TILE + threadIdx.x / 32 * (32 * TG_UNROLL) + lane;
        u32 mask = 0, found = 0;
        u32 places[TG_UNROLL];
        for (int u = 0; u < TG_UNROLL; u++) {
            const u64 row = first + u * 32;
            const bool picked = row < p.num_rows && is_not_less(p, row);
            const u32 all = __ballot_sync(0xffffffffu, picked);
            places[u] = found + __popc(all & ((1u << lane) - 1));
            found += __popc(all);
            mask |= (picked ? 1u : 0u) << u;
        }
        const u64 place = place_of_warp(p.tiles, tile, found, warp_counts, &first_place);
        for (int u = 0; u < TG_UNROLL; u++) {
            if ((mask >> u) & 1) p.picked[place + places[u]] = first + u * 32;
        }
    }
}

// `gather`: the values of the picked rows, of 1 to 16 bytes.

extern "C" __global__ void __launch_bounds__(TG_BLOCK) gather(const __grid_constant__ Launch p) {
    for (u64 i = blockIdx.x * (u64)TG_BLOCK + threadIdx.x; i < p.num_rows; i += gridDim.x * (u64)TG_BLOCK) {
        const u64 row = p.picked[i];
        if (p.width == 16) ((u128*)p.to)[i] = ((const u128*)p.from)[row];
        if (p.width == 8) ((u64*)p.to)[i] = ((const u64*)p.from)[row];
        if (p.width == 4) ((u32*)p.to)[i] = ((const u32*)p.from)[row];
        if (p.width == 2) ((u16*)p.to)[i] = ((const u16*)p.from)[row];
        if (p.width == 1) ((u8*)p.to)[i] = ((const u8*)p.from)[row];
    }
}
