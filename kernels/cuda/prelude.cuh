// Types, the error word and the total order of floats.
//
// Every generated source begins with this block. No header is included anywhere, so that the
// run-time compiler's front end has nothing else to read. Signed arithmetic goes through the
// wrapping functions here: overflow of a signed C++ integer is undefined, and SQL's is not.

// What an expression leaves unused is the compiler's to drop, and nothing to warn of.
#pragma nv_diag_suppress 177

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef __int128 i128;
typedef unsigned __int128 u128;

template <class T> struct Unsigned;
template <> struct Unsigned<i32> { typedef u32 type; };
template <> struct Unsigned<i64> { typedef u64 type; };
template <> struct Unsigned<i128> { typedef u128 type; };

template <class T> __device__ __forceinline__ T wrapping_add(T a, T b) {
    typedef typename Unsigned<T>::type U;
    return (T)((U)a + (U)b);
}
template <class T> __device__ __forceinline__ T wrapping_sub(T a, T b) {
    typedef typename Unsigned<T>::type U;
    return (T)((U)a - (U)b);
}
template <class T> __device__ __forceinline__ T wrapping_mul(T a, T b) {
    typedef typename Unsigned<T>::type U;
    return (T)((U)a * (U)b);
}

// Words of `flags`. The error word holds the greatest code that a selected row raised.
#define FLAG_ERROR 0u        // 1 divide by zero, 2 overflow, 3 cast
#define FLAG_FLOAT_RANGE 1u  // a value that the fixed point of a float sum cannot hold
#define FLAG_SPILLED 2u      // records in the spill buffer
#define FLAG_KEY_RANGE 3u    // a group key outside of the range it is packed by
#define FLAG_DISTINCT 4u     // distinct keys in a sample

#define DIVIDE_BY_ZERO 1u
#define OVERFLOW 2u
#define CAST_FAILED 3u

__device__ __forceinline__ void raise(u32* flags, u32 code) { atomicMax(&flags[FLAG_ERROR], code); }

__device__ __forceinline__ u64 joined(u32 low, u32 high) { return (u64)low | ((u64)high << 32); }
__device__ __forceinline__ double double_of_bits(u64 bits) { return __longlong_as_double((i64)bits); }

// Maps a float to a signed integer of the same order as IEEE 754 totalOrder.
__device__ __forceinline__ i64 total_order(double value) {
    i64 bits = __double_as_longlong(value);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
__device__ __forceinline__ i32 total_order(float value) {
    i32 bits = __float_as_int(value);
    return bits ^ (i32)((u32)(bits >> 31) >> 1);
}

// SQL comparisons and group keys take -0.0 for +0.0.
__device__ __forceinline__ double fold_zero(double value) { return value == 0.0 ? 0.0 : value; }
__device__ __forceinline__ float fold_zero(float value) { return value == 0.0f ? 0.0f : value; }

// A float as a group key: one zero, one NaN.
__device__ __forceinline__ i64 key_bits(double value) {
    return value != value ? 0x7ff8000000000000ll : __double_as_longlong(fold_zero(value));
}
__device__ __forceinline__ i32 key_bits(float value) {
    return value != value ? 0x7fc00000 : __float_as_int(fold_zero(value));
}

// Extremes are kept as the greatest unsigned word; 0 is what no value has set yet, and the call's
// count tells it from a value.
__device__ __forceinline__ u64 extreme_bits(i64 value) { return (u64)value ^ 0x8000000000000000ull; }

// Spreads a key over 64 bits (the finaliser of MurmurHash3).
__device__ __forceinline__ u64 mix(u64 key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    return key ^ (key >> 33);
}
