//! Words written by whole cache lines, past the caches, for a reader that is not this host: the device
//! copies them from memory.
//!
//! A store fetches the line that it changes, unless it writes all of it past the caches. A value is
//! loaded, looked at and stored in one go, so that reading goes on while lines are written. From memory to
//! memory one core of an AMD EPYC (Zen 5) writes 8-byte integers and doubles at 25 GB/s so; through a near
//! cache and the system's copy it is 13.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256i, __m512i, _mm_sfence, _mm256_stream_si256, _mm512_stream_si512};

use super::write::Seen;
use crate::host::simd::Simd;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

const LINE: usize = 64;

/// What is written of a value, and what is to be known of it: the least `least`, the greatest `greatest`,
/// and all bits of `beyond` of many values.
#[derive(Clone, Copy)]
pub(super) struct Look<B, const WIDTH: usize> {
    pub(super) bytes: [u8; WIDTH],
    pub(super) least: B,
    pub(super) greatest: B,
    pub(super) beyond: u64,
}

/// What was seen of many values.
#[derive(Clone, Copy)]
pub(super) struct Looked<B> {
    pub(super) least: B,
    pub(super) greatest: B,
    pub(super) beyond: u64,
}

/// Writes values as `look` says, `LANES` of them to a line; `seen_of` tells what was seen of these. What is
/// in no whole line of `into`, or all of it where this machine has no instructions for lines, is left to
/// `rest`. Whoever hands the memory on calls [`settle`] before.
pub(super) fn write_lines<V: Copy, B: Copy + Ord, const WIDTH: usize, const LANES: usize>(
    instructions: Simd,
    values: &[V],
    into: &mut [u8],
    look: impl Fn(V) -> Look<B, WIDTH>,
    seen_of: impl Fn(Looked<B>) -> Seen,
    rest: impl Fn(&[V], &mut [u8]) -> Seen,
) -> Seen {
    const { assert!(WIDTH * LANES == LINE) };
    assert!(into.len() == values.len() * WIDTH);
    // SAFETY: a line is bytes, of which all values are lines.
    let (head, lines, tail) = unsafe { into.align_to_mut::<Line>() };
    let (groups, _) = values[head.len() / WIDTH..].as_chunks::<LANES>();
    let is_whole = head.len().is_multiple_of(WIDTH);
    let first = groups.first().filter(|_| is_whole);
    let Some(first) = first.map(|group| look(group[0])) else {
        return rest(values, into);
    };
    let looked = match instructions {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 if instructions.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { write_avx512(groups, lines, first, look) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 if instructions.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { write_avx2(groups, lines, first, look) }
        }
        _ => return rest(values, into),
    };
    let mut seen = seen_of(looked);
    seen.add(rest(&values[..head.len() / WIDTH], head));
    seen.add(rest(&values[values.len() - tail.len() / WIDTH..], tail));
    seen
}

/// Puts everything that was written by lines before whatever this thread does next, as others see it.
pub(super) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        _mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
fn write_avx512<V: Copy, B: Copy + Ord, const WIDTH: usize, const LANES: usize>(
    groups: &[[V; LANES]],
    lines: &mut [Line],
    first: Look<B, WIDTH>,
    look: impl Fn(V) -> Look<B, WIDTH>,
) -> Looked<B> {
    write_loop(groups, lines, first, look, |place, line| {
        // SAFETY: both are 64 bytes of plain data.
        let line = unsafe { std::mem::transmute::<Line, __m512i>(line) };
        // SAFETY: the place is a line, aligned as one, that is borrowed alone; nobody reads it before
        // `settle`.
        unsafe { _mm512_stream_si512((&raw mut *place).cast(), line) };
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn write_avx2<V: Copy, B: Copy + Ord, const WIDTH: usize, const LANES: usize>(
    groups: &[[V; LANES]],
    lines: &mut [Line],
    first: Look<B, WIDTH>,
    look: impl Fn(V) -> Look<B, WIDTH>,
) -> Looked<B> {
    write_loop(groups, lines, first, look, |place, line| {
        // SAFETY: both are 64 bytes of plain data.
        let [low, high] = unsafe { std::mem::transmute::<Line, [__m256i; 2]>(line) };
        let place: *mut __m256i = (&raw mut *place).cast();
        // SAFETY: the place is a line, aligned as one, that is borrowed alone, and these are its halves;
        // nobody reads it before `settle`.
        unsafe {
            _mm256_stream_si256(place, low);
            _mm256_stream_si256(place.add(1), high);
        }
    })
}

#[inline(always)]
fn write_loop<V: Copy, B: Copy + Ord, const WIDTH: usize, const LANES: usize>(
    groups: &[[V; LANES]],
    lines: &mut [Line],
    first: Look<B, WIDTH>,
    look: impl Fn(V) -> Look<B, WIDTH>,
    store: impl Fn(&mut Line, Line),
) -> Looked<B> {
    // One for each lane, so that a line is a few wide instructions.
    let (mut least, mut greatest) = ([first.least; LANES], [first.greatest; LANES]);
    let mut beyond = [0; LANES];
    for (place, group) in lines.iter_mut().zip(groups) {
        let mut line = Line([0; LINE]);
        let (bytes, _) = line.0.as_chunks_mut::<WIDTH>();
        for lane in 0..LANES {
            let seen = look(group[lane]);
            bytes[lane] = seen.bytes;
            least[lane] = least[lane].min(seen.least);
            greatest[lane] = greatest[lane].max(seen.greatest);
            beyond[lane] |= seen.beyond;
        }
        store(place, line);
    }
    Looked {
        least: least.into_iter().fold(first.least, B::min),
        greatest: greatest.into_iter().fold(first.greatest, B::max),
        beyond: beyond.into_iter().fold(0, |all, beyond| all | beyond),
    }
}
