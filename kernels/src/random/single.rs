//! Normals in singles: as in [`normal`](super::normal), with fewer digits and no table.
//!
//! Of a block's words a and b, in halves:
//! - u = (1 - h) - 2^-23 l, where h and l are the low 23 bits of a's low and high half over 2^23: uniform
//!   in (0, 1], and finer the nearer it is to 0, down to 2^-46.
//! - v = -2 ln u: u = 2^k z with z from 1 / sqrt 2 to sqrt 2, r = z - 1, v = k (-2 ln 2) - 2 ln(1 + r).
//! - y is a quarter turn's angle from the low 23 bits of b's low half; the three highest bits of its
//!   high half swap cosine and sine and are the signs.
//! - The values are fma(scale sqrt v, cosine, location) and the same with the sine.
//!
//! The polynomials interpolate at Chebyshev's nodes. They are off by at most 2^-24 of ln(1 + r), 2^-25 of
//! 1 for the sine, 2^-26 for the cosine.

use super::lanes::Lanes;

/// The bits of a single that are its fraction, and those of 1.
const FRACTION: u32 = 0x007f_ffff;
const ONE: u32 = 0x3f80_0000;
/// The bits of the least z.
const LOG_START: u32 = 0x3f35_04f3;
/// The bits of 2^23, and 128: exponents are counted from there to be turned into singles.
const TWO_23: u32 = 0x4b00_0000;
const EXPONENT_BIAS: u32 = 128;
/// 2^-23.
const UNIT: f32 = f32::from_bits(0x3400_0000);

const MINUS_TWO_LN_2: f32 = f32::from_bits(0xbfb1_7218);

/// (-2 ln(1 + r) / r + 2) / r, the highest power first.
const LOG: [u32; 8] = [
    0xbe33_f694,
    0x3e90_feaa,
    0xbe97_e881,
    0x3ea9_ddba,
    0xbecc_8388,
    0x3f00_0181,
    0xbf2a_ab1c,
    0x3f7f_ffff,
];

/// sin(pi y / 2) / y over y^2, the highest power first.
const SINE: [u32; 4] = [0xbb96_cda0, 0x3da3_2f62, 0xbf25_5ddd, 0x3fc9_0fdb];

/// (cos(pi y / 2) - 1) / y^2 over y^2, the highest power first.
const COSINE: [u32; 4] = [0x3a6d_b249, 0xbcaa_e5cc, 0x3e81_e0f5, 0xbf9d_e9e6];

/// Returns all numbers of the transformation, each in the low half of a word, in the order of
/// `random_single.cuh`.
pub fn device_words_single() -> Vec<u64> {
    let mut words = vec![MINUS_TWO_LN_2.to_bits()];
    for part in [&LOG[..], &SINE, &COSINE] {
        words.extend(part);
    }
    words.into_iter().map(u64::from).collect()
}

/// Returns a single in [1, 2) from the low 23 bits of each half.
#[inline(always)]
fn one_to_two<L: Lanes>(half: L::Half) -> L::Single {
    let fraction = L::and_halves(half, L::splat_half(FRACTION));
    L::singles(L::or_halves(fraction, L::splat_half(ONE)))
}

/// Evaluates a polynomial, given the highest power first, by Horner's scheme.
#[inline(always)]
fn polynomial<L: Lanes, const N: usize>(coefficients: &[u32; N], x: L::Single) -> L::Single {
    let mut sum = L::splat_single(f32::from_bits(coefficients[0]));
    for coefficient in &coefficients[1..] {
        sum = L::fma_singles(sum, x, L::splat_single(f32::from_bits(*coefficient)));
    }
    sum
}

/// Returns -2 ln u for u in (0, 1].
#[inline(always)]
pub(super) fn minus_two_log<L: Lanes>(u: L::Single) -> L::Single {
    let bits = L::single_bits(u);
    let from_start = L::subtract_halves(bits, L::splat_half(LOG_START));
    let biased = L::add_halves(from_start, L::splat_half(EXPONENT_BIAS << 23));
    let exponent = L::shift_half_right::<23>(biased);
    let whole = L::and_halves(from_start, L::splat_half(!FRACTION));
    let z = L::singles(L::subtract_halves(bits, whole));
    let k = L::add_singles(
        L::singles(L::or_halves(exponent, L::splat_half(TWO_23))),
        L::splat_single(-(8_388_608.0 + EXPONENT_BIAS as f32)),
    );
    let r = L::add_singles(z, L::splat_single(-1.0));
    let rest = L::fma_singles(k, L::splat_single(MINUS_TWO_LN_2), L::splat_single(0.0));
    let slope = L::fma_singles(polynomial::<L, 8>(&LOG, r), r, L::splat_single(-2.0));
    L::fma_singles(slope, r, rest)
}

/// Returns the cosine and the sine of pi y / 2 for y within 1/2 of 0.
#[inline(always)]
pub(super) fn cosine_sine<L: Lanes>(y: L::Single) -> (L::Single, L::Single) {
    let square = L::multiply_singles(y, y);
    let sine = L::multiply_singles(y, polynomial::<L, 4>(&SINE, square));
    let cosine = polynomial::<L, 4>(&COSINE, square);
    let cosine = L::fma_singles(cosine, square, L::splat_single(1.0));
    (cosine, sine)
}

/// Returns the two normals of a block.
#[inline(always)]
pub(super) fn normals<L: Lanes>(
    a: L::Word,
    b: L::Word,
    location: f32,
    scale: f32,
) -> (L::Single, L::Single) {
    let minus_one = L::splat_single(-1.0);
    let coarse = one_to_two::<L>(L::low_half(a));
    let coarse = L::fma_singles(coarse, minus_one, L::splat_single(2.0));
    let fine = L::add_singles(one_to_two::<L>(L::high_half(a)), minus_one);
    let u = L::fma_singles(fine, L::splat_single(-UNIT), coarse);
    let radius = L::sqrt_singles(minus_two_log::<L>(u));
    let radius = L::multiply_singles(L::splat_single(scale), radius);
    let y = L::add_singles(one_to_two::<L>(L::low_half(b)), L::splat_single(-1.5));
    let (cosine, sine) = cosine_sine::<L>(y);
    let turn = L::high_half(b);
    let first = L::select_single::<29>(turn, cosine, sine);
    let second = L::select_single::<29>(turn, sine, cosine);
    let sign = L::splat_half(1 << 31);
    let flip = L::and_halves(turn, sign);
    let first = L::singles(L::xor_halves(L::single_bits(first), flip));
    let flip = L::and_halves(L::shift_half_left::<1>(turn), sign);
    let second = L::singles(L::xor_halves(L::single_bits(second), flip));
    let location = L::splat_single(location);
    (
        L::fma_singles(radius, first, location),
        L::fma_singles(radius, second, location),
    )
}

/// Returns the two uniforms of a block: `low + width * u`, where u is a multiple of 2^-23 from 0 to
/// below 1.
#[inline(always)]
pub(super) fn uniforms<L: Lanes>(
    a: L::Word,
    b: L::Word,
    low: f32,
    width: f32,
) -> (L::Single, L::Single) {
    let (low, width) = (L::splat_single(low), L::splat_single(width));
    let uniform = |half: L::Half| {
        let u = L::add_singles(one_to_two::<L>(half), L::splat_single(-1.0));
        L::fma_singles(u, width, low)
    };
    (uniform(L::low_half(a)), uniform(L::low_half(b)))
}
