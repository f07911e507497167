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
mod tests {
    use super::super::lines::settle;
    use super::{Divisor, FloatBits, Reader, Scale, Seen, Simd, copy, narrow};

    fn scale(base: i64, factor: u64) -> Scale {
        Scale {
            base: base as u64,
            divisor: Divisor::new(factor),
        }
    }

    /// Writes with all instructions of this machine and for both readers, from several places of a cache
    /// line on. All must agree, and write nothing else; returns what was written and seen.
    fn agreed(
        num_bytes: usize,
        write: impl Fn(Simd, &mut [u8], Reader) -> Seen,
    ) -> (Vec<u8>, Seen) {
        let mut told: Option<(Vec<u8>, Seen)> = None;
        for instructions in Simd::ALL {
            for reader in [Reader::Host, Reader::Device] {
                for shift in [0, 4, 8, 3, 56] {
                    let mut room = vec![0xa5; num_bytes + 256];
                    let start = room.as_ptr().align_offset(64) + shift;
                    let seen = write(instructions, &mut room[start..start + num_bytes], reader);
                    settle();
                    let others = room[..start].iter().chain(&room[start + num_bytes..]);
                    assert!(others.into_iter().all(|byte| *byte == 0xa5));
                    let here = (room[start..start + num_bytes].to_vec(), seen);
                    let what = format!("{instructions:?} {reader:?} {shift}");
                    assert_eq!(*told.get_or_insert_with(|| here.clone()), here, "{what}");
                }
            }
        }
        told.unwrap()
    }

    fn narrowed(values: &[i128], width: u32, scale: Scale) -> (Vec<u8>, Seen) {
        agreed(
            values.len() * width as usize,
            |instructions, into, reader| {
                let mut seen = Seen::NOTHING;
                narrow(
                    instructions,
                    values,
                    width,
                    scale,
                    (into, reader),
                    &mut seen,
                );
                seen
            },
        )
    }

    fn copied<T: FloatBits<WIDTH>, const WIDTH: usize, const LANES: usize>(
        values: &[T],
    ) -> (Vec<u8>, Seen) {
        agreed(values.len() * WIDTH, |instructions, into, reader| {
            let mut seen = Seen::NOTHING;
            copy::<T, WIDTH, LANES>(instructions, values, (into, reader), &mut seen);
            seen
        })
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
    fn words_are_written_whole_wherever_they_begin() {
        for len in [0, 1, 7, 8, 9, 15, 16, 17, 64, 2047, 2048] {
            let least = i128::from(i64::MIN);
            let mut values: Vec<i128> = (0..len as i128)
                .map(|row| least + 3 + (row * 7) % 5)
                .collect();
            for place in 0..len {
                values[place] = i128::from(i64::MAX) - 1;
                if place > 40 && place + 40 < len {
                    continue;
                }
                let (bytes, seen) = narrowed(&values, 8, scale(i64::MIN, 1));
                let (words, _) = bytes.as_chunks::<8>();
                for (word, value) in words.iter().zip(&values) {
                    assert_eq!(i128::from(u64::from_le_bytes(*word)), value - least);
                }
                let low = values.iter().min().unwrap() - least;
                assert_eq!((seen.beyond, i128::from(seen.least)), (0, low));
                assert_eq!(seen.greatest, u64::MAX - 1);
                values[place] = i128::from(i64::MAX) + 1;
                let (_, seen) = narrowed(&values, 8, scale(i64::MIN, 1));
                assert_ne!(seen.beyond, 0, "{place} of {len}");
                values[place] = least;
            }
            let (_, seen) = narrowed(&[], 8, scale(i64::MIN, 1));
            assert_eq!(seen, Seen::NOTHING);
        }
    }

    #[test]
    fn special_floats_are_seen() {
        let seen_of = |values: &[f64]| {
            let (bytes, seen) = copied::<f64, 8, 8>(values);
            let (words, _) = bytes.as_chunks::<8>();
            for (word, value) in words.iter().zip(values) {
                assert_eq!(f64::from_le_bytes(*word).to_bits(), value.to_bits());
            }
            let singles: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            let (bytes, of_singles) = copied::<f32, 4, 16>(&singles);
            let (words, _) = bytes.as_chunks::<4>();
            for (word, value) in words.iter().zip(&singles) {
                assert_eq!(f32::from_le_bytes(*word).to_bits(), value.to_bits());
            }
            let sizes = (
                f32::of_size(of_singles.greatest),
                f64::of_size(seen.greatest),
            );
            assert!(sizes.0 == sizes.1 || sizes.0.is_nan() && sizes.1.is_nan());
            seen
        };
        assert_eq!(seen_of(&[]).greatest, 0);
        assert_eq!(seen_of(&[-0.0]).greatest, 0);
        for place in 0..40 {
            let mut values = vec![1.5; 40];
            values[place] = -3.0;
            assert_eq!(seen_of(&values).greatest, 3.0_f64.to_bits(), "{place}");
        }
        let mut values = vec![1.5; 100];
        values[70] = -2.5;
        assert_eq!(f64::from_bits(seen_of(&values).greatest), 2.5);
        values[3] = f64::NEG_INFINITY;
        assert_eq!(f64::from_bits(seen_of(&values).greatest), f64::INFINITY);
        values[4] = -f64::NAN;
        assert!(f64::from_bits(seen_of(&values).greatest).is_nan());
    }
}
