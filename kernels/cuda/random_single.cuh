// Random singles by position, with the bits that the host gives them (src/random/single.rs). As in
// random.cuh every operation on floats is rounded to nearest by name. The numbers of single.rs stand in the
// place of those of normal.rs, each in the low half of a word.

#define RANDOM_SINGLE(index) __int_as_float((i32)RANDOM_WORD(index))

#define RANDOM_SINGLE_MINUS_TWO_LN_2 13
#define RANDOM_SINGLE_LOG 14
#define RANDOM_SINGLE_SINE 22
#define RANDOM_SINGLE_COSINE 26

// A single in [1, 2) from the low 23 bits of a word.
__device__ __forceinline__ float random_single_one_to_two(u32 word) {
    return __int_as_float((i32)((word & 0x007fffffu) | 0x3f800000u));
}

// -2 ln u for u in (0, 1].
template <class L> __device__ __forceinline__ float random_single_log(const L& p, float u) {
    const u32 bits = (u32)__float_as_int(u);
    const u32 from_start = bits - 0x3f3504f3u;
    const float z = __int_as_float((i32)(bits - (from_start & 0xff800000u)));
    const float biased = __int_as_float((i32)(((from_start + (128u << 23)) >> 23) | 0x4b000000u));
    const float k = __fadd_rn(biased, -8388736.0f);
    const float r = __fadd_rn(z, -1.0f);
    const float rest = __fmaf_rn(k, RANDOM_SINGLE(RANDOM_SINGLE_MINUS_TWO_LN_2), 0.0f);
    float slope = RANDOM_SINGLE(RANDOM_SINGLE_LOG);
#pragma unroll
    for (int power = 1; power < 8; power++) slope = __fmaf_rn(slope, r, RANDOM_SINGLE(RANDOM_SINGLE_LOG + power));
    return __fmaf_rn(__fmaf_rn(slope, r, -2.0f), r, rest);
}

// The two normals of a block.
template <class L>
__device__ __forceinline__ void random_single_normals(const L& p, const RandomBlock& block, float& first,
                                                      float& second) {
    const float coarse = __fmaf_rn(random_single_one_to_two(block.word[0]), -1.0f, 2.0f);
    const float fine = __fadd_rn(random_single_one_to_two(block.word[1]), -1.0f);
    const float u = __fmaf_rn(fine, -1.1920928955078125e-7f, coarse);
    const float radius = __fmul_rn(RANDOM_SINGLE(RANDOM_SECOND), __fsqrt_rn(random_single_log(p, u)));
    const u32 turn = block.word[3];
    const float y = __fadd_rn(random_single_one_to_two(block.word[2]), -1.5f);
    const float square = __fmul_rn(y, y);
    float sine = RANDOM_SINGLE(RANDOM_SINGLE_SINE), cosine = RANDOM_SINGLE(RANDOM_SINGLE_COSINE);
#pragma unroll
    for (int power = 1; power < 4; power++) {
        sine = __fmaf_rn(sine, square, RANDOM_SINGLE(RANDOM_SINGLE_SINE + power));
        cosine = __fmaf_rn(cosine, square, RANDOM_SINGLE(RANDOM_SINGLE_COSINE + power));
    }
    sine = __fmul_rn(y, sine);
    cosine = __fmaf_rn(cosine, square, 1.0f);
    const bool swapped = (turn >> 29) & 1;
    const u32 x = (u32)__float_as_int(swapped ? sine : cosine) ^ (turn & 0x80000000u);
    const u32 w = (u32)__float_as_int(swapped ? cosine : sine) ^ ((turn << 1) & 0x80000000u);
    const float location = RANDOM_SINGLE(RANDOM_FIRST);
    first = __fmaf_rn(radius, __int_as_float((i32)x), location);
    second = __fmaf_rn(radius, __int_as_float((i32)w), location);
}

template <class L> __device__ __forceinline__ float random_single_uniform(const L& p, u32 word) {
    const float u = __fadd_rn(random_single_one_to_two(word), -1.0f);
    return __fmaf_rn(u, RANDOM_SINGLE(RANDOM_SECOND), RANDOM_SINGLE(RANDOM_FIRST));
}
