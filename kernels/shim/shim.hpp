// The CUDA C++ that kernels are written in, as plain C++, so that a kernel runs on a CPU in a test.
//
// A generated kernel is compiled by the system's C++ compiler as one translation unit, in this order:
//
//     #include "shim.hpp"
//     ...the generated source, unchanged...
//     TG_SHIM_ENTRY(kernel_name, ParamStruct)
//
// and linked with shim.cpp, which holds the scheduler. This file includes nothing on purpose: a kernel that NVRTC
// would refuse for want of a header is refused here as well, and its own type names (`int64_t`, ...) cannot clash.
// Exactly one translation unit of a shared object may include it, for it defines the dynamic shared memory.
//
// Every thread of a block is a fibre. It may hand over to another, chosen by the seed, wherever CUDA threads can see
// each other's progress: at collectives, barriers, fences, atomics, uncached loads and stores, `__nanosleep`. Plain
// loads and stores do not switch, volatile ones neither. A loop that spins must contain one of those, or it never ends.
//
// What differs from a device:
// - A cast of a double to an integer type that cannot hold it is undefined here and saturates there. The `__double2…`
//   functions are exact on both.
// - Memory is sequentially consistent: a missing `__threadfence` is not found.
// - A collective whose mask names a lane that has left the kernel is an error here; CUDA lets it pass.
// - A barrier counts threads, whichever call they come from: `__syncthreads` in both branches of an `if` passes.
// - `__activemask` gives some of the lanes that are in it, as CUDA allows, and not all that a device would find.
// - `clock64` counts switches, and `__launch_bounds__` is ignored.

#pragma once

#pragma GCC visibility push(hidden)

// ---- what shim.cpp provides

enum tg_status : int {
    TG_OK = 0,
    TG_BAD_LAUNCH = 1,          // the arguments of the launch are wrong
    TG_DEADLOCK = 2,            // no thread of a block can run
    TG_COLLECTIVE_MISMATCH = 3, // the lanes of a mask disagree about a collective
    TG_BARRIER_MISMATCH = 4,    // the threads of a block meet at different barriers
    TG_SHARED_OVERRUN = 5,      // bytes after the dynamic shared memory were written
    TG_STACK_OVERFLOW = 6,      // a thread needs a larger stack than the shim gives it
    TG_NO_PROGRESS = 7,         // no block has finished for a long time
    TG_TRAP = 8,                // the kernel called __trap()
    TG_FALSE_ASSUMPTION = 9,    // __builtin_assume of something false
    TG_MISALIGNED_ATOMIC = 10,  // an atomic on an address that is not a multiple of its size
};

enum tg_collective : unsigned {
    TG_SYNCWARP,
    TG_BALLOT,
    TG_ANY,
    TG_ALL,
    TG_SHFL_IDX,
    TG_SHFL_UP,
    TG_SHFL_DOWN,
    TG_SHFL_XOR,
    TG_MATCH_ANY,
    TG_MATCH_ALL,
    TG_REDUCE_ADD,
    TG_REDUCE_AND,
    TG_REDUCE_OR,
    TG_REDUCE_XOR,
    TG_REDUCE_MIN_UNSIGNED,
    TG_REDUCE_MAX_UNSIGNED,
    TG_REDUCE_MIN_SIGNED,
    TG_REDUCE_MAX_SIGNED,
    TG_COLLECTIVE_KINDS,
};

enum tg_barrier : unsigned { TG_BARRIER, TG_BARRIER_OR, TG_BARRIER_AND, TG_BARRIER_COUNT, TG_BARRIER_KINDS };

/// One launch, as TG_SHIM_ENTRY hands it to the scheduler.
struct tg_launch {
    const char* kernel;
    void (*call)(const void* params);
    const void* params;
    unsigned long long params_bytes;
    unsigned long long params_bytes_expected;
    unsigned blocks;
    unsigned threads;
    unsigned shared_bytes;
    unsigned long long seed;
    unsigned resident_blocks;
    char* message;
    unsigned long long message_bytes;
    unsigned char* shared;
    unsigned long long shared_capacity;
};

constexpr unsigned TG_SHARED_BYTES_MAX = 232448; // 227 KiB, what a block of compute capability 9.0 may have
constexpr unsigned TG_SHARED_GUARD_BYTES = 4096;

struct tg_index {
    unsigned x, y, z;
};

extern "C" {
extern tg_index tg_thread_index, tg_block_index, tg_block_size, tg_grid_size;

/// Yields that the running fibre may still ignore.
extern unsigned tg_yields_left;

/// Runs a launch to its end and returns a `tg_status`.
int tg_shim_run(const tg_launch* launch);

/// Replaces the number of yields without a finished block after which a launch ends with TG_NO_PROGRESS (2^27).
__attribute__((visibility("default"))) void tg_shim_set_yields_max(unsigned long long yields_max);

/// Hands over to a fibre chosen at random, which may be the same one.
void tg_shim_switch();

/// Meets the lanes of `mask`. `bytes` is the size of `value`; `argument` and `width` are a shuffle's.
unsigned long long tg_shim_collective(tg_collective kind, unsigned mask, unsigned long long value, unsigned bytes,
                                      unsigned argument, unsigned width, int line);
int tg_shim_barrier(tg_barrier kind, int predicate, int line);
unsigned tg_shim_activemask(int line);
unsigned long long tg_shim_clock();
[[noreturn]] void tg_shim_trap(int line);
[[noreturn]] void tg_shim_false_assumption(const char* condition, int line);
[[noreturn]] void tg_shim_misaligned_atomic(const volatile void* address, unsigned bytes);
}

#pragma GCC visibility pop

// shim.cpp wants no more than this.
#ifndef TG_SHIM_INTERFACE_ONLY

#define TG_HOST 1
#define __CUDA_ARCH__ 900

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

// `thread_local` is the one storage class that makes a variable of a function static and may also follow `extern`.
// All shared memory thus lies in the thread-local block of this shared object, which the scheduler swaps as a whole
// when another block of the grid runs. Nothing else in the shared object may be thread-local.
#define __shared__ thread_local

typedef decltype(sizeof(0)) size_t;

// ---- the C library functions that CUDA declares by itself, with the exception specification that the C library's own
// headers give them, in case a test has included those before

#ifdef __THROW
#define TG_NOEXCEPT __THROW
#else
#define TG_NOEXCEPT
#endif

extern "C" {
void* memcpy(void*, const void*, size_t) TG_NOEXCEPT;
void* memmove(void*, const void*, size_t) TG_NOEXCEPT;
void* memset(void*, int, size_t) TG_NOEXCEPT;
int printf(const char*, ...);
int abs(int) TG_NOEXCEPT;
long long llabs(long long) TG_NOEXCEPT;
double ldexp(double, int) TG_NOEXCEPT;
double scalbn(double, int) TG_NOEXCEPT;
float ldexpf(float, int) TG_NOEXCEPT;
float scalbnf(float, int) TG_NOEXCEPT;

#define TG_MATH_1(name)              \
    double name(double) TG_NOEXCEPT; \
    float name##f(float) TG_NOEXCEPT;
#define TG_MATH_2(name)                      \
    double name(double, double) TG_NOEXCEPT; \
    float name##f(float, float) TG_NOEXCEPT;
TG_MATH_1(fabs)
TG_MATH_1(floor)
TG_MATH_1(ceil)
TG_MATH_1(trunc)
TG_MATH_1(rint)
TG_MATH_1(nearbyint)
TG_MATH_1(round)
TG_MATH_1(sqrt)
TG_MATH_1(exp)
TG_MATH_1(exp2)
TG_MATH_1(log)
TG_MATH_1(log2)
TG_MATH_1(log10)
TG_MATH_1(sin)
TG_MATH_1(cos)
TG_MATH_2(fmin)
TG_MATH_2(fmax)
TG_MATH_2(fmod)
TG_MATH_2(copysign)
TG_MATH_2(pow)
double fma(double, double, double) TG_NOEXCEPT;
float fmaf(float, float, float) TG_NOEXCEPT;
#undef TG_MATH_1
#undef TG_MATH_2
#undef TG_NOEXCEPT
}

// Everything from here to the end of the translation unit is hidden, so that two kernels loaded into one process never
// share a symbol. Only what TG_SHIM_ENTRY defines is exported.
#pragma GCC visibility push(hidden)

inline void tg_yield() {
    if (--tg_yields_left == 0) tg_shim_switch();
}

// ---- dynamic shared memory: what `extern __shared__ __align__(16) unsigned char shared_memory[];` names

extern "C" { // a redeclaration may then stand in a function of either linkage
__align__(128) thread_local unsigned char shared_memory[TG_SHARED_BYTES_MAX + TG_SHARED_GUARD_BYTES];
}

// ---- vector types

#define TG_VECTOR(name, T, align2, align4)                                                         \
    struct name##1 { T x; };                                                                       \
    struct __align__(align2) name##2 { T x, y; };                                                  \
    struct name##3 { T x, y, z; };                                                                 \
    struct __align__(align4) name##4 { T x, y, z, w; };                                            \
    inline name##1 make_##name##1(T x) { return name##1{x}; }                                      \
    inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                              \
    inline name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                      \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
TG_VECTOR(char, signed char, 2, 4)
TG_VECTOR(uchar, unsigned char, 2, 4)
TG_VECTOR(short, short, 4, 8)
TG_VECTOR(ushort, unsigned short, 4, 8)
TG_VECTOR(int, int, 8, 16)
TG_VECTOR(uint, unsigned, 8, 16)
TG_VECTOR(long, long, 16, 16)
TG_VECTOR(ulong, unsigned long, 16, 16)
TG_VECTOR(longlong, long long, 16, 16)
TG_VECTOR(ulonglong, unsigned long long, 16, 16)
TG_VECTOR(float, float, 8, 16)
TG_VECTOR(double, double, 16, 16)
#undef TG_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

[[maybe_unused]] static const tg_index& threadIdx = tg_thread_index;
[[maybe_unused]] static const tg_index& blockIdx = tg_block_index;
[[maybe_unused]] static const tg_index& blockDim = tg_block_size;
[[maybe_unused]] static const tg_index& gridDim = tg_grid_size;
[[maybe_unused]] static constexpr int warpSize = 32;

// ---- barriers, fences, time. The default argument is the line of the call.

inline void __syncthreads(int line = __builtin_LINE()) { tg_shim_barrier(TG_BARRIER, 0, line); }
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
    return tg_shim_barrier(TG_BARRIER_OR, predicate, line);
}
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
    return tg_shim_barrier(TG_BARRIER_AND, predicate, line);
}
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
    return tg_shim_barrier(TG_BARRIER_COUNT, predicate, line);
}
inline void __threadfence_block() { tg_yield(); }
inline void __threadfence() { tg_yield(); }
inline void __threadfence_system() { tg_yield(); }
inline void __nanosleep(unsigned) { tg_shim_switch(); }
inline long long clock64() {
    tg_yield();
    return static_cast<long long>(tg_shim_clock());
}
[[noreturn]] inline void __trap(int line = __builtin_LINE()) { tg_shim_trap(line); }

#define __builtin_assume(condition) \
    ((condition) ? static_cast<void>(0) : tg_shim_false_assumption(#condition, __LINE__))

// ---- bits and numbers

template <class To, class From>
inline To tg_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the two types have different sizes");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; ++bit) reversed |= ((x >> bit) & 1) << (63 - bit);
    return reversed;
}
inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = (static_cast<unsigned long long>(high) << 32) | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = (selector >> (4 * i)) & 0xf;
        unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 0xff;
        if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((((static_cast<unsigned long long>(high) << 32) | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32) | low) >> (shift & 31));
}

inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline long long __mul64hi(long long a, long long b) {
    return static_cast<long long>((static_cast<__int128>(a) * b) >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

inline long long __double_as_longlong(double x) { return tg_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return tg_bits<double>(x); }
inline unsigned __float_as_uint(float x) { return tg_bits<unsigned>(x); }
inline int __float_as_int(float x) { return tg_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return tg_bits<float>(x); }
inline float __int_as_float(int x) { return tg_bits<float>(x); }
// Rounds down: the nearest sum, or its neighbour if the error (Knuth's two-sum) says that it is too large.
inline double __dadd_rd(double a, double b) {
    const double sum = a + b, part = sum - a;
    const double error = (a - (sum - part)) + (b - part);
    if (!(error < 0)) return sum;
    return tg_bits<double>(tg_bits<long long>(sum) + (sum > 0 ? -1 : 1));
}
inline int __double2hiint(double x) { return static_cast<int>(tg_bits<long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(tg_bits<long long>(x)); }
inline double __hiloint2double(int high, int low) {
    return tg_bits<double>((static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32) |
                           static_cast<unsigned>(low));
}

// A number that is already whole, as an integer of `To`, saturated. PTX `cvt`: a NaN gives zero when neither side has
// 64 bits and the topmost bit alone otherwise.
template <class To, class From>
inline To tg_saturate(From whole) {
    constexpr bool is_signed = To(-1) < To(0);
    constexpr int bits = 8 * static_cast<int>(sizeof(To));
    constexpr To top_bit = static_cast<To>(1ULL << (bits - 1));
    constexpr To lowest = is_signed ? top_bit : To(0);
    constexpr To highest = is_signed ? static_cast<To>(~top_bit) : static_cast<To>(~To(0));
    if (whole != whole) return sizeof(From) == 8 || sizeof(To) == 8 ? top_bit : To(0);
    const From limit = static_cast<From>(__builtin_ldexp(1.0, is_signed ? bits - 1 : bits));
    if (whole >= limit) return highest;
    if (whole < (is_signed ? -limit : From(0))) return lowest;
    return static_cast<To>(whole);
}
#define TG_TO_INTEGER(from, From, f, to, To)                                                        \
    inline To __##from##2##to##_rn(From x) { return tg_saturate<To>(__builtin_rint##f(x)); }        \
    inline To __##from##2##to##_rz(From x) { return tg_saturate<To>(__builtin_trunc##f(x)); }       \
    inline To __##from##2##to##_rd(From x) { return tg_saturate<To>(__builtin_floor##f(x)); }       \
    inline To __##from##2##to##_ru(From x) { return tg_saturate<To>(__builtin_ceil##f(x)); }
TG_TO_INTEGER(double, double, , int, int)
TG_TO_INTEGER(double, double, , uint, unsigned)
TG_TO_INTEGER(double, double, , ll, long long)
TG_TO_INTEGER(double, double, , ull, unsigned long long)
TG_TO_INTEGER(float, float, f, int, int)
TG_TO_INTEGER(float, float, f, uint, unsigned)
TG_TO_INTEGER(float, float, f, ll, long long)
TG_TO_INTEGER(float, float, f, ull, unsigned long long)
#undef TG_TO_INTEGER
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

#define TG_FLOAT_OVERLOAD(name) \
    inline float name(float x) { return __builtin_##name##f(x); }
TG_FLOAT_OVERLOAD(fabs)
TG_FLOAT_OVERLOAD(floor)
TG_FLOAT_OVERLOAD(ceil)
TG_FLOAT_OVERLOAD(trunc)
TG_FLOAT_OVERLOAD(rint)
TG_FLOAT_OVERLOAD(nearbyint)
TG_FLOAT_OVERLOAD(round)
TG_FLOAT_OVERLOAD(sqrt)
#undef TG_FLOAT_OVERLOAD
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float fmin(float a, float b) { return __builtin_fminf(a, b); }
inline float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
inline float fmod(float a, float b) { return __builtin_fmodf(a, b); }
inline float copysign(float a, float b) { return __builtin_copysignf(a, b); }
inline float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
inline float scalbn(float x, int exponent) { return __builtin_scalbnf(x, exponent); }

#define TG_CLASSIFY(T)                                              \
    inline bool isnan(T x) { return __builtin_isnan(x); }           \
    inline bool isinf(T x) { return __builtin_isinf(x) != 0; }      \
    inline bool isfinite(T x) { return __builtin_isfinite(x); }     \
    inline bool signbit(T x) { return __builtin_signbit(x) != 0; }
TG_CLASSIFY(double)
TG_CLASSIFY(float)
#undef TG_CLASSIFY

inline long abs(long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }

#define TG_MIN_MAX(A, B, R)                                                                      \
    inline R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    inline R max(A a, B b) { return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }
TG_MIN_MAX(int, int, int)
TG_MIN_MAX(unsigned, unsigned, unsigned)
TG_MIN_MAX(int, unsigned, unsigned)
TG_MIN_MAX(unsigned, int, unsigned)
TG_MIN_MAX(long, long, long)
TG_MIN_MAX(unsigned long, unsigned long, unsigned long)
TG_MIN_MAX(long long, long long, long long)
TG_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
TG_MIN_MAX(long long, unsigned long long, unsigned long long)
TG_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef TG_MIN_MAX
inline float min(float a, float b) { return __builtin_fminf(a, b); }
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
inline double min(double a, double b) { return __builtin_fmin(a, b); }
inline double max(double a, double b) { return __builtin_fmax(a, b); }

// ---- loads and stores with a cache operator; those that leave the first-level cache out are yields

template <class T>
inline T __ldg(const T* address) { return *address; }
template <class T>
inline T __ldca(const T* address) { return *address; }
template <class T>
inline T __ldcs(const T* address) { return *address; }
template <class T>
inline T __ldlu(const T* address) { return *address; }
template <class T>
inline T __ldcg(const T* address) {
    tg_yield();
    return *address;
}
template <class T>
inline T __ldcv(const T* address) {
    tg_yield();
    return *address;
}
// The value's type follows from the address alone, as with CUDA's overloads.
template <class T>
struct tg_same {
    using type = T;
};
template <class T>
inline void __stcs(T* address, typename tg_same<T>::type value) { *address = value; }
template <class T>
inline void __stwb(T* address, typename tg_same<T>::type value) { *address = value; }
template <class T>
inline void __stcg(T* address, typename tg_same<T>::type value) {
    *address = value;
    tg_yield();
}
template <class T>
inline void __stwt(T* address, typename tg_same<T>::type value) {
    *address = value;
    tg_yield();
}

// ---- warp collectives

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
    tg_shim_collective(TG_SYNCWARP, mask, 0, 0, 0, 32, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return static_cast<unsigned>(tg_shim_collective(TG_BALLOT, mask, predicate != 0, 0, 0, 32, line));
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return static_cast<int>(tg_shim_collective(TG_ANY, mask, predicate != 0, 0, 0, 32, line));
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return static_cast<int>(tg_shim_collective(TG_ALL, mask, predicate != 0, 0, 0, 32, line));
}
inline unsigned __activemask(int line = __builtin_LINE()) { return tg_shim_activemask(line); }

template <class T>
inline unsigned long long tg_to_word(T value) {
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof(T)); // the targets are little-endian
    return word;
}
template <class T>
inline T tg_from_word(unsigned long long word) {
    T value;
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
}

#define TG_SHUFFLE(name, kind, T, Argument)                                                                  \
    inline T name(unsigned mask, T value, Argument argument, int width = 32, int line = __builtin_LINE()) {  \
        return tg_from_word<T>(tg_shim_collective(kind, mask, tg_to_word(value), sizeof(T),                  \
                                                  static_cast<unsigned>(argument),                           \
                                                  static_cast<unsigned>(width), line));                      \
    }
#define TG_WARP_EXCHANGE(T)                                                                                  \
    TG_SHUFFLE(__shfl_sync, TG_SHFL_IDX, T, int)                                                             \
    TG_SHUFFLE(__shfl_up_sync, TG_SHFL_UP, T, unsigned)                                                      \
    TG_SHUFFLE(__shfl_down_sync, TG_SHFL_DOWN, T, unsigned)                                                  \
    TG_SHUFFLE(__shfl_xor_sync, TG_SHFL_XOR, T, int)                                                         \
    inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {                  \
        return static_cast<unsigned>(                                                                        \
            tg_shim_collective(TG_MATCH_ANY, mask, tg_to_word(value), sizeof(T), 0, 32, line));              \
    }                                                                                                        \
    inline unsigned __match_all_sync(unsigned mask, T value, int* all_equal, int line = __builtin_LINE()) {  \
        const unsigned lanes = static_cast<unsigned>(                                                        \
            tg_shim_collective(TG_MATCH_ALL, mask, tg_to_word(value), sizeof(T), 0, 32, line));              \
        *all_equal = lanes != 0;                                                                             \
        return lanes;                                                                                        \
    }
TG_WARP_EXCHANGE(int)
TG_WARP_EXCHANGE(unsigned)
TG_WARP_EXCHANGE(long)
TG_WARP_EXCHANGE(unsigned long)
TG_WARP_EXCHANGE(long long)
TG_WARP_EXCHANGE(unsigned long long)
TG_WARP_EXCHANGE(float)
TG_WARP_EXCHANGE(double)
#undef TG_WARP_EXCHANGE
#undef TG_SHUFFLE

#define TG_REDUCE(name, T, kind)                                                                  \
    inline T name(unsigned mask, T value, int line = __builtin_LINE()) {                          \
        return tg_from_word<T>(tg_shim_collective(kind, mask, tg_to_word(value), 4, 0, 32, line)); \
    }
TG_REDUCE(__reduce_add_sync, unsigned, TG_REDUCE_ADD)
TG_REDUCE(__reduce_add_sync, int, TG_REDUCE_ADD)
TG_REDUCE(__reduce_min_sync, unsigned, TG_REDUCE_MIN_UNSIGNED)
TG_REDUCE(__reduce_min_sync, int, TG_REDUCE_MIN_SIGNED)
TG_REDUCE(__reduce_max_sync, unsigned, TG_REDUCE_MAX_UNSIGNED)
TG_REDUCE(__reduce_max_sync, int, TG_REDUCE_MAX_SIGNED)
TG_REDUCE(__reduce_and_sync, unsigned, TG_REDUCE_AND)
TG_REDUCE(__reduce_or_sync, unsigned, TG_REDUCE_OR)
TG_REDUCE(__reduce_xor_sync, unsigned, TG_REDUCE_XOR)
#undef TG_REDUCE

// ---- atomics: exactly CUDA's overloads, so that a type that CUDA lacks fails to compile here too. Each is a yield
// before and after, so that both "read, then atomic" and "atomic, then write" can be torn apart.

template <class T, class Update>
inline T tg_atomic(T* address, Update update) {
    if (reinterpret_cast<unsigned long long>(address) % sizeof(T) != 0) tg_shim_misaligned_atomic(address, sizeof(T));
    tg_yield();
    const T old = *address;
    *address = update(old);
    tg_yield();
    return old;
}

// `U` is unsigned for integers, for an atomic addition wraps.
#define TG_ATOMIC_SCOPED(name, T, U, expression)                                                          \
    inline T name(T* address, T operand) {                                                                \
        return tg_atomic(address, [=](T old_value) -> T {                                                 \
            const U old = static_cast<U>(old_value), value = static_cast<U>(operand);                     \
            return static_cast<T>(expression);                                                            \
        });                                                                                               \
    }
#define TG_ATOMIC(name, T, U, expression)                  \
    TG_ATOMIC_SCOPED(name, T, U, expression)               \
    TG_ATOMIC_SCOPED(name##_block, T, U, expression)       \
    TG_ATOMIC_SCOPED(name##_system, T, U, expression)
TG_ATOMIC(atomicAdd, int, unsigned, old + value)
TG_ATOMIC(atomicAdd, unsigned, unsigned, old + value)
TG_ATOMIC(atomicAdd, unsigned long long, unsigned long long, old + value)
TG_ATOMIC(atomicAdd, float, float, old + value)
TG_ATOMIC(atomicAdd, double, double, old + value)
TG_ATOMIC(atomicSub, int, unsigned, old - value)
TG_ATOMIC(atomicSub, unsigned, unsigned, old - value)
TG_ATOMIC(atomicInc, unsigned, unsigned, old >= value ? 0 : old + 1)
TG_ATOMIC(atomicDec, unsigned, unsigned, old == 0 || old > value ? value : old - 1)
#define TG_ATOMIC_ORDERED(T)                                   \
    TG_ATOMIC(atomicMin, T, T, value < old ? value : old)      \
    TG_ATOMIC(atomicMax, T, T, value > old ? value : old)
TG_ATOMIC_ORDERED(int)
TG_ATOMIC_ORDERED(unsigned)
TG_ATOMIC_ORDERED(long long)
TG_ATOMIC_ORDERED(unsigned long long)
#undef TG_ATOMIC_ORDERED
#define TG_ATOMIC_BITWISE(T)                  \
    TG_ATOMIC(atomicAnd, T, T, old & value)   \
    TG_ATOMIC(atomicOr, T, T, old | value)    \
    TG_ATOMIC(atomicXor, T, T, old ^ value)
TG_ATOMIC_BITWISE(int)
TG_ATOMIC_BITWISE(unsigned)
TG_ATOMIC_BITWISE(unsigned long long)
#undef TG_ATOMIC_BITWISE
#undef TG_ATOMIC
#undef TG_ATOMIC_SCOPED

#define TG_ATOMIC_EXCH(name, T) \
    inline T name(T* address, T value) { return tg_atomic(address, [=](T) -> T { return value; }); }
#define TG_ATOMIC_CAS(name, T)                                                                          \
    inline T name(T* address, T expected, T desired) {                                                  \
        return tg_atomic(address, [=](T old) -> T { return old == expected ? desired : old; });         \
    }
#define TG_ATOMIC_ALL_SCOPES(macro, name, T) \
    macro(name, T) macro(name##_block, T) macro(name##_system, T)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_EXCH, atomicExch, int)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_EXCH, atomicExch, unsigned)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_EXCH, atomicExch, unsigned long long)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_EXCH, atomicExch, float)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_CAS, atomicCAS, int)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_CAS, atomicCAS, unsigned)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_CAS, atomicCAS, unsigned long long)
TG_ATOMIC_ALL_SCOPES(TG_ATOMIC_CAS, atomicCAS, unsigned short)
#undef TG_ATOMIC_ALL_SCOPES
#undef TG_ATOMIC_CAS
#undef TG_ATOMIC_EXCH

// ---- the entry that a test calls

/// Defines and exports `int tg_run_<kernel_name>(...)`, which runs the kernel once and returns a `tg_status`.
///
/// - `params` are the bytes of a ParamStruct, at any alignment; `params_bytes` must be its size.
/// - `blocks`, `threads` and `shared_bytes` are the launch's; `threads` is at most 1024.
/// - `seed` decides the order of blocks and threads; the same seed gives the same order.
/// - `resident_blocks` is how many blocks run interleaved: 1 to 64.
/// - `message` receives a text that ends in a zero byte, empty when all went well; it may be null.
///
/// After an error the kernel's output is unspecified and the next launch works as usual. Calls from several operating
/// system threads are serialised.
#define TG_SHIM_ENTRY(kernel_name, ParamStruct)                                                                    \
    static void tg_call_##kernel_name(const void* bytes) {                                                         \
        static_assert(__is_trivially_copyable(ParamStruct), "a kernel's parameter is copied byte by byte");        \
        kernel_name(*static_cast<const ParamStruct*>(bytes));                                                      \
    }                                                                                                              \
    extern "C" __attribute__((visibility("default"))) int tg_run_##kernel_name(                                    \
        const void* params, unsigned long long params_bytes, unsigned blocks, unsigned threads,                    \
        unsigned shared_bytes, unsigned long long seed, unsigned resident_blocks, char* message,                   \
        unsigned long long message_bytes) {                                                                        \
        const tg_launch launch = {#kernel_name, tg_call_##kernel_name, params, params_bytes, sizeof(ParamStruct),  \
                                  blocks, threads, shared_bytes, seed, resident_blocks, message, message_bytes,    \
                                  shared_memory, sizeof(shared_memory)};                                           \
        return tg_shim_run(&launch);                                                                               \
    }

#endif // TG_SHIM_INTERFACE_ONLY
