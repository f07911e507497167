// The functions on numbers, bits and memory; a bit of `failed` per check that found something wrong. One thread.

typedef long long int64_t; // a kernel may name its own types as the C library does

struct __align__(16) ArithmeticParams {
    unsigned long long* failed;
    double zero;
    int64_t lowest;
};

__constant__ unsigned constant_table[4] = {1, 2, 4, 8};
__device__ __noinline__ double divide(double a, double b) { return __ddiv_rn(a, b); }

extern "C" __global__ void __launch_bounds__(64) arithmetic(const __grid_constant__ ArithmeticParams p) {
    unsigned long long failed = 0;
    int check = 0;
    const auto expect = [&](bool right) { failed |= static_cast<unsigned long long>(!right) << check++; };
    const double infinity = divide(1.0, p.zero), nan = divide(p.zero, p.zero);

    expect(isnan(nan) && !isnan(infinity) && isinf(-infinity) && isfinite(p.zero) && !isfinite(nan));
    expect(isnan(static_cast<float>(nan)) && isinf(static_cast<float>(infinity)) && signbit(-p.zero));
    expect(__double2ll_rn(2.5) == 2 && __double2ll_rn(3.5) == 4 && __double2ll_rz(-2.9) == -2);
    expect(__double2ll_rz(infinity) == ~p.lowest && __double2ll_rz(-1e300) == p.lowest);
    expect(__double2ll_rn(nan) == p.lowest);
    expect(__double2ll_rn(9223372036854774784.0) == 9223372036854774784ll);
    expect(__double2ll_rz(0x1p63 + p.zero) == ~p.lowest);
    expect(__double2int_rz(3e9) == 2147483647 && __double2int_rz(nan) == -2147483647 - 1);
    expect(__double2int_rz(-1.5) == -1);
    expect(__float2int_rz(static_cast<float>(nan)) == 0 && __double2uint_rn(-1.0) == 0);
    expect(__double2ull_rn(infinity) == ~0ull && __double2ull_rz(-3.0) == 0 && __double2int_ru(1.2) == 2);
    expect(__ll2double_rn(9007199254740993ll) == 9007199254740992.0);
    expect(__double_as_longlong(1.0) == 0x3ff0000000000000ll && __longlong_as_double(0x4000000000000000ll) == 2.0);
    expect(__float_as_uint(1.0f) == 0x3f800000u && __int_as_float(0x40000000) == 2.0f && __float_as_int(-0.0f) < 0);
    expect(__hiloint2double(0x3ff00000, 0) == 1.0 && __double2hiint(2.0) == 0x40000000);
    expect(__fma_rn(0.1, 10.0, -1.0) == 0x1p-54 && fma(0.1, 10.0, -1.0) == 0x1p-54);
    expect(__dadd_rn(__dmul_rn(0.1, 10.0), -1.0) == 0.0 && fmaf(2.0f, 3.0f, 1.0f) == 7.0f);
    expect(fabs(-2.0) == 2.0 && floor(-1.5) == -2.0 && ceil(-1.5) == -1.0 && trunc(-1.5) == -1.0 && rint(2.5) == 2.0);
    expect(fabsf(-2.0f) == 2.0f && floorf(-1.5f) == -2.0f && sqrt(2.25) == 1.5 && sqrtf(4.0f) == 2.0f);
    expect(fmin(nan, 1.0) == 1.0 && fmax(1.0, nan) == 1.0 && ldexp(1.5, 4) == 24.0 && scalbn(1.0, -1) == 0.5);
    expect(copysign(1.0, -0.0) == -1.0 && fmod(5.5, 2.0) == 1.5 && round(2.5) == 3.0);
    expect(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64 && __clz(0) == 32 && __clz(1) == 31 && __clzll(0) == 64);
    expect(__clzll(1ll << 40) == 23 && __ffs(0) == 0 && __ffs(8) == 4 && __ffsll(1ll << 40) == 41);
    expect(__brev(1u) == 1u << 31 && __brevll(2) == 1ull << 62);
    expect(__umul64hi(~0ull, ~0ull) == ~0ull - 1 && __mul64hi(-1, 1) == -1 && __umulhi(1u << 31, 4) == 2);
    expect(__mulhi(-1, 1) == -1 && __byte_perm(0x03020100u, 0x07060504u, 0x7410u) == 0x07040100u);
    expect(__funnelshift_l(0x80000000u, 1, 1) == 3 && __funnelshift_r(1, 3, 1) == 0x80000000u);
    const __int128 wide = static_cast<__int128>(p.lowest) * p.lowest;
    expect(static_cast<long long>(wide >> 64) == 1ll << 62);
    expect(min(3, 4) == 3 && max(3u, 4u) == 4u && min(-1ll, 1ll) == -1 && max(1ull, 2ull) == 2 && abs(-3ll) == 3);

    __shared__ int i;
    __shared__ unsigned u;
    __shared__ unsigned long long w;
    __shared__ long long s;
    __shared__ double d;
    __shared__ float f;
    __shared__ unsigned short h;
    i = 5;
    expect(atomicAdd(&i, 3) == 5 && atomicSub(&i, 1) == 8 && atomicMin(&i, -2) == 7 && atomicMax(&i, 4) == -2);
    expect(i == 4);
    u = 5;
    expect(atomicInc(&u, 5) == 5 && atomicDec(&u, 9) == 0 && atomicXor(&u, 3) == 9 && atomicAnd(&u, 2) == 10 && u == 2);
    w = ~0ull;
    expect(atomicAdd(&w, 2ull) == ~0ull && atomicMax(&w, 9ull) == 1 && atomicOr(&w, 6ull) == 9 && w == 15);
    expect(atomicCAS(&w, 15ull, 1ull) == 15 && atomicCAS(&w, 15ull, 2ull) == 1 && atomicExch(&w, 4ull) == 1 && w == 4);
    s = -5;
    expect(atomicMin(&s, -9ll) == -5 && atomicMax(&s, 3ll) == -9 && s == 3);
    d = 1.5;
    f = 1.5f;
    expect(atomicAdd(&d, 2.0) == 1.5 && d == 3.5 && atomicAdd(&f, 2.0f) == 1.5f && atomicAdd_block(&f, 1.0f) == 3.5f);
    h = 7;
    expect(atomicCAS(&h, static_cast<unsigned short>(7), static_cast<unsigned short>(9)) == 7 && h == 9);

    const ulonglong2 pair = make_ulonglong2(1, 2);
    __shared__ uint4 stored;
    __stcs(&stored, make_uint4(1, 2, 3, 4));
    expect(__ldg(&pair).y == 2 && __ldcs(&stored).w == 4 && __ldcg(&stored).x == 1 && sizeof(uchar4) == 4);
    expect(sizeof(uint3) == 12 && alignof(uint4) == 16 && alignof(ushort4) == 8 && sizeof(double2) == 16);
    expect(make_double2(1, 2).y == 2 && make_int4(1, 2, 3, 4).z == 3 && constant_table[3] == 8);
    unsigned char bytes[8];
    memset(bytes, 1, sizeof bytes);
    unsigned long long from_bytes;
    memcpy(&from_bytes, bytes, sizeof bytes);
    expect(from_bytes == 0x0101010101010101ull && warpSize == 32);
    __builtin_assume(p.zero == 0.0);
    expect(__builtin_expect(blockDim.x == 1 && gridDim.x == 1 && threadIdx.y == 0 && clock64() >= 0, 1));
#if !defined(TG_HOST) || __CUDA_ARCH__ < 900
    expect(false);
#endif
    *p.failed = failed;
}
