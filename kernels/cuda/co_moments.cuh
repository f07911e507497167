// Sums of the products of pairs, without rounding, for covariances: products of the digits of `power_digits`.

// The digits of the product of two values, of the digits of both, the least first. All digits of a value have its sign.
template <int LEVELS, int OTHER_LEVELS>
__device__ __forceinline__ void product_digits(const u64 (&one)[LEVELS], const u64 (&two)[OTHER_LEVELS],
                                               u64 (&products)[LEVELS + OTHER_LEVELS]) {
    u64 signs_of_one = 0, signs_of_two = 0;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) signs_of_one |= one[level];
#pragma unroll
    for (int level = 0; level < OTHER_LEVELS; level++) signs_of_two |= two[level];
    const bool turns_one = signs_of_one >> 63, turns_two = signs_of_two >> 63;
    u32 digits[LEVELS + OTHER_LEVELS];
#pragma unroll
    for (int level = 0; level < LEVELS + OTHER_LEVELS; level++) digits[level] = 0;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        const u32 digit = (u32)(turns_one ? 0ull - one[level] : one[level]);
        u64 carry = 0;
#pragma unroll
        for (int other = 0; other < OTHER_LEVELS; other++) {
            const u32 by = (u32)(turns_two ? 0ull - two[other] : two[other]);
            carry += (u64)digit * by + digits[level + other];
            digits[level + other] = (u32)carry;
            carry >>= 32;
        }
        digits[level + OTHER_LEVELS] = (u32)carry;
    }
#pragma unroll
    for (int level = 0; level < LEVELS + OTHER_LEVELS; level++) {
        products[level] = turns_one != turns_two ? 0ull - (u64)digits[level] : (u64)digits[level];
    }
}
