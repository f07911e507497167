// Arithmetic beyond C++'s operators: division as SQL has it, and decimals whose ranges do not prove that
// they fit.
//
// The rules are Arrow's: each step of a decimal operation has to fit the integer beneath; nothing is
// held against the declared precision. `bad` is set and never cleared.

// A divisor that can be divided by, whatever it was.
template <class T> __device__ __forceinline__ T safe_divisor(T divisor) { return divisor == 0 ? (T)1 : divisor; }

// MIN / -1 wraps here; whoever must raise for it asks first.
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
    return b == -1 ? wrapping_sub((T)0, a) : a / b;
}
template <class T> __device__ __forceinline__ T remainder_of(T a, T b) { return b == -1 ? (T)0 : a % b; }

// Divides, rounding down.
template <class T> __device__ __forceinline__ T floor_divide(T a, T b) {
    T whole = a / b;
    return (a % b != 0) && ((a < 0) != (b < 0)) ? whole - 1 : whole;
}

__device__ __forceinline__ i128 i128_of(u64 high, u64 low) { return (i128)(((u128)high << 64) | low); }

__device__ __forceinline__ bool fits(i128 value, int bits) {
    if (bits == 32) return value == (i128)(i32)value;
    if (bits == 64) return value == (i128)(i64)value;
    return true;
}

__device__ __forceinline__ i128 checked_add(i128 a, i128 b, bool& bad) {
    i128 sum = wrapping_add(a, b);
    bad |= ((a ^ sum) & (b ^ sum)) < 0;
    return sum;
}
__device__ __forceinline__ i128 checked_sub(i128 a, i128 b, bool& bad) {
    i128 difference = wrapping_sub(a, b);
    bad |= ((a ^ b) & (a ^ difference)) < 0;
    return difference;
}
__device__ __forceinline__ i128 checked_mul(i128 a, i128 b, bool& bad) {
    if (a == (i128)(i64)a && b == (i128)(i64)b) return a * b;
    bool negative = (a < 0) != (b < 0);
    u128 x = a < 0 ? (u128)0 - (u128)a : (u128)a;
    u128 y = b < 0 ? (u128)0 - (u128)b : (u128)b;
    u64 x_high = (u64)(x >> 64), y_high = (u64)(y >> 64);
    bad |= x_high != 0 && y_high != 0;
    u128 cross = (u128)x_high * (u64)y + (u128)y_high * (u64)x;
    bad |= (u64)(cross >> 64) != 0;
    u128 low = (u128)(u64)x * (u64)y;
    u128 product = low + (cross << 64);
    bad |= product < low;
    u128 limit = ((u128)1 << 127) - (negative ? 0 : 1);
    bad |= product > limit;
    return negative ? (i128)((u128)0 - product) : (i128)product;
}

// Divides, rounding half away from zero.
template <class T> __device__ __forceinline__ T divide_rounding(T value, T divisor) {
    T result = value / divisor, rest = value % divisor, half = divisor / 2;
    if (value >= 0 && rest >= half) return result + 1;
    if (value < 0 && rest <= -half) return result - 1;
    return result;
}

// Truncates towards zero; `bad` for NaN and what 128 bits cannot hold.
__device__ __forceinline__ i128 truncated(double value, bool& bad) {
    const double limit = 170141183460469231731687303715884105728.0;
    if (!(value >= -limit && value < limit)) {
        bad = true;
        return 0;
    }
    if (value > -9.2e18 && value < 9.2e18) return (i128)(i64)value;
    i64 bits = __double_as_longlong(value);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1075;
    u128 magnitude = (u128)((u64)(bits & 0xfffffffffffffll) | 0x10000000000000ull) << exponent;
    return bits < 0 ? (i128)((u128)0 - magnitude) : (i128)magnitude;
}

// The nearest double, ties to even, as Rust's `as`.
__device__ __forceinline__ double double_of(i128 value) {
    if (value == (i128)(i64)value) return (double)(i64)value;
    bool negative = value < 0;
    u128 magnitude = negative ? (u128)0 - (u128)value : (u128)value;
    u64 high = (u64)(magnitude >> 64);
    int shift = high ? 64 - __clzll((i64)high) : 0;
    u128 rest = shift ? magnitude & (((u128)1 << shift) - 1) : 0;
    // What is cut off is kept as one sticky bit: the 64 bits left are 11 more than a double has.
    u64 top = (u64)(magnitude >> shift) | (rest != 0);
    i64 scale = (i64)(1023 + shift) << 52;
    double result = (double)top * __longlong_as_double(scale);
    return negative ? -result : result;
}
__device__ __forceinline__ double double_of(i64 value) { return (double)value; }
__device__ __forceinline__ double double_of(i32 value) { return (double)value; }

// Rounds half away from zero, as Rust's `round`.
__device__ __forceinline__ double round_away(double value) {
    double whole = trunc(value);
    return fabs(value - whole) >= 0.5 ? whole + (value < 0 ? -1.0 : 1.0) : whole;
}
