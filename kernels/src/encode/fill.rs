//! Values in which none is NULL: one value stands in the place of all that are.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm256_loadu_si256, _mm256_mask_blend_epi8, _mm256_storeu_si256, _mm512_loadu_si512,
    _mm512_mask_blend_epi16, _mm512_mask_blend_epi32, _mm512_mask_blend_epi64, _mm512_storeu_si512,
    _pdep_u64,
};

use arrow_buffer::ArrowNativeType;

use super::native::BLOCK;
use super::validity::{Stretch, Validity, WORD_ROWS};
use crate::host::simd::Simd;

/// Puts one value in the place of all that are NULL, a block at a time.
pub(super) struct Filler<T> {
    value: T,
    values: Vec<T>,
    /// For each row of a block 0 if it is NULL, else something else.
    is_valid: Vec<u8>,
}

impl<T: ArrowNativeType> Filler<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value,
            values: Vec::new(),
            is_valid: Vec::new(),
        }
    }

    /// Returns the block, whose first row is the chunk's row `first`, without NULLs.
    pub(super) fn fill<'a>(
        &'a mut self,
        instructions: Simd,
        first: usize,
        block: &'a [T],
        validity: &Validity,
    ) -> &'a [T] {
        if !validity.has_null(first..first + block.len()) {
            return block;
        }
        let len = block.len().max(BLOCK);
        self.values.resize(len, self.value);
        self.is_valid.resize(len, 0);
        let into = &mut self.values[..block.len()];
        let is_valid = &mut self.is_valid[..block.len()];
        let rows = Rows { first, block };
        match instructions {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512 if instructions.is_here() => {
                // SAFETY: the machine has the instructions, as was asked just now.
                unsafe { fill_avx512(rows, validity, self.value, is_valid, into) }
            }
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 if instructions.is_here() => {
                // SAFETY: the machine has the instructions, as was asked just now.
                unsafe { fill_avx2(rows, validity, self.value, is_valid, into) }
            }
            _ => fill_loop(rows, validity, self.value, is_valid, into),
        }
        into
    }
}

/// A block, and the chunk's row at which it begins.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    first: usize,
    block: &'a [T],
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
fn fill_avx512<T: ArrowNativeType>(
    rows: Rows<'_, T>,
    validity: &Validity,
    filler: T,
    is_valid: &mut [u8],
    into: &mut [T],
) {
    if !matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16) {
        return fill_loop(rows, validity, filler, is_valid, into);
    }
    let fillers = [filler; WORD_ROWS];
    let (groups, block) = rows.block.as_chunks::<WORD_ROWS>();
    let (places, into) = into.as_chunks_mut::<WORD_ROWS>();
    let mut first = rows.first;
    for (place, group) in places.iter_mut().zip(groups) {
        blend(validity.bits(first), group, &fillers, place);
        first += WORD_ROWS;
    }
    let is_valid = &mut is_valid[..block.len()];
    fill_loop(Rows { first, block }, validity, filler, is_valid, into);
}

/// Takes a value of 1, 2, 4, 8 or 16 bytes where its bit is 1, and else the filler: the bits are the masks of
/// the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
#[inline]
fn blend<T: ArrowNativeType>(
    bits: u32,
    values: &[T; WORD_ROWS],
    fillers: &[T; WORD_ROWS],
    into: &mut [T; WORD_ROWS],
) {
    let (values, fillers): (*const u8, *const u8) =
        (values.as_ptr().cast(), fillers.as_ptr().cast());
    let into: *mut u8 = into.as_mut_ptr().cast();
    // Of two words of a decimal both have its bit.
    let pairs = _pdep_u64(u64::from(bits), 0x5555_5555_5555_5555) * 3;
    let num_vectors = size_of::<T>() * WORD_ROWS / 64;
    for part in 0..num_vectors {
        // SAFETY: a native value is plain bytes, and this part of 64 lies in all three arrays.
        unsafe {
            let value = _mm512_loadu_si512(values.add(64 * part).cast());
            let filler = _mm512_loadu_si512(fillers.add(64 * part).cast());
            let filled = match size_of::<T>() {
                2 => _mm512_mask_blend_epi16(bits, filler, value),
                4 => _mm512_mask_blend_epi32((bits >> (16 * part)) as u16, filler, value),
                8 => _mm512_mask_blend_epi64((bits >> (8 * part)) as u8, filler, value),
                _ => _mm512_mask_blend_epi64((pairs >> (8 * part)) as u8, filler, value),
            };
            _mm512_storeu_si512(into.add(64 * part).cast(), filled);
        }
    }
    if size_of::<T>() == 1 {
        // SAFETY: as above; each of the arrays has 32 bytes.
        unsafe {
            let value = _mm256_loadu_si256(values.cast());
            let filler = _mm256_loadu_si256(fillers.cast());
            _mm256_storeu_si256(into.cast(), _mm256_mask_blend_epi8(bits, filler, value));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2<T: Copy>(
    rows: Rows<'_, T>,
    validity: &Validity,
    filler: T,
    is_valid: &mut [u8],
    into: &mut [T],
) {
    fill_loop(rows, validity, filler, is_valid, into);
}

#[inline(always)]
fn fill_loop<T: Copy>(
    rows: Rows<'_, T>,
    validity: &Validity,
    filler: T,
    is_valid: &mut [u8],
    into: &mut [T],
) {
    for stretch in validity.stretches(rows.first, rows.block.len()) {
        match stretch {
            Stretch::Valid(range) => is_valid[range].fill(1),
            Stretch::Mixed(range, bits) => {
                for (bits, places) in bits
                    .to_le_bytes()
                    .into_iter()
                    .zip(is_valid[range].chunks_mut(8))
                {
                    let spread = spread(bits).to_le_bytes();
                    match places.as_mut_array() {
                        Some(eight) => *eight = spread,
                        None => places.copy_from_slice(&spread[..places.len()]),
                    }
                }
            }
        }
    }
    // Over all of the block, so that it becomes a loop of wide instructions: a branch for each row would
    // be taken at random.
    let values = rows.block.iter().zip(is_valid.iter());
    for (place, (value, is_valid)) in into.iter_mut().zip(values) {
        *place = if *is_valid != 0 { *value } else { filler };
    }
}

/// Returns a byte for each bit, the lowest first, which is not 0 where the bit is 1.
#[inline(always)]
fn spread(bits: u8) -> u64 {
    (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201
}

#[cfg(test)]
mod tests;
