//! The loops of operations: each over slices of one length, without a branch on the data where that pays.

pub(super) mod arithmetic;
pub(super) mod compare;
pub(super) mod convert;

use super::simd::widest;

/// Computes each value from one.
#[inline(always)]
pub(super) fn map1<A: Copy, R>(a: &[A], to: &mut [R], op: impl Fn(A) -> R) {
    widest(|| {
        for (to, a) in to.iter_mut().zip(a) {
            *to = op(*a);
        }
    });
}

/// Computes each value from two.
#[inline(always)]
pub(super) fn map2<A: Copy, B: Copy, R>(a: &[A], b: &[B], to: &mut [R], op: impl Fn(A, B) -> R) {
    widest(|| {
        for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
            *to = op(*a, *b);
        }
    });
}

/// Takes each value from one of two.
#[inline(always)]
pub(super) fn choose<T: Copy>(condition: &[u8], then: &[T], otherwise: &[T], to: &mut [T]) {
    widest(|| {
        let values = condition.iter().zip(then).zip(otherwise);
        for (to, ((condition, then), otherwise)) in to.iter_mut().zip(values) {
            *to = if *condition != 0 { *then } else { *otherwise };
        }
    });
}

/// Returns how many bytes are 1, of bytes that are 0 or 1.
pub(super) fn count(bytes: &[u8]) -> usize {
    widest(|| {
        let chunks = bytes.chunks(128);
        let counts = chunks.map(|chunk| chunk.iter().fold(0_u8, |sum, byte| sum + (byte & 1)));
        counts.map(usize::from).sum()
    })
}

/// Makes bytes 0 that are 0 in the other.
pub(super) fn both(bytes: &mut [u8], other: &[u8]) {
    widest(|| {
        for (byte, other) in bytes.iter_mut().zip(other) {
            *byte &= other;
        }
    });
}

/// Returns whether a byte of both is 1 in one place.
pub(super) fn any_of_both(one: &[u8], other: &[u8]) -> bool {
    widest(|| {
        one.iter()
            .zip(other)
            .fold(0, |any, (one, other)| any | (one & other))
            != 0
    })
}

/// Writes the places of bytes that are 1, and returns how many there are.
pub(super) fn places(bytes: &[u8], to: &mut [u16]) -> usize {
    let mut count = 0;
    for (place, byte) in bytes.iter().enumerate() {
        if let Some(to) = to.get_mut(count) {
            *to = place as u16;
        }
        count += usize::from(*byte);
    }
    count
}
