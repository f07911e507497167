//! Values written as raw values, by the widest instructions that the machine has, and what is seen
//! of them on the way.
//!
//! Each loop is written once and compiled for each set of instructions.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

use arrow_buffer::ToByteSlice;

use super::native::{BLOCK, Native};
use super::survey::Divisor;

/// Which instructions values are written with; all write the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    Portable,
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Instructions {
    #[cfg(test)]
    pub(super) const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Returns whether this machine has them.
    pub(super) fn are_here(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Returns the widest that this machine has.
    pub(super) fn widest() -> Self {
        if Self::Avx512.are_here() {
            Self::Avx512
        } else if Self::Avx2.are_here() {
            Self::Avx2
        } else {
            Self::Portable
        }
    }
}

/// What was seen of values that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Not 0 if a value does not fit.
    pub(super) beyond: u64,
    /// The least raw value; of floats nothing.
    pub(super) least: u64,
    /// The greatest raw value; of floats the bits of the greatest size.
    pub(super) greatest: u64,
    /// Whether a float is −0.0.
    pub(super) has_negative_zero: bool,
}

impl Seen {
    pub(super) const NOTHING: Self = Self {
        beyond: 0,
        least: u64::MAX,
        greatest: 0,
        has_negative_zero: false,
    };

    fn add(&mut self, other: Self) {
        self.beyond |= other.beyond;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        self.has_negative_zero |= other.has_negative_zero;
    }
}

/// Where raw values begin, and what they are divided by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) base: u64,
    pub(super) divisor: Divisor,
}

/// A raw value of so many bytes.
trait Raw<const WIDTH: usize>: Copy + Ord {
    const LEAST: Self;
    const GREATEST: Self;
    fn of(word: u64) -> Self;
    fn word(self) -> u64;
    fn bytes(self) -> [u8; WIDTH];
}

macro_rules! raw {
    ($($raw:ty: $width:literal),*) => {$(
        impl Raw<$width> for $raw {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            #[inline(always)]
            fn of(word: u64) -> Self {
                word as Self
            }

            #[inline(always)]
            fn word(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn bytes(self) -> [u8; $width] {
                self.to_le_bytes()
            }
        }
    )*};
}

raw!(u8: 1, u16: 2, u32: 4, u64: 8);

/// Writes a block of at most [`BLOCK`] values as raw values of `width` bytes, 0, 1, 2, 4 or 8.
///
/// # Panics
/// If `into` has not room for exactly the values.
pub(super) fn narrow<N: Native>(
    instructions: Instructions,
    values: &[N],
    width: u32,
    scale: Scale,
    into: &mut [u8],
    seen: &mut Seen,
) {
    assert!(values.len() <= BLOCK && into.len() == values.len() * width as usize);
    let here = match width {
        0 => {
            // A constant is only looked at.
            let mut unused = [0; BLOCK];
            let into = &mut unused[..values.len()];
            let mut here = narrow_to::<N, u8, 1>(instructions, values, scale, into);
            here.beyond |= here.greatest;
            here
        }
        1 => narrow_to::<N, u8, 1>(instructions, values, scale, into),
        2 => narrow_to::<N, u16, 2>(instructions, values, scale, into),
        4 => narrow_to::<N, u32, 4>(instructions, values, scale, into),
        _ => {
            let mut near = [0; 8 * BLOCK];
            let near = &mut near[..into.len()];
            let here = narrow_to::<N, u64, 8>(instructions, values, scale, near);
            put(near, into);
            here
        }
    };
    seen.add(here);
}

fn narrow_to<N: Native, R: Raw<WIDTH>, const WIDTH: usize>(
    instructions: Instructions,
    values: &[N],
    scale: Scale,
    into: &mut [u8],
) -> Seen {
    if scale.divisor.is_one() {
        let raw = |value: N| value.word().wrapping_sub(scale.base);
        return narrow_with::<N, R, WIDTH>(instructions, values, raw, into);
    }
    let raw = |value: N| {
        scale
            .divisor
            .quotient(value.word().wrapping_sub(scale.base))
    };
    narrow_with::<N, R, WIDTH>(instructions, values, raw, into)
}

fn narrow_with<N: Native, R: Raw<WIDTH>, const WIDTH: usize>(
    instructions: Instructions,
    values: &[N],
    raw: impl Fn(N) -> u64,
    into: &mut [u8],
) -> Seen {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 if instructions.are_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { narrow_avx512::<N, R, WIDTH>(values, raw, into) }
        }
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 if instructions.are_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { narrow_avx2::<N, R, WIDTH>(values, raw, into) }
        }
        _ => narrow_loop::<N, R, WIDTH>(values, raw, into),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
fn narrow_avx512<N: Native, R: Raw<WIDTH>, const WIDTH: usize>(
    values: &[N],
    raw: impl Fn(N) -> u64,
    into: &mut [u8],
) -> Seen {
    narrow_loop::<N, R, WIDTH>(values, raw, into)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn narrow_avx2<N: Native, R: Raw<WIDTH>, const WIDTH: usize>(
    values: &[N],
    raw: impl Fn(N) -> u64,
    into: &mut [u8],
) -> Seen {
    narrow_loop::<N, R, WIDTH>(values, raw, into)
}

#[inline(always)]
fn narrow_loop<N: Native, R: Raw<WIDTH>, const WIDTH: usize>(
    values: &[N],
    raw: impl Fn(N) -> u64,
    into: &mut [u8],
) -> Seen {
    let mut beyond = 0;
    let (mut least, mut greatest) = (R::GREATEST, R::LEAST);
    let (places, _) = into.as_chunks_mut::<WIDTH>();
    for (place, value) in places.iter_mut().zip(values) {
        let word = raw(*value);
        let raw = R::of(word);
        beyond |= value.beyond() | (word ^ raw.word());
        least = least.min(raw);
        greatest = greatest.max(raw);
        *place = raw.bytes();
    }
    if values.is_empty() {
        return Seen::NOTHING;
    }
    Seen {
        beyond,
        least: least.word(),
        greatest: greatest.word(),
        has_negative_zero: false,
    }
}

/// A float's bits, ordered without their sign as the sizes are: the infinities and NaN above all.
pub(super) trait FloatBits<const WIDTH: usize>: arrow_buffer::ArrowNativeType {
    /// Returns the bits without the sign, which order as signed words do too.
    fn size(self) -> i64;
    /// Returns whether this is −0.0.
    fn is_negative_zero(self) -> bool;
    /// Returns the size whose bits these are.
    fn of_size(bits: u64) -> f64;
}

impl FloatBits<8> for f64 {
    #[inline(always)]
    fn size(self) -> i64 {
        (self.to_bits() & (u64::MAX >> 1)) as i64
    }

    #[inline(always)]
    fn is_negative_zero(self) -> bool {
        self.to_bits() == 1 << 63
    }

    fn of_size(bits: u64) -> f64 {
        Self::from_bits(bits)
    }
}

impl FloatBits<4> for f32 {
    #[inline(always)]
    fn size(self) -> i64 {
        i64::from(self.to_bits() & (u32::MAX >> 1))
    }

    #[inline(always)]
    fn is_negative_zero(self) -> bool {
        self.to_bits() == 1 << 31
    }

    fn of_size(bits: u64) -> f64 {
        f64::from(Self::from_bits(bits as u32))
    }
}

/// Writes bytes that lie in a near cache to memory that nobody here will read. The system's copy does not
/// fetch a cache line that it overwrites as a whole, as stores do, which is a third of the traffic.
#[inline(always)]
fn put(from: &[u8], into: &mut [u8]) {
    into.copy_from_slice(from);
}

/// Writes a block of floats as they are.
///
/// # Panics
/// If `into` has not room for exactly the values.
pub(super) fn copy<T: FloatBits<WIDTH>, const WIDTH: usize>(
    instructions: Instructions,
    values: &[T],
    into: &mut [u8],
    seen: &mut Seen,
) {
    assert!(into.len() == values.len() * WIDTH);
    let here = match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 if instructions.are_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { copy_avx512(values, into) }
        }
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 if instructions.are_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { copy_avx2(values, into) }
        }
        _ => copy_loop(values, into),
    };
    seen.add(here);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
fn copy_avx512<T: FloatBits<WIDTH>, const WIDTH: usize>(values: &[T], into: &mut [u8]) -> Seen {
    copy_loop(values, into)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn copy_avx2<T: FloatBits<WIDTH>, const WIDTH: usize>(values: &[T], into: &mut [u8]) -> Seen {
    copy_loop(values, into)
}

#[inline(always)]
fn copy_loop<T: FloatBits<WIDTH>, const WIDTH: usize>(values: &[T], into: &mut [u8]) -> Seen {
    let mut greatest = 0_i64;
    let mut has_negative_zero = false;
    for value in values {
        greatest = greatest.max(value.size());
        has_negative_zero |= value.is_negative_zero();
    }
    put(values.to_byte_slice(), into);
    Seen {
        greatest: greatest as u64,
        has_negative_zero,
        ..Seen::NOTHING
    }
}

#[cfg(test)]
mod tests {
    use super::{Divisor, Instructions, Scale, Seen, copy, narrow};

    fn scale(base: i64, factor: u64) -> Scale {
        Scale {
            base: base as u64,
            divisor: Divisor::new(factor),
        }
    }

    /// Narrows with all instructions of this machine, which must agree, and returns what was seen.
    fn narrowed(values: &[i128], width: u32, scale: Scale) -> (Vec<u8>, Seen) {
        let with = |instructions| {
            let mut bytes = vec![0; values.len() * width as usize];
            let mut seen = Seen::NOTHING;
            narrow(instructions, values, width, scale, &mut bytes, &mut seen);
            (bytes, seen)
        };
        let portable = with(Instructions::Portable);
        for instructions in Instructions::ALL {
            if instructions.are_here() {
                assert_eq!(with(instructions), portable, "{instructions:?}");
            }
        }
        portable
    }

    #[test]
    fn what_does_not_fit_is_seen() {
        for len in [1, 7, 8, 63, 64, 65, 2048] {
            for (width, greatest) in [(1, 0xff), (2, 0xffff), (4, 0xffff_ffff)] {
                let mut values = vec![5_i128; len];
                values[len / 2] = greatest + 3;
                let (bytes, seen) = narrowed(&values, width, scale(3, 1));
                assert_eq!((seen.beyond, seen.greatest), (0, greatest as u64), "{len}");
                assert_eq!(bytes[0], if len == 1 { 0xff } else { 2 });
                for bad in [greatest + 4, 2, -1, i128::MAX, i128::MIN, 1 << 64] {
                    values[len / 2] = bad;
                    let (_, seen) = narrowed(&values, width, scale(3, 1));
                    assert_ne!(seen.beyond, 0, "{bad} in {width} bytes");
                }
            }
        }
    }

    #[test]
    fn what_is_no_multiple_is_beyond_the_limit() {
        let values = [100, 400, 2500];
        let (bytes, seen) = narrowed(&values, 1, scale(100, 100));
        assert_eq!(bytes, [0, 3, 24]);
        assert_eq!((seen.beyond, seen.least, seen.greatest), (0, 0, 24));
        let (_, seen) = narrowed(&[100, 450], 1, scale(100, 100));
        assert_ne!(seen.beyond, 0);
        let (_, seen) = narrowed(&[100, 450], 8, scale(100, 100));
        assert!(seen.greatest > Divisor::new(100).limit);
    }

    #[test]
    fn a_constant_is_one() {
        assert_eq!(narrowed(&[7; 40], 0, scale(7, 1)).1.beyond, 0);
        assert_ne!(narrowed(&[7, 7, 8], 0, scale(7, 1)).1.beyond, 0);
        assert_ne!(narrowed(&[7, 6], 0, scale(7, 1)).1.beyond, 0);
        assert_eq!(narrowed(&[], 0, scale(7, 1)).1, Seen::NOTHING);
    }

    #[test]
    fn special_floats_are_seen() {
        let seen_of = |values: &[f64]| {
            let mut told = None;
            for instructions in Instructions::ALL {
                let mut bytes = vec![0; values.len() * 8];
                let mut seen = Seen::NOTHING;
                copy(instructions, values, &mut bytes, &mut seen);
                let (words, _) = bytes.as_chunks::<8>();
                for (word, value) in words.iter().zip(values) {
                    assert_eq!(f64::from_le_bytes(*word).to_bits(), value.to_bits());
                }
                assert_eq!(*told.get_or_insert(seen), seen, "{instructions:?}");
            }
            told.unwrap()
        };
        let mut values = vec![1.5; 100];
        values[70] = -2.5;
        let seen = seen_of(&values);
        assert_eq!(f64::from_bits(seen.greatest), 2.5);
        assert!(!seen.has_negative_zero);
        values[99] = -0.0;
        assert!(seen_of(&values).has_negative_zero);
        values[3] = f64::NEG_INFINITY;
        assert_eq!(f64::from_bits(seen_of(&values).greatest), f64::INFINITY);
        values[4] = -f64::NAN;
        assert!(f64::from_bits(seen_of(&values).greatest).is_nan());
    }
}
