//! Normals in singles: as in [`normal`](super::normal), with fewer digits and no table.
//!
//! A block's four words of 32 bits serve four values. Two words a and b give two normals:
//! - u = (a with its lowest bit set) / 2^32, rounded to a single: uniform in (0, 1], and finer the nearer
//!   it is to 0, down to 2^-32.
//! - v = -2 ln u: 2^32 u = 2^k z with z from 1 / sqrt 2 to sqrt 2, r = z - 1, v = (k - 32) (-2 ln 2)
//!   - 2 ln(1 + r).
//! - y is a half turn's angle, from -1 to below 1, from the 23 highest bits of b; the lowest turns it
//!   over to the other half.
//! - The values are fma(scale sqrt v, cosine, location) and the same with the sine; where it is turned
//!   over, with -sqrt v.
//!
//! The polynomials interpolate at Chebyshev's nodes. They are off by at most 2^-24 of ln(1 + r), and 2^-24
//! of 1 for the sine and the cosine.

use super::lanes::Lanes;

/// No standard normal that is made here is farther from 0: sqrt(64 ln 2) is 6.6604.
pub const NORMAL_MAX_SINGLE: f64 = 6.67;

/// The bits of a single that are not its fraction, and those of 1 and of 2.
const EXPONENT: u32 = 0xff80_0000;
const ONE: u32 = 0x3f80_0000;
const TWO: u32 = 0x4000_0000;
/// The bits of the least z.
const LOG_START: u32 = 0x3f35_04f3;

/// -2 ln 2 over 2^23, for exponents where they lie in a single's bits, and 64 ln 2: 32 of the former.
const MINUS_TWO_LN_2: u32 = 0xb431_7218;
const SIXTY_FOUR_LN_2: u32 = 0x4231_7218;

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
const SINE: [u32; 5] = [
    0x391f_0a10,
    0xbb99_298f,
    0x3da3_3478,
    0xbf25_5de2,
    0x3fc9_0fdb,
];

/// (cos(pi y / 2) - 1) / y^2 over y^2, the highest power first.
const COSINE: [u32; 5] = [
    0xb7c9_becc,
    0x3a70_b756,
    0xbcaa_e925,
    0x3e81_e0f7,
    0xbf9d_e9e6,
];

/// Returns all numbers of the transformation as definitions of CUDA C++, so that instructions hold
/// them: for singles there is room.
pub fn device_definitions_single() -> String {
    let float = |bits: &u32| format!("__int_as_float((i32){bits:#010x}u)");
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(float).collect();
        numbers.join(", ")
    };
    [
        ("LOG_START", format!("{LOG_START:#010x}u")),
        ("MINUS_TWO_LN_2", float(&MINUS_TWO_LN_2)),
        ("SIXTY_FOUR_LN_2", float(&SIXTY_FOUR_LN_2)),
        ("LOG", list(&LOG)),
        ("SINE", list(&SINE)),
        ("COSINE", list(&COSINE)),
    ]
    .iter()
    .map(|(name, value)| format!("#define RANDOM_SINGLE_{name} {value}\n"))
    .collect()
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

/// Returns the single nearest to each odd number of 32 bits: the given ones with their lowest bit set.
#[inline(always)]
pub(super) fn odd<L: Lanes>(a: L::Half) -> L::Single {
    let a = L::or_halves(a, L::splat_half(1));
    let high = L::convert_halves(L::shift_half_right::<16>(a));
    let low = L::convert_halves(L::and_halves(a, L::splat_half(0xffff)));
    L::fma_singles(high, L::splat_single(65_536.0), low)
}

/// Returns -2 ln(x / 2^32) for x from 1 to 2^32.
#[inline(always)]
pub(super) fn minus_two_log<L: Lanes>(x: L::Single) -> L::Single {
    let bits = L::single_bits(x);
    let from_start = L::subtract_halves(bits, L::splat_half(LOG_START));
    let whole = L::and_halves(from_start, L::splat_half(EXPONENT));
    let z = L::singles(L::subtract_halves(bits, whole));
    let r = L::add_singles(z, L::splat_single(-1.0));
    let rest = L::fma_singles(
        L::convert_halves(whole),
        L::splat_single(f32::from_bits(MINUS_TWO_LN_2)),
        L::splat_single(f32::from_bits(SIXTY_FOUR_LN_2)),
    );
    let slope = L::fma_singles(polynomial::<L, 8>(&LOG, r), r, L::splat_single(-2.0));
    L::fma_singles(slope, r, rest)
}

/// Returns the cosine and the sine of pi y / 2 for y within 1 of 0.
#[inline(always)]
pub(super) fn cosine_sine<L: Lanes>(y: L::Single) -> (L::Single, L::Single) {
    let square = L::multiply_singles(y, y);
    let sine = L::multiply_singles(y, polynomial::<L, 5>(&SINE, square));
    let cosine = polynomial::<L, 5>(&COSINE, square);
    let cosine = L::fma_singles(cosine, square, L::splat_single(1.0));
    (cosine, sine)
}

/// Returns the two normals of two words.
#[inline(always)]
pub(super) fn normals<L: Lanes>(
    a: L::Half,
    b: L::Half,
    location: f32,
    scale: f32,
) -> (L::Single, L::Single) {
    let radius = L::sqrt_singles(minus_two_log::<L>(odd::<L>(a)));
    let over = L::shift_half_left::<31>(b);
    let radius = L::singles(L::xor_halves(L::single_bits(radius), over));
    let radius = L::multiply_singles(L::splat_single(scale), radius);
    let fraction = L::shift_half_right::<9>(b);
    let two_to_four = L::singles(L::or_halves(fraction, L::splat_half(TWO)));
    let (cosine, sine) = cosine_sine::<L>(L::add_singles(two_to_four, L::splat_single(-3.0)));
    let location = L::splat_single(location);
    (
        L::fma_singles(radius, cosine, location),
        L::fma_singles(radius, sine, location),
    )
}

/// Returns the uniform of a word: `low + width * u`, where u is a multiple of 2^-23 from 0 to below 1.
#[inline(always)]
pub(super) fn uniform<L: Lanes>(word: L::Half, low: f32, width: f32) -> L::Single {
    let fraction = L::shift_half_right::<9>(word);
    let one_to_two = L::singles(L::or_halves(fraction, L::splat_half(ONE)));
    let u = L::add_singles(one_to_two, L::splat_single(-1.0));
    L::fma_singles(u, L::splat_single(width), L::splat_single(low))
}
