// Mean and sum of squared differences from it, of the digits that `moments` has summed, as the host's `groups` makes
// them, bit for bit. Integers are limbs of 32 bits, the least first.

template <int LIMBS> struct Limbs {
    u32 at[LIMBS];
};

// Carries digits into each other; two's complement.
template <int LIMBS, int DIGITS>
__device__ __forceinline__ Limbs<LIMBS> carried(const u64 (&digits)[DIGITS]) {
    Limbs<LIMBS> limbs;
    i128 carry = 0;
    for (int limb = 0; limb < LIMBS; limb++) {
        if (limb < DIGITS) carry = wrapping_add(carry, (i128)(i64)digits[limb]);
        limbs.at[limb] = (u32)carry;
        carry >>= 32;
    }
    return limbs;
}

template <int LIMBS> __device__ __forceinline__ Limbs<LIMBS> difference(const Limbs<LIMBS>& a, const Limbs<LIMBS>& b) {
    Limbs<LIMBS> result;
    i64 carry = 0;
    for (int limb = 0; limb < LIMBS; limb++) {
        carry += (i64)a.at[limb] - (i64)b.at[limb];
        result.at[limb] = (u32)carry;
        carry >>= 32;
    }
    return result;
}

template <int LIMBS> __device__ __forceinline__ Limbs<LIMBS> product(const Limbs<LIMBS>& a, const Limbs<LIMBS>& b) {
    Limbs<LIMBS> result;
    for (int limb = 0; limb < LIMBS; limb++) result.at[limb] = 0;
    for (int i = 0; i < LIMBS; i++) {
        if (a.at[i] == 0) continue;
        u64 carry = 0;
        for (int j = 0; i + j < LIMBS; j++) {
            carry += (u64)a.at[i] * b.at[j] + result.at[i + j];
            result.at[i + j] = (u32)carry;
            carry >>= 32;
        }
    }
    return result;
}

// The nearest double of an integer that is not negative, times a power of two.
template <int LIMBS> __device__ __forceinline__ double scaled_double(const Limbs<LIMBS>& value, i32 exponent) {
    int top = LIMBS - 1;
    while (top > 0 && value.at[top] == 0) top--;
    if (value.at[top] == 0) return 0.0;
    u64 high = (u64)value.at[top] << 32 | (top > 0 ? value.at[top - 1] : 0);
    u32 low = top > 1 ? value.at[top - 2] : 0;
    const int zeros = __clz((int)value.at[top]);
    if (zeros != 0) {
        high = high << zeros | low >> (32 - zeros);
        low <<= zeros;
    }
    bool inexact = low != 0;
    for (int limb = 0; limb < top - 2; limb++) inexact |= value.at[limb] != 0;
    const double nearest = __ull2double_rn(high | (inexact ? 1ull : 0ull));
    const i32 power = 32 * (top - 1) - zeros + exponent;
    return __dmul_rn(nearest, __longlong_as_double((i64)(power + 1023) << 52));
}

// `exponent` is that of two whose power is a unit.
template <int LEVELS>
__device__ __forceinline__ void moments_of(u64 count, const u64 (&sums)[LEVELS], const u64 (&squares)[2 * LEVELS],
                                           i32 exponent, double& mean, double& m2) {
    mean = m2 = 0.0;
    if (count == 0) return;
    const int LIMBS = 2 * LEVELS + 4;
    const u64 counts[1] = {count};
    Limbs<LIMBS> sum = carried<LIMBS>(sums);
    const bool negative = sum.at[LIMBS - 1] >> 31;
    if (negative) {
        const u64 zeros[1] = {0};
        sum = difference(carried<LIMBS>(zeros), sum);
    }
    const Limbs<LIMBS> spread = difference(product(carried<LIMBS>(counts), carried<LIMBS>(squares)), product(sum, sum));
    const double size = __ddiv_rn(scaled_double(sum, exponent), __ull2double_rn(count));
    mean = negative ? -size : size;
    m2 = __ddiv_rn(scaled_double(spread, 2 * exponent), __ull2double_rn(count));
}

// The sum of the products of the distances of pairs from their means. `exponent` is that of two whose power is the
// product of a unit of either.
template <int LEVELS, int OTHER_LEVELS>
__device__ __forceinline__ double co_moment_of(u64 count, const u64 (&sums)[LEVELS], const u64 (&others)[OTHER_LEVELS],
                                               const u64 (&products)[LEVELS + OTHER_LEVELS], i32 exponent) {
    if (count == 0) return 0.0;
    const int LIMBS = LEVELS + OTHER_LEVELS + 4;
    const u64 counts[1] = {count};
    Limbs<LIMBS> spread = difference(product(carried<LIMBS>(counts), carried<LIMBS>(products)),
                                     product(carried<LIMBS>(sums), carried<LIMBS>(others)));
    const bool negative = spread.at[LIMBS - 1] >> 31;
    if (negative) {
        const u64 zeros[1] = {0};
        spread = difference(carried<LIMBS>(zeros), spread);
    }
    const double size = __ddiv_rn(scaled_double(spread, exponent), __ull2double_rn(count));
    return negative ? -size : size;
}
