// Random singles by position, with the bits that the host gives them (src/random/single.rs). As in
// random.cuh every operation on floats is rounded to nearest by name. The numbers of single.rs are
// definitions, and lie in the instructions; the parameters are in the low halves of their words.

#define RANDOM_SINGLE(index) __int_as_float((i32)RANDOM_WORD(index))

// The square root of 0 or of a number from 2^-60 to 2^60, correctly rounded: an estimate of 1 / sqrt and
// one step of Newton's with an exact rest, which are the very steps of __fsqrt_rn for such numbers. Without
// its branch for others, several of them interleave. Of 0 the estimate is that of 2^-60.
__device__ __forceinline__ float random_single_sqrt(float x) {
#ifdef TG_HOST
    return __fsqrt_rn(x);
#else
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaxf(x, 8.673617379884035e-19f)));
    const float root = __fmul_rn(x, y);
    return __fmaf_rn(__fmaf_rn(-root, root, x), __fmul_rn(y, 0.5f), root);
#endif
}

// -2 ln(x / 2^32) for x from 1 to 2^32.
__device__ __forceinline__ float random_single_log(float x) {
    const float numbers[8] = {RANDOM_SINGLE_LOG};
    const u32 bits = (u32)__float_as_int(x);
    const u32 whole = (bits - RANDOM_SINGLE_LOG_START) & 0xff800000u;
    const float r = __fadd_rn(__int_as_float((i32)(bits - whole)), -1.0f);
    const float rest =
        __fmaf_rn(__int2float_rn((i32)whole), RANDOM_SINGLE_MINUS_TWO_LN_2, RANDOM_SINGLE_SIXTY_FOUR_LN_2);
    float slope = numbers[0];
#pragma unroll
    for (int power = 1; power < 8; power++) slope = __fmaf_rn(slope, r, numbers[power]);
    return __fmaf_rn(__fmaf_rn(slope, r, -2.0f), r, rest);
}

// The two normals of two words.
template <class L>
__device__ __forceinline__ void random_single_normals(const L& p, u32 a, u32 b, float& first, float& second) {
    const float sines[5] = {RANDOM_SINGLE_SINE}, cosines[5] = {RANDOM_SINGLE_COSINE};
    const float root = random_single_sqrt(random_single_log(__uint2float_rn(a | 1)));
    const float turned = __int_as_float((i32)((u32)__float_as_int(root) ^ (b << 31)));
    const float radius = __fmul_rn(RANDOM_SINGLE(RANDOM_SECOND), turned);
    const float y = __fadd_rn(__int_as_float((i32)((b >> 9) + 0x40000000u)), -3.0f);
    const float square = __fmul_rn(y, y);
    float sine = sines[0], cosine = cosines[0];
#pragma unroll
    for (int power = 1; power < 5; power++) {
        sine = __fmaf_rn(sine, square, sines[power]);
        cosine = __fmaf_rn(cosine, square, cosines[power]);
    }
    sine = __fmul_rn(y, sine);
    cosine = __fmaf_rn(cosine, square, 1.0f);
    const float location = RANDOM_SINGLE(RANDOM_FIRST);
    first = __fmaf_rn(radius, cosine, location);
    second = __fmaf_rn(radius, sine, location);
}

template <class L> __device__ __forceinline__ float random_single_uniform(const L& p, u32 word) {
    const float u = __fadd_rn(__int_as_float((i32)((word >> 9) + 0x3f800000u)), -1.0f);
    return __fmaf_rn(u, RANDOM_SINGLE(RANDOM_SECOND), RANDOM_SINGLE(RANDOM_FIRST));
}
