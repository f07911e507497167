//! Eight lanes, with AVX-512 (F and DQ).

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

use std::arch::x86_64::{
    __m256, __m256i, __m512d, __m512i, _mm_cvtsi64_si128, _mm256_add_ps, _mm256_and_si256,
    _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cvtepi32_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_or_si256, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_sll_epi32, _mm256_sqrt_ps, _mm256_srl_epi32, _mm256_storeu_ps,
    _mm256_sub_epi32, _mm256_xor_si256, _mm512_add_epi64, _mm512_add_pd, _mm512_and_si512,
    _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_cvtepi64_epi32, _mm512_cvtepi64_pd,
    _mm512_div_pd, _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_loadu_si512, _mm512_mask_blend_pd,
    _mm512_mul_epu32, _mm512_mul_pd, _mm512_mullo_epi64, _mm512_or_si512,
    _mm512_permutex2var_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_set1_pd,
    _mm512_shuffle_epi32, _mm512_slli_epi64, _mm512_sqrt_pd, _mm512_srai_epi64, _mm512_srli_epi64,
    _mm512_storeu_pd, _mm512_sub_epi64, _mm512_sub_pd, _mm512_ternarylogic_epi64,
    _mm512_test_epi64_mask, _mm512_xor_si512,
};

use super::lanes::{Lanes, Twice, by_instructions};

/// The lanes of a 512-bit register.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// The truth table of a ^ b ^ c.
const XOR3: i32 = 0x96;

impl Lanes for Avx512 {
    type Two = Twice<Self>;
    type Four = Twice<Twice<Self>>;
    const COUNT: usize = 8;
    type Word = __m512i;
    type Real = __m512d;
    type Half = __m256i;
    type Single = __m256;

    by_instructions! {
        fn splat(value: u64) -> __m512i = _mm512_set1_epi64(value as i64);
        fn series(first: u64, step: u64) -> __m512i = _mm512_add_epi64(
            _mm512_set1_epi64(first as i64),
            _mm512_mullo_epi64(
                _mm512_set1_epi64(step as i64),
                _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
            ),
        );
        fn add(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi64(a, b);
        fn subtract(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi64(a, b);
        fn and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        fn or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        fn xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i =
            _mm512_ternarylogic_epi64::<XOR3>(a, b, c);
        fn shift_right<const BITS>(a: __m512i) -> __m512i = _mm512_srli_epi64::<BITS>(a);
        fn shift_left<const BITS>(a: __m512i) -> __m512i = _mm512_slli_epi64::<BITS>(a);
        fn swap_halves(a: __m512i) -> __m512i = _mm512_shuffle_epi32::<0xb1>(a);
        fn multiply_low(a: __m512i, b: __m512i) -> __m512i = _mm512_mul_epu32(a, b);
        fn look_up(table: &[u64; 16], index: __m512i) -> __m512d = {
            let halves = table.as_ptr();
            _mm512_castsi512_pd(_mm512_permutex2var_epi64(
                _mm512_loadu_si512(halves.cast()),
                index,
                _mm512_loadu_si512(halves.add(8).cast()),
            ))
        };
        fn high_integer(a: __m512i) -> __m512d = _mm512_cvtepi64_pd(_mm512_srai_epi64::<52>(a));
        fn reals(bits: __m512i) -> __m512d = _mm512_castsi512_pd(bits);
        fn bits(a: __m512d) -> __m512i = _mm512_castpd_si512(a);
        fn splat_real(value: f64) -> __m512d = _mm512_set1_pd(value);
        fn add_reals(a: __m512d, b: __m512d) -> __m512d = _mm512_add_pd(a, b);
        fn subtract_reals(a: __m512d, b: __m512d) -> __m512d = _mm512_sub_pd(a, b);
        fn divide(a: __m512d, b: __m512d) -> __m512d = _mm512_div_pd(a, b);
        fn multiply(a: __m512d, b: __m512d) -> __m512d = _mm512_mul_pd(a, b);
        fn fma(a: __m512d, b: __m512d, c: __m512d) -> __m512d = _mm512_fmadd_pd(a, b, c);
        fn sqrt(a: __m512d) -> __m512d = _mm512_sqrt_pd(a);
        fn select<const BIT>(word: __m512i, a: __m512d, b: __m512d) -> __m512d =
            _mm512_mask_blend_pd(
                _mm512_test_epi64_mask(word, _mm512_set1_epi64((1_u64 << BIT) as i64)),
                a,
                b,
            );
        fn load(from: &[f64]) -> __m512d = _mm512_loadu_pd(from[..8].as_ptr());
        fn store(a: __m512d, to: &mut [f64]) = _mm512_storeu_pd(to[..8].as_mut_ptr(), a);
        fn low_half(a: __m512i) -> __m256i = _mm512_cvtepi64_epi32(a);
        fn high_half(a: __m512i) -> __m256i = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(a));
        fn splat_half(value: u32) -> __m256i = _mm256_set1_epi32(value as i32);
        fn subtract_halves(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        fn and_halves(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        fn or_halves(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        fn xor_halves(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        fn shift_half_right<const BITS>(a: __m256i) -> __m256i =
            _mm256_srl_epi32(a, _mm_cvtsi64_si128(i64::from(BITS)));
        fn shift_half_left<const BITS>(a: __m256i) -> __m256i =
            _mm256_sll_epi32(a, _mm_cvtsi64_si128(i64::from(BITS)));
        fn convert_halves(a: __m256i) -> __m256 = _mm256_cvtepi32_ps(a);
        fn singles(bits: __m256i) -> __m256 = _mm256_castsi256_ps(bits);
        fn single_bits(a: __m256) -> __m256i = _mm256_castps_si256(a);
        fn splat_single(value: f32) -> __m256 = _mm256_set1_ps(value);
        fn add_singles(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn multiply_singles(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn fma_singles(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn sqrt_singles(a: __m256) -> __m256 = _mm256_sqrt_ps(a);
        fn select_single<const BIT>(half: __m256i, a: __m256, b: __m256) -> __m256 = {
            let sign = _mm256_sll_epi32(half, _mm_cvtsi64_si128(31 - i64::from(BIT)));
            _mm256_blendv_ps(a, b, _mm256_castsi256_ps(sign))
        };
        fn load_singles(from: &[f32]) -> __m256 = _mm256_loadu_ps(from[..8].as_ptr());
        fn store_singles(a: __m256, to: &mut [f32]) = _mm256_storeu_ps(to[..8].as_mut_ptr(), a);
    }
}
