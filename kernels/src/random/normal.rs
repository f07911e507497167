//! Normals from random bits: the transformation of Box and Muller ("A note on the generation of
//! random normal deviates", 1958), with a logarithm, a sine and a cosine of its own.
//!
//! Of a block's words a and b:
//! - u = 2 - (1 + low 52 bits of a / 2^52), uniform over the multiples of 2^-52 in (0, 1].
//! - v = -2 ln u: u = 2^k z with z in [0.703125, 1.40625); c is the entry of a table of 16 for z, and
//!   r = z c - 1 lies within 2^-5; v = k (-2 ln 2) + 2 ln c - 2 ln(1 + r). At u near 1 k and ln c
//!   are 0, so that no digits cancel.
//! - y = (1 + low 52 bits of b / 2^52) - 1.5 is a quarter turn's angle from -1/8 to 1/8 turn; bit 61
//!   of b swaps its cosine and sine, bits 63 and 62 are the signs: all angles alike.
//! - The values are fma(scale sqrt v, cosine, location) and the same with the sine.
//!
//! The polynomials interpolate at Chebyshev's nodes. They are off by at most 2^-49 of ln(1 + r),
//! 2^-58 of the sine, 2^-52 of the cosine: a normal is within 2^-47 of itself of the exact one.

use super::lanes::Lanes;

/// No standard normal that is made here is farther from 0: sqrt(104 ln 2) is 8.4904.
pub const NORMAL_MAX: f64 = 8.5;

/// The bits of a double that are its fraction, and those of 1.
const FRACTION: u64 = 0x000f_ffff_ffff_ffff;
const ONE: u64 = 0x3ff0_0000_0000_0000;
/// The bits of 0.703125, where the table of the logarithm begins.
const LOG_START: u64 = 0x3fe6_8000_0000_0000;

const MINUS_TWO_LN_2: f64 = f64::from_bits(0xbff6_2e42_fefa_39ef);

/// c: about the reciprocal of the middle of a sixteenth, in 12 bits of fraction, so that z c - 1 is
/// nearly exact.
const CENTERS: [u64; 16] = [
    0x3ff6_4300_0000_0000,
    0x3ff5_5500_0000_0000,
    0x3ff4_7b00_0000_0000,
    0x3ff3_b100_0000_0000,
    0x3ff2_f700_0000_0000,
    0x3ff2_4900_0000_0000,
    0x3ff1_a800_0000_0000,
    0x3ff1_1100_0000_0000,
    0x3ff0_8400_0000_0000,
    0x3ff0_0000_0000_0000,
    0x3fee_1e00_0000_0000,
    0x3fec_7200_0000_0000,
    0x3fea_f300_0000_0000,
    0x3fe9_9a00_0000_0000,
    0x3fe8_6200_0000_0000,
    0x3fe7_4600_0000_0000,
];

/// 2 ln c.
const LOGARITHMS: [u64; 16] = [
    0x3fe5_234e_0670_a525,
    0x3fe2_6862_0f34_d63d,
    0x3fdf_99dc_6c23_b409,
    0x3fda_926d_3a4a_d563,
    0x3fd5_c280_60c4_6b76,
    0x3fd1_168e_8127_e327,
    0x3fc9_375e_5559_5ede,
    0x3fc0_8498_b51e_39b1,
    0x3fb0_3d5d_85e7_3eef,
    0x0000_0000_0000_0000,
    0xbfbf_0c30_c111_6351,
    0xbfce_2507_702a_f03b,
    0xbfd5_fcf0_75b7_84a4,
    0xbfdc_8df7_cb9a_8f77,
    0xbfe1_661c_aecb_9ba4,
    0xbfe4_610b_c29c_5e18,
];

/// (-2 ln(1 + r) / r + 2) / r, the highest power first.
const LOG: [u64; 7] = [
    0x3fd0_059f_a905_3a68,
    0xbfd2_4f64_2a0a_1548,
    0x3fd5_5554_a0be_834c,
    0xbfd9_9998_d0f3_42e2,
    0x3fe0_0000_0002_d4be,
    0xbfe5_5555_5558_7a95,
    0x3ff0_0000_0000_0000,
];

/// sin(pi y / 2) / y over y^2, the highest power first.
const SINE: [u64; 7] = [
    0x3e6e_3eed_b462_1d14,
    0xbece_3006_3b07_8157,
    0x3f25_0782_fca4_ae88,
    0xbf73_2d2c_ce2d_548b,
    0x3fb4_66bc_6775_8701,
    0xbfe4_abbc_e625_be41,
    0x3ff9_21fb_5444_2d18,
];

/// (cos(pi y / 2) - 1) / y^2 over y^2, the highest power first.
const COSINE: [u64; 6] = [
    0x3e9f_4b53_6b45_7d9e,
    0xbefa_6cc3_2d07_dc98,
    0x3f4e_1f50_093e_4c8f,
    0xbf95_5d3c_7e10_153f,
    0x3fd0_3c1f_081b_4b74,
    0xbff3_bd3c_c9be_45db,
];

/// Returns all numbers of the transformation as words, in the order of `Numbers` in `random.cuh`.
pub fn device_words() -> Vec<u64> {
    let mut words = vec![MINUS_TWO_LN_2.to_bits()];
    for part in [&LOG[..], &SINE, &COSINE, &CENTERS, &LOGARITHMS] {
        words.extend(part);
    }
    words
}

/// Returns a double in [1, 2) from the low 52 bits of each word.
#[inline(always)]
pub(super) fn one_to_two<L: Lanes>(word: L::Word) -> L::Real {
    L::reals(L::or(L::and(word, L::splat(FRACTION)), L::splat(ONE)))
}

/// Evaluates a polynomial, given the highest power first, by Horner's scheme.
#[inline(always)]
fn polynomial<L: Lanes, const N: usize>(coefficients: &[u64; N], x: L::Real) -> L::Real {
    let mut sum = L::splat_real(f64::from_bits(coefficients[0]));
    for coefficient in &coefficients[1..] {
        sum = L::fma(sum, x, L::splat_real(f64::from_bits(*coefficient)));
    }
    sum
}

/// Returns -2 ln u for u in (0, 1].
#[inline(always)]
pub(super) fn minus_two_log<L: Lanes>(u: L::Real) -> L::Real {
    let bits = L::bits(u);
    let from_start = L::subtract(bits, L::splat(LOG_START));
    let index = L::and(L::shift_right::<48>(from_start), L::splat(15));
    let z = L::reals(L::subtract(bits, L::and(from_start, L::splat(!FRACTION))));
    let r = L::fma(z, L::look_up(&CENTERS, index), L::splat_real(-1.0));
    let rest = L::fma(
        L::high_integer(from_start),
        L::splat_real(MINUS_TWO_LN_2),
        L::look_up(&LOGARITHMS, index),
    );
    let slope = L::fma(polynomial::<L, 7>(&LOG, r), r, L::splat_real(-2.0));
    L::fma(slope, r, rest)
}

/// Returns the cosine and the sine of pi y / 2 for y within 1/2 of 0.
#[inline(always)]
pub(super) fn cosine_sine<L: Lanes>(y: L::Real) -> (L::Real, L::Real) {
    let square = L::multiply(y, y);
    let sine = L::multiply(y, polynomial::<L, 7>(&SINE, square));
    let cosine = L::fma(
        polynomial::<L, 6>(&COSINE, square),
        square,
        L::splat_real(1.0),
    );
    (cosine, sine)
}

/// Returns the two normals of a block.
#[inline(always)]
pub(super) fn normals<L: Lanes>(
    a: L::Word,
    b: L::Word,
    location: f64,
    scale: f64,
) -> (L::Real, L::Real) {
    let x = one_to_two::<L>(a);
    let u = L::fma(x, L::splat_real(-1.0), L::splat_real(2.0));
    let radius = L::multiply(L::splat_real(scale), L::sqrt(minus_two_log::<L>(u)));
    let y = L::add_reals(one_to_two::<L>(b), L::splat_real(-1.5));
    let (cosine, sine) = cosine_sine::<L>(y);
    let first = L::select::<61>(b, cosine, sine);
    let second = L::select::<61>(b, sine, cosine);
    let sign = L::splat(1 << 63);
    let first = L::reals(L::xor(L::bits(first), L::and(b, sign)));
    let flipped = L::and(L::shift_left::<1>(b), sign);
    let second = L::reals(L::xor(L::bits(second), flipped));
    let location = L::splat_real(location);
    (
        L::fma(radius, first, location),
        L::fma(radius, second, location),
    )
}
