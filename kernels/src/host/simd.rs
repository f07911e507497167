//! The widest instructions that the machine has, for loops that are written once.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

use arrow_array::StringViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::{Buffer, NullBuffer};

use crate::strings::Dictionary;

pub use crate::random::Simd;

/// Does work, whose loops the compiler turns into the widest instructions of the machine. What the work
/// calls has to be inlined. The compiler inlines short closures only, for others there is [`widest_of`].
#[inline]
pub(super) fn widest<R>(work: impl FnOnce() -> R) -> R {
    widest_of(|()| work(), ())
}

/// Does work on arguments likewise. The work is a function that is marked `#[inline(always)]`.
#[inline]
pub(super) fn widest_of<A, R>(work: impl FnOnce(A) -> R, arguments: A) -> R {
    match Simd::widest() {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => {
            // SAFETY: `Simd::widest` is what the machine has.
            unsafe { on_avx512(work, arguments) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::widest` is what the machine has.
            unsafe { on_avx2(work, arguments) }
        }
        _ => work(arguments),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn on_avx512<A, R>(work: impl FnOnce(A) -> R, arguments: A) -> R {
    work(arguments)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn on_avx2<A, R>(work: impl FnOnce(A) -> R, arguments: A) -> R {
    work(arguments)
}

/// Reads a table by codes.
///
/// # Panics
/// A code is beyond the table.
pub(super) fn gather<C: Code, T: Copy>(codes: &[C], table: &[T], to: &mut [T]) {
    widest_of(gather_checked, (codes, table, to));
}

#[inline(always)]
fn gather_checked<C: Code, T: Copy>((codes, table, to): (&[C], &[T], &mut [T])) {
    let most = codes
        .iter()
        .fold(C::default(), |most, code| most.max(*code));
    assert!(
        codes.is_empty() || most.place() < table.len(),
        "code {} of {} entries",
        most.place(),
        table.len()
    );
    for (to, code) in to.iter_mut().zip(codes) {
        // SAFETY: no code is greater than `most`, which is a place of the table.
        *to = unsafe { *table.get_unchecked(code.place()) };
    }
}

/// Codes of a dictionary.
pub(super) trait Code: Copy + Default + Ord {
    fn place(self) -> usize;
}

macro_rules! codes {
    ($($type:ty),*) => {$(
        impl Code for $type {
            #[inline(always)]
            fn place(self) -> usize {
                self as usize
            }
        }
    )*};
}
codes!(u8, u16, u32);

/// Reads a table of at most 64 integers by codes of a byte, 16 rows at once where the machine can; returns
/// whether it did.
///
/// # Panics
/// A code is beyond the table.
pub(super) fn gather_short(codes: &[u8], table: &[i32], to: &mut [i32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if Simd::widest() == Simd::Avx512 && table.len() <= 64 && to.len() == codes.len() {
        let mut entries = [0; 64];
        entries[..table.len()].copy_from_slice(table);
        // SAFETY: the machine has the instructions, and both slices have one length.
        let most = unsafe { gather_permuted(codes, &entries, to) };
        assert!(
            codes.is_empty() || (most as usize) < table.len(),
            "code {most} of {} entries",
            table.len()
        );
        return true;
    }
    false
}

/// # Safety
/// `to` is as long as `codes`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn gather_permuted(codes: &[u8], table: &[i32; 64], to: &mut [i32]) -> u32 {
    use std::arch::x86_64::{
        _mm_maskz_loadu_epi8, _mm512_cvtepu8_epi32, _mm512_loadu_si512, _mm512_mask_blend_epi32,
        _mm512_mask_storeu_epi32, _mm512_max_epu32, _mm512_permutex2var_epi32,
        _mm512_reduce_max_epu32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_test_epi32_mask,
    };
    // SAFETY: the table has four times 16 integers; what is loaded and stored of rows is masked to those
    // that there are.
    unsafe {
        let part = |index: usize| _mm512_loadu_si512(table.as_ptr().add(16 * index).cast());
        let (a, b, c, d) = (part(0), part(1), part(2), part(3));
        let mut most = _mm512_setzero_si512();
        for at in (0..codes.len()).step_by(16) {
            let rows = match codes.len() - at {
                rows @ ..16 => (1_u16 << rows) - 1,
                _ => u16::MAX,
            };
            let code = _mm_maskz_loadu_epi8(rows, codes.as_ptr().add(at).cast());
            let code = _mm512_cvtepu8_epi32(code);
            let low = _mm512_permutex2var_epi32(a, code, b);
            let high = _mm512_permutex2var_epi32(c, code, d);
            let is_high = _mm512_test_epi32_mask(code, _mm512_set1_epi32(32));
            let entry = _mm512_mask_blend_epi32(is_high, low, high);
            _mm512_mask_storeu_epi32(to.as_mut_ptr().add(at).cast(), rows, entry);
            most = _mm512_max_epu32(most, code);
        }
        _mm512_reduce_max_epu32(most)
    }
}

/// Returns strings as an array over the bytes that they lie in, each with its place and length, without a
/// look at each string; `None` if the bytes are not all ASCII, or a place is beyond them.
pub fn ascii_texts(bytes: Buffer, places: &[(u32, u32)]) -> Option<StringViewArray> {
    if !bytes.is_ascii() {
        return None;
    }
    let view = |place: &(u32, u32)| {
        let (start, length) = (place.0 as usize, place.1 as usize);
        let text = bytes.get(start..start.checked_add(length)?)?;
        let word = bytes[start..].first_chunk();
        Some(match word {
            // The bytes of a short view, those behind the string as zeros.
            Some(word) if length <= 12 => {
                let inline = u128::from_le_bytes(*word) & ((1 << (8 * length)) - 1);
                u128::from(place.1) | inline << 32
            }
            _ => make_view(text, 0, place.0),
        })
    };
    let views = places.iter().map(view).collect::<Option<Vec<u128>>>()?;
    // SAFETY: each view was made of bytes within the one buffer, and ASCII is UTF-8 wherever it is cut.
    Some(unsafe { StringViewArray::new_unchecked(views.into(), vec![bytes], None) })
}

/// Returns the strings of codes as an array; `None` if the long ones do not fit one buffer.
pub(crate) fn coded_texts(
    strings: &Dictionary,
    codes: &[u32],
    nulls: Option<NullBuffer>,
) -> Option<StringViewArray> {
    if nulls
        .as_ref()
        .is_some_and(|nulls| nulls.len() != codes.len())
    {
        return None;
    }
    let mut views = Vec::with_capacity(codes.len());
    let mut long: Vec<u8> = Vec::new();
    for code in codes {
        views.push(match strings.short_view(*code) {
            Some(view) => view,
            None => {
                let text = strings.get(*code as usize).as_bytes();
                let at = long.len();
                long.extend_from_slice(text);
                if long.len() > i32::MAX as usize {
                    return None;
                }
                make_view(text, 0, at as u32)
            }
        });
    }
    let buffers = match long.is_empty() {
        true => Vec::new(),
        false => vec![Buffer::from_vec(long)],
    };
    // SAFETY: a short view is that of a whole string, any other one is of a whole string's bytes in the one buffer;
    // there is a bit of validity for each.
    Some(unsafe { StringViewArray::new_unchecked(views.into(), buffers, nulls) })
}
