// A group's words to the values that leave it, as the host's `groups` makes them, bit for bit.

// Adds digits of fixed point up and rounds once, or nearly so: the digits are carried into each other until they do
// not overlap, and are added from the greatest, of which the first ones are joined so that a difference of two of
// them does not cancel.
template <int LEVELS>
__device__ __forceinline__ double fixed_point_sum(i128 (&digits)[LEVELS], const double (&units)[LEVELS], int bits) {
#pragma unroll
    for (int level = LEVELS - 1; level > 0; level--) {
        const i128 carry = digits[level] >> bits;
        digits[level] = wrapping_sub(digits[level], (i128)((u128)carry << bits));
        digits[level - 1] = wrapping_add(digits[level - 1], carry);
    }
    double sum = 0.0;
    i128 joined = 0;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        const u128 size = joined < 0 ? (u128)0 - (u128)joined : (u128)joined;
        if (size < (u128)1 << 80) {
            joined = wrapping_add((i128)((u128)joined << (level == 0 ? 0 : bits)), digits[level]);
            sum = __dmul_rn(double_of(joined), units[level]);
        } else {
            sum = __dadd_rn(sum, __dmul_rn(double_of(digits[level]), units[level]));
        }
    }
    return sum;
}

// A digit's unit, from 1.5 * 2^52 of them.
__device__ __forceinline__ double unit_of(u64 magic) {
    return __ddiv_rn(__longlong_as_double((i64)magic), 6755399441055744.0);
}

// The value whose image in unsigned order is kept.
__device__ __forceinline__ i64 extreme_of(u64 image) { return (i64)(image ^ 0x8000000000000000ull); }
__device__ __forceinline__ double double_of_order(i64 ordered) {
    return __longlong_as_double(ordered ^ (i64)((u64)(ordered >> 63) >> 1));
}
__device__ __forceinline__ float float_of_order(i64 ordered) {
    const i32 low = (i32)ordered;
    return __int_as_float(low ^ (i32)((u32)(low >> 31) >> 1));
}

// What is known of a column's values: the greatest image of the values and of their complements, or of floats the
// greatest distance from zero and whether one is NaN, infinite or -0.0.
__device__ __forceinline__ i64 clamped(i128 value) {
    const i64 least = (i64)0x8000000000000000ull, most = 0x7fffffffffffffffll;
    return value < (i128)least ? least : value > (i128)most ? most : (i64)value;
}
__device__ __forceinline__ i64 clamped(i64 value) { return value; }
__device__ __forceinline__ i64 clamped(i32 value) { return value; }
__device__ __forceinline__ i64 clamped(u64 value) { return value >> 63 ? 0x7fffffffffffffffll : (i64)value; }
template <class T> __device__ __forceinline__ void note_value(T value, u64& least, u64& most) {
    const u64 image = extreme_bits(clamped(value));
    least = ~image > least ? ~image : least;
    most = image > most ? image : most;
}
__device__ __forceinline__ void note_float(double value, u64& special, u64& most) {
    const u64 size = (u64)__double_as_longlong(fabs(value));
    most = size > most ? size : most;
    if (size >= 0x7ff0000000000000ull || (size == 0 && __double_as_longlong(value) != 0)) special = 1;
}
__device__ __forceinline__ void note_end(u64* to, u64 least, u64 most) {
    const u64 all_least = warp_max(least), all_most = warp_max(most);
    if ((threadIdx.x & 31) == 0 && all_least != 0) atomicMax(to, all_least);
    if ((threadIdx.x & 31) == 0 && all_most != 0) atomicMax(to + 1, all_most);
}
