//! Four lanes, with AVX2 and FMA.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

use std::arch::x86_64::{
    __m128, __m128i, __m256d, __m256i, _mm_add_ps, _mm_and_si128, _mm_blendv_ps, _mm_castps_si128,
    _mm_castsi128_ps, _mm_cvtepi32_ps, _mm_cvtsi64_si128, _mm_fmadd_ps, _mm_loadu_ps, _mm_mul_ps,
    _mm_or_si128, _mm_set1_epi32, _mm_set1_ps, _mm_sll_epi32, _mm_sqrt_ps, _mm_srl_epi32,
    _mm_storeu_ps, _mm_sub_epi32, _mm_xor_si128, _mm256_add_epi64, _mm256_add_pd, _mm256_and_si256,
    _mm256_blendv_pd, _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_castsi256_si128,
    _mm256_div_pd, _mm256_fmadd_pd, _mm256_i64gather_pd, _mm256_loadu_pd, _mm256_mul_epu32,
    _mm256_mul_pd, _mm256_or_si256, _mm256_permutevar8x32_epi32, _mm256_set_epi32,
    _mm256_set_epi64x, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_shuffle_epi32, _mm256_sll_epi64,
    _mm256_sqrt_pd, _mm256_srl_epi64, _mm256_storeu_pd, _mm256_sub_epi64, _mm256_sub_pd,
    _mm256_xor_si256,
};

use super::lanes::{Lanes, Twice, by_instructions};

/// The lanes of a 256-bit register.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

impl Lanes for Avx2 {
    type Two = Twice<Self>;
    type Four = Twice<Self>;
    const COUNT: usize = 4;
    type Word = __m256i;
    type Real = __m256d;
    type Half = __m128i;
    type Single = __m128;

    by_instructions! {
        fn splat(value: u64) -> __m256i = _mm256_set1_epi64x(value as i64);
        fn series(first: u64, step: u64) -> __m256i = {
            let at = |lane: u64| first.wrapping_add(step.wrapping_mul(lane)) as i64;
            _mm256_set_epi64x(at(3), at(2), at(1), at(0))
        };
        fn add(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi64(a, b);
        fn subtract(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi64(a, b);
        fn and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        fn or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        fn xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i =
            _mm256_xor_si256(_mm256_xor_si256(a, c), b);
        fn shift_right<const BITS>(a: __m256i) -> __m256i =
            _mm256_srl_epi64(a, _mm_cvtsi64_si128(i64::from(BITS)));
        fn shift_left<const BITS>(a: __m256i) -> __m256i =
            _mm256_sll_epi64(a, _mm_cvtsi64_si128(i64::from(BITS)));
        fn swap_halves(a: __m256i) -> __m256i = _mm256_shuffle_epi32::<0xb1>(a);
        fn multiply_low(a: __m256i, b: __m256i) -> __m256i = _mm256_mul_epu32(a, b);
        fn look_up(table: &[u64; 16], index: __m256i) -> __m256d =
            _mm256_i64gather_pd::<8>(table.as_ptr().cast(), _mm256_and_si256(index, _mm256_set1_epi64x(15)));
        fn high_integer(a: __m256i) -> __m256d = {
            // Without an instruction that turns them into doubles they are put into the fraction of one
            // of 2^52, with half of their range added.
            let counted = _mm256_add_epi64(a, _mm256_set1_epi64x(i64::MIN));
            let fraction = _mm256_srl_epi64(counted, _mm_cvtsi64_si128(52));
            let bits = _mm256_or_si256(fraction, _mm256_set1_epi64x(0x4330_0000_0000_0000));
            _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_set1_pd(4_503_599_627_372_544.0))
        };
        fn reals(bits: __m256i) -> __m256d = _mm256_castsi256_pd(bits);
        fn bits(a: __m256d) -> __m256i = _mm256_castpd_si256(a);
        fn splat_real(value: f64) -> __m256d = _mm256_set1_pd(value);
        fn add_reals(a: __m256d, b: __m256d) -> __m256d = _mm256_add_pd(a, b);
        fn subtract_reals(a: __m256d, b: __m256d) -> __m256d = _mm256_sub_pd(a, b);
        fn divide(a: __m256d, b: __m256d) -> __m256d = _mm256_div_pd(a, b);
        fn multiply(a: __m256d, b: __m256d) -> __m256d = _mm256_mul_pd(a, b);
        fn fma(a: __m256d, b: __m256d, c: __m256d) -> __m256d = _mm256_fmadd_pd(a, b, c);
        fn sqrt(a: __m256d) -> __m256d = _mm256_sqrt_pd(a);
        fn select<const BIT>(word: __m256i, a: __m256d, b: __m256d) -> __m256d = {
            let sign = _mm256_sll_epi64(word, _mm_cvtsi64_si128(63 - i64::from(BIT)));
            _mm256_blendv_pd(a, b, _mm256_castsi256_pd(sign))
        };
        fn load(from: &[f64]) -> __m256d = _mm256_loadu_pd(from[..4].as_ptr());
        fn store(a: __m256d, to: &mut [f64]) = _mm256_storeu_pd(to[..4].as_mut_ptr(), a);
        fn low_half(a: __m256i) -> __m128i = _mm256_castsi256_si128(
            _mm256_permutevar8x32_epi32(a, _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0)),
        );
        fn high_half(a: __m256i) -> __m128i = _mm256_castsi256_si128(
            _mm256_permutevar8x32_epi32(a, _mm256_set_epi32(6, 4, 2, 0, 7, 5, 3, 1)),
        );
        fn splat_half(value: u32) -> __m128i = _mm_set1_epi32(value as i32);
        fn subtract_halves(a: __m128i, b: __m128i) -> __m128i = _mm_sub_epi32(a, b);
        fn and_halves(a: __m128i, b: __m128i) -> __m128i = _mm_and_si128(a, b);
        fn or_halves(a: __m128i, b: __m128i) -> __m128i = _mm_or_si128(a, b);
        fn xor_halves(a: __m128i, b: __m128i) -> __m128i = _mm_xor_si128(a, b);
        fn shift_half_right<const BITS>(a: __m128i) -> __m128i =
            _mm_srl_epi32(a, _mm_cvtsi64_si128(i64::from(BITS)));
        fn shift_half_left<const BITS>(a: __m128i) -> __m128i =
            _mm_sll_epi32(a, _mm_cvtsi64_si128(i64::from(BITS)));
        fn convert_halves(a: __m128i) -> __m128 = _mm_cvtepi32_ps(a);
        fn singles(bits: __m128i) -> __m128 = _mm_castsi128_ps(bits);
        fn single_bits(a: __m128) -> __m128i = _mm_castps_si128(a);
        fn splat_single(value: f32) -> __m128 = _mm_set1_ps(value);
        fn add_singles(a: __m128, b: __m128) -> __m128 = _mm_add_ps(a, b);
        fn multiply_singles(a: __m128, b: __m128) -> __m128 = _mm_mul_ps(a, b);
        fn fma_singles(a: __m128, b: __m128, c: __m128) -> __m128 = _mm_fmadd_ps(a, b, c);
        fn sqrt_singles(a: __m128) -> __m128 = _mm_sqrt_ps(a);
        fn select_single<const BIT>(half: __m128i, a: __m128, b: __m128) -> __m128 = {
            let sign = _mm_sll_epi32(half, _mm_cvtsi64_si128(31 - i64::from(BIT)));
            _mm_blendv_ps(a, b, _mm_castsi128_ps(sign))
        };
        fn load_singles(from: &[f32]) -> __m128 = _mm_loadu_ps(from[..4].as_ptr());
        fn store_singles(a: __m128, to: &mut [f32]) = _mm_storeu_ps(to[..4].as_mut_ptr(), a);
    }
}
