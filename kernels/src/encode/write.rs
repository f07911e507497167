//! Values written as raw values, by the widest instructions that the machine has, and what is seen
//! of them on the way.
//!
//! Each loop is written once and compiled for each set of instructions.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

use arrow_buffer::ToByteSlice;

use super::lines::{Look, Looked, write_lines};
use super::native::{BLOCK, Native};
use super::survey::Divisor;
use crate::host::simd::Simd;

/// Who reads next what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Some thread of this host.
    Host,
    /// A device, which copies from memory: a cache would only be in between.
    Device,
}

/// What was seen of values that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Not 0 if a value does not fit.
    pub(super) beyond: u64,
    /// The least raw value; of floats nothing.
    pub(super) least: u64,
    /// The greatest raw value; of floats the bits of the greatest size.
    pub(super) greatest: u64,
}

impl Seen {
    pub(crate) const NOTHING: Self = Self {
        beyond: 0,
        least: u64::MAX,
        greatest: 0,
    };

    pub(crate) fn add(&mut self, other: Self) {
        self.beyond |= other.beyond;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
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
    instructions: Simd,
    values: &[N],
    width: u32,
    scale: Scale,
    (into, reader): (&mut [u8], Reader),
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
        _ if reader == Reader::Device && scale.divisor.is_one() => {
            let base = scale.base;
            let look = move |value: N| {
                let word = value.word().wrapping_sub(base);
                Look {
                    bytes: word.to_le_bytes(),
                    least: word,
                    greatest: word,
                    beyond: value.beyond(),
                }
            };
            let seen_of = |looked: Looked<u64>| Seen {
                beyond: looked.beyond,
                least: looked.least,
                greatest: looked.greatest,
            };
            let rest = |values: &[N], into: &mut [u8]| {
                narrow_to::<N, u64, 8>(instructions, values, scale, into)
            };
            write_lines::<_, _, 8, 8>(instructions, values, into, look, seen_of, rest)
        }
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
    instructions: Simd,
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
    instructions: Simd,
    values: &[N],
    raw: impl Fn(N) -> u64,
    into: &mut [u8],
) -> Seen {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 if instructions.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { narrow_avx512::<N, R, WIDTH>(values, raw, into) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 if instructions.is_here() => {
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
    }
}

/// A float's bits, as a signed integer of its width: without the sign they are ordered as the sizes are,
/// the infinities and NaN above all.
pub(super) trait FloatBits<const WIDTH: usize>: arrow_buffer::ArrowNativeType {
    type Bits: Copy + Ord;
    const ZERO: Self::Bits;
    /// Returns the bits without the sign.
    fn size(self) -> Self::Bits;
    fn bytes(self) -> [u8; WIDTH];
    /// Returns a size as a word.
    fn word(size: Self::Bits) -> u64;
    /// Returns the size whose bits these are.
    fn of_size(bits: u64) -> f64;
}

macro_rules! float_bits {
    ($($float:ty, $bits:ty: $width:literal),*) => {$(
        impl FloatBits<$width> for $float {
            type Bits = $bits;
            const ZERO: $bits = 0;

            #[inline(always)]
            fn size(self) -> $bits {
                self.to_bits().cast_signed() & <$bits>::MAX
            }

            #[inline(always)]
            fn bytes(self) -> [u8; $width] {
                self.to_le_bytes()
            }

            fn word(size: $bits) -> u64 {
                u64::from(size.cast_unsigned())
            }

            fn of_size(bits: u64) -> f64 {
                f64::from(Self::from_bits(bits as _))
            }
        }
    )*};
}

float_bits!(f64, i64: 8, f32, i32: 4);

/// Writes bytes that lie in a near cache to memory that nobody here will read. The system's copy does not
/// fetch a cache line that it overwrites as a whole, as stores do, which is a third of the traffic.
#[inline(always)]
fn put(from: &[u8], into: &mut [u8]) {
    into.copy_from_slice(from);
}

/// Writes a block of floats as they are; of `LANES` values a line is made.
///
/// # Panics
/// If `into` has not room for exactly the values.
pub(super) fn copy<T: FloatBits<WIDTH>, const WIDTH: usize, const LANES: usize>(
    instructions: Simd,
    values: &[T],
    (into, reader): (&mut [u8], Reader),
    seen: &mut Seen,
) {
    let rest = |values: &[T], into: &mut [u8]| copy_with(instructions, values, into);
    let here = match reader {
        Reader::Host => rest(values, into),
        Reader::Device => {
            let look = |value: T| Look {
                bytes: value.bytes(),
                least: T::ZERO,
                greatest: value.size(),
                beyond: 0,
            };
            let seen_of = |looked: Looked<T::Bits>| seen_of_floats::<T, WIDTH>(looked);
            write_lines::<_, _, WIDTH, LANES>(instructions, values, into, look, seen_of, rest)
        }
    };
    seen.add(here);
}

/// Tells what was seen, of the greatest size.
fn seen_of_floats<T: FloatBits<WIDTH>, const WIDTH: usize>(looked: Looked<T::Bits>) -> Seen {
    Seen {
        greatest: T::word(looked.greatest),
        ..Seen::NOTHING
    }
}

fn copy_with<T: FloatBits<WIDTH>, const WIDTH: usize>(
    instructions: Simd,
    values: &[T],
    into: &mut [u8],
) -> Seen {
    assert!(into.len() == values.len() * WIDTH);
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 if instructions.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { copy_avx512(values, into) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 if instructions.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { copy_avx2(values, into) }
        }
        _ => copy_loop(values, into),
    }
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
    let mut greatest = T::ZERO;
    for value in values {
        greatest = greatest.max(value.size());
    }
    put(values.to_byte_slice(), into);
    seen_of_floats::<T, WIDTH>(Looked {
        least: T::ZERO,
        greatest,
        beyond: 0,
    })
}

#[cfg(test)]
mod tests;
