// The state of groups in global memory, and what a block keeps of it in shared memory.
//
// A group's state is NUM_WORDS consecutive words, each a sum modulo 2^64 or a greatest value. Every
// update commutes, so the state does not depend on the order of rows, blocks or launches. A *split*
// word is two in global memory: the low 32 bits of each addend are summed apart from the rest, so
// that up to 2^31 addends of 64 bits cannot overflow it.

__device__ __forceinline__ void add_word(u64* state, u64 value) { atomicAdd(state, value); }

__device__ __forceinline__ void add_split(u64* state, u64 value) {
    atomicAdd(state, (u64)(u32)value);
    atomicAdd(state + 1, (u64)((i64)value >> 32));
}

__device__ __forceinline__ void max_word(u64* state, u64 value) {
    if (*(volatile u64*)state < value) atomicMax(state, value);
}

// Marks a group as there. A stale bit costs an atomic that changes nothing.
__device__ __forceinline__ void mark_present(u32* map, u32 group) {
    u32 bit = 1u << (group & 31);
    if ((map[group >> 5] & bit) == 0) atomicOr(&map[group >> 5], bit);
}

// Reduces over a warp whose 32 lanes are all here; lane 0 has the result.
__device__ __forceinline__ u64 warp_sum(u64 value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffffu, value, distance);
    return value;
}
__device__ __forceinline__ u64 warp_max(u64 value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        u64 other = __shfl_down_sync(0xffffffffu, value, distance);
        value = other > value ? other : value;
    }
    return value;
}

__device__ __forceinline__ u64 greater(u64 a, u64 b) { return a > b ? a : b; }
__device__ __forceinline__ double double_of_halves(u32 low, u32 high) { return double_of_bits(joined(low, high)); }

// A 64-bit sum in shared memory is two planes of 32 bits: a 64-bit atomic there is a loop, two
// 32-bit ones are native, and the second is left out where nothing is carried.
__device__ __forceinline__ void shared_add(u32* low, u32* high, u64 value) {
    u32 low_part = (u32)value, high_part = (u32)(value >> 32);
    u32 before = atomicAdd(low, low_part);
    high_part += before + low_part < before;
    if (high_part != 0) atomicAdd(high, high_part);
}
__device__ __forceinline__ u64 shared_word(const u32* low, const u32* high) { return (u64)*low | ((u64)*high << 32); }
