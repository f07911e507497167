// Sums of values and of their squares, without rounding, for variances.
//
// A value is a whole number of units of a fixed point, so its sum and the sum of its squares are integers: the digits
// of 32 bits of both are summed in words of their own, in any order. Count times the sum of squares minus the square
// of the sum is then exact too, however far the values lie from zero beside their spread, and is rounded once. A value
// that is no whole number of units or is beyond the digits is told from the others.

// The digits of a value and of its square, the least first. `origin` is the biased exponent of a double whose last
// bit is one unit. Returns whether the digits hold the value.
template <int LEVELS>
__device__ __forceinline__ bool power_digits(double value, i32 origin, u64 (&sums)[LEVELS],
                                             u64 (&squares)[2 * LEVELS]) {
    const u64 bits = (u64)__double_as_longlong(value);
    const i32 exponent = (i32)(bits >> 52) & 0x7ff;
    u64 whole = (bits & 0x000fffffffffffffull) | (exponent == 0 ? 0ull : 1ull << 52);
    i32 shift = (exponent == 0 ? 1 : exponent) - origin;
    bool held = exponent != 0x7ff;
    if (shift < 0) {
        const i32 cut = -shift < 63 ? -shift : 63;
        held = held && (whole & ((1ull << cut) - 1)) == 0;
        whole >>= cut;
        shift = 0;
    }
    const i32 most = 32 * LEVELS - 53;
    held = held && shift <= most;
    shift = shift < most ? shift : most;
    const bool negative = (bits >> 63) != 0;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        const i32 at = 32 * level - shift;
        u32 digit = 0;
        if (at >= 0 && at < 64) digit = (u32)(whole >> at);
        if (at < 0 && at > -32) digit = (u32)(whole << -at);
        sums[level] = negative ? 0ull - (u64)digit : (u64)digit;
    }
    const u128 square = (u128)whole * whole;
#pragma unroll
    for (int level = 0; level < 2 * LEVELS; level++) {
        const i32 at = 32 * level - 2 * shift;
        u32 digit = 0;
        if (at >= 0 && at < 128) digit = (u32)(square >> at);
        if (at < 0 && at > -32) digit = (u32)((u64)square << -at);
        squares[level] = digit;
    }
    return held;
}
