// Float sums as integers, so that their order does not matter.
//
// A value below 2^E is cut into LEVELS digits of b bits: q0 * 2^(E-b+1) + q1 * 2^(E-2b+1) + ..., each
// summed as a 64-bit integer of its own. Adding and subtracting 1.5 * 2^52 units of a digit rounds to
// the digit (Dekker; the pre-rounding of Demmel and Hida's reproducible summation). What is below the
// last digit is lost: less than its unit a value. A value out of range, or so small that a unit exceeds
// 2^-44 of it, sets FLAG_FLOAT_RANGE.
//
// Where each thread has cells of its own, b is 41, and a digit's sum is a double that begins with
// 1.5 * 2^52 units and stays in its binade for 2048 rows: adding to it rounds to the digit by itself.
// The last digit is rounded down: to nearest, a tie would depend on the sum before. A tie of another
// digit depends on it too, but moves one unit to the next digits, which hold it exactly.

// How far above the least value that the digits hold a value is, by the upper halves of their bits,
// doubled; what is below it wraps and is very far. Zero is not far. `origin` is minus the least value's.
__device__ __forceinline__ u32 float_distance(double value, u32 origin) {
    u64 bits = (u64)__double_as_longlong(value);
    u32 high = (u32)(bits >> 32);
    return ((high & 0x7fffffffu) | (u32)bits) == 0 ? 0u : high * 2 + origin;
}

// The digits of a value; `magic` is 1.5 * 2^52 units of each.
template <int LEVELS>
__device__ __forceinline__ void float_digits(double value, const double (&magic)[LEVELS], u64 (&digits)[LEVELS]) {
    double rest = value;
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        double shifted = rest + magic[level];
        digits[level] = (u64)(__double_as_longlong(shifted) - __double_as_longlong(magic[level]));
        rest = rest - (shifted - magic[level]);
    }
}
