// Float sums as integers, so that their order does not matter.
//
// A value below 2^E is cut into LEVELS digits of b bits, 32 or 42: q0 * 2^(E-b+1) + q1 * 2^(E-2b+1)
// + ..., each rounded to nearest, each digit summed as a 64-bit integer of its own. Adding and subtracting
// 1.5 * 2^52 units of a digit rounds to the digit (Dekker; the pre-rounding of Demmel and Hida's
// reproducible summation). What is below the last digit is lost: at most half of its unit a value.
// A value out of range, or so small that half a unit exceeds 2^-44 of it, sets FLAG_FLOAT_RANGE.

template <int LEVELS> struct FloatScale {
    double limit;          // values are below it
    double smallest;       // and, zero aside, not below this
    double magic[LEVELS];  // 1.5 * 2^52 units of each digit
};

template <int LEVELS>
__device__ __forceinline__ bool float_digits(double value, const FloatScale<LEVELS>& scale, u64 (&digits)[LEVELS]) {
    double size = fabs(value);
    bool inside = size < scale.limit && (size >= scale.smallest || size == 0.0);
    double rest = inside ? value : 0.0;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        double shifted = rest + scale.magic[level];
        digits[level] = (u64)(__double_as_longlong(shifted) - __double_as_longlong(scale.magic[level]));
        rest = rest - (shifted - scale.magic[level]);
    }
    return inside;
}

// The same digits as doubles: multiples of their unit, whose sums are exact while they have no more
// than 53 bits of it.
template <int LEVELS>
__device__ __forceinline__ bool float_parts(double value, const FloatScale<LEVELS>& scale, double (&parts)[LEVELS]) {
    double size = fabs(value);
    bool inside = size < scale.limit && (size >= scale.smallest || size == 0.0);
    double rest = inside ? value : 0.0;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        parts[level] = (rest + scale.magic[level]) - scale.magic[level];
        rest = rest - parts[level];
    }
    return inside;
}
