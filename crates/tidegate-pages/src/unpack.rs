//! Integers of any width out of bits, lowest bits first, as Parquet packs them.
//!
//! Eight values of `W` bits are `W` bytes. They are read as words of 64 bits, and their bits spread to
//! lanes by halves: the upper half of what a lane holds is shifted to the middle of the lane, until each
//! lane holds one value. This is the scatter of bits that some processors have an instruction for, in
//! three steps of `and`, `shift`, `or` for all lanes of a word at once.

/// An unsigned integer that codes are kept in.
pub(crate) trait Code: Copy + Default + Ord + Send + Sync + 'static {
    /// Bits of the integer.
    const BITS: u32;

    /// Returns the lowest bits of a value.
    fn truncated(value: u32) -> Self;

    /// Returns the value.
    fn widened(self) -> u32;

    /// Unpacks a multiple of eight values of `width` bits, which is at least 1 and at most `BITS`, from
    /// the beginning of some bytes on. Bits beyond the bytes are 0.
    fn unpack_eights(bytes: &[u8], width: u32, out: &mut [Self]);
}

/// Unpacks values of `width` bits, 1 to `T::BITS`, from the value at `index` on. Bits beyond the bytes
/// are 0.
pub(crate) fn unpack<T: Code>(bytes: &[u8], width: u32, index: usize, out: &mut [T]) {
    // Whole bytes begin at every eighth value.
    let head = (index.wrapping_neg() & 7).min(out.len());
    let (head, rest) = out.split_at_mut(head);
    unpack_each(bytes, width, index, head);
    let index = index + head.len();
    let (eights, tail) = rest.split_at_mut(rest.len() & !7);
    if !eights.is_empty() {
        let at = index / 8 * width as usize;
        T::unpack_eights(bytes.get(at..).unwrap_or_default(), width, eights);
    }
    unpack_each(bytes, width, index + eights.len(), tail);
}

fn unpack_each<T: Code>(bytes: &[u8], width: u32, index: usize, out: &mut [T]) {
    for (index, out) in (index..).zip(out) {
        *out = T::truncated(bits_at(bytes, index * width as usize, width) as u32);
    }
}

/// Returns up to 57 bits at a place; bits beyond the bytes are 0.
pub(crate) fn bits_at(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let word = word_at(bytes, bit / 8) >> (bit % 8);
    match width {
        64.. => word,
        width => word & ((1 << width) - 1),
    }
}

/// Returns eight bytes as a word; zeros stand behind the end.
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        }
    }
}

/// Returns the lowest `width` bits of each lane of `lane` bits set.
const fn lanes(width: usize, lane: usize) -> u64 {
    let one = if width >= 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    };
    let (mut all, mut at) = (0, 0);
    while at < 64 {
        all |= one << at;
        at += lane;
    }
    all
}

/// Moves the upper half of `2 * W` bits in each lane of `2 * LANE` bits to the lane's middle.
#[inline(always)]
fn halve<const W: usize, const LANE: usize>(word: u64) -> u64 {
    let low = const { lanes(W, 2 * LANE) };
    (word & low) | ((word >> W) & low) << LANE
}

#[inline(always)]
fn word(window: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Unpacks groups of eight: `group` takes the bytes from a group's beginning on, at least `N`.
#[inline(always)]
fn each_group<T: Code, const N: usize>(
    bytes: &[u8],
    width: usize,
    out: &mut [T],
    group: impl Fn(&[u8; N], &mut [T; 8]),
) {
    let (groups, _) = out.as_chunks_mut::<8>();
    let whole = match bytes.len() >= N {
        true => groups.len().min((bytes.len() - N) / width + 1),
        false => 0,
    };
    let (whole, last) = groups.split_at_mut(whole);
    let mut at = 0;
    for out in whole {
        if let Some(window) = bytes.get(at..).and_then(|bytes| bytes.first_chunk()) {
            group(window, out);
        }
        at += width;
    }
    for out in last {
        let rest = bytes.get(at..).unwrap_or_default();
        let mut window = [0; N];
        let length = rest.len().min(N);
        window[..length].copy_from_slice(&rest[..length]);
        group(&window, out);
        at += width;
    }
}

fn bytes_of<const W: usize>(bytes: &[u8], out: &mut [u8]) {
    each_group::<u8, 8>(bytes, W, out, |window, out| {
        let word = u64::from_le_bytes(*window);
        let word = halve::<W, 8>(pairs::<W>(fours::<W>(word)));
        *out = word.to_le_bytes();
    });
}

/// Splits eight values of `W` bits into halves of 32 bits.
#[inline(always)]
fn fours<const W: usize>(word: u64) -> u64 {
    let low = const { lanes(4 * W, 64) };
    (word & low) | ((word >> (4 * W)) & low) << 32
}

/// Splits four values of `W` bits in each half into quarters of 16 bits.
#[inline(always)]
fn pairs<const W: usize>(word: u64) -> u64 {
    let low = const { lanes(2 * W, 32) };
    (word & low) | ((word >> (2 * W)) & low) << 16
}

fn shorts_of<const W: usize>(bytes: &[u8], out: &mut [u16]) {
    each_group::<u16, 16>(bytes, W, out, |window, out| {
        let first = word(window, 0);
        let second = word(window, W / 2) >> (4 * W % 8);
        for (half, word) in [first, second].into_iter().enumerate() {
            let low = const { lanes(2 * W, 64) };
            let word = (word & low) | ((word >> (2 * W)) & low) << 32;
            let word = halve::<W, 16>(word);
            for lane in 0..4 {
                out[4 * half + lane] = (word >> (16 * lane)) as u16;
            }
        }
    });
}

fn words_of<const W: usize>(bytes: &[u8], out: &mut [u32]) {
    let mask = const { lanes(W, 64) };
    each_group::<u32, 36>(bytes, W, out, |window, out| {
        for (lane, out) in out.iter_mut().enumerate() {
            let bit = lane * W;
            *out = ((word(window, bit / 8) >> (bit % 8)) & mask) as u32;
        }
    });
}

macro_rules! by_width {
    ($function:ident, $bytes:expr, $width:expr, $out:expr, $($each:literal)*) => {
        match $width {
            $($each => $function::<$each>($bytes, $out),)*
            _ => $out.fill(Default::default()),
        }
    };
}

impl Code for u8 {
    const BITS: u32 = 8;

    #[inline(always)]
    fn truncated(value: u32) -> Self {
        value as Self
    }

    #[inline(always)]
    fn widened(self) -> u32 {
        u32::from(self)
    }

    fn unpack_eights(bytes: &[u8], width: u32, out: &mut [Self]) {
        by_width!(bytes_of, bytes, width, out, 1 2 3 4 5 6 7 8);
    }
}

impl Code for u16 {
    const BITS: u32 = 16;

    #[inline(always)]
    fn truncated(value: u32) -> Self {
        value as Self
    }

    #[inline(always)]
    fn widened(self) -> u32 {
        u32::from(self)
    }

    fn unpack_eights(bytes: &[u8], width: u32, out: &mut [Self]) {
        by_width!(shorts_of, bytes, width, out, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    }
}

impl Code for u32 {
    const BITS: u32 = 32;

    #[inline(always)]
    fn truncated(value: u32) -> Self {
        value
    }

    #[inline(always)]
    fn widened(self) -> u32 {
        self
    }

    fn unpack_eights(bytes: &[u8], width: u32, out: &mut [Self]) {
        by_width!(
            words_of, bytes, width, out,
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
            17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        );
    }
}

#[cfg(test)]
mod tests;
