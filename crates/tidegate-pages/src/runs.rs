//! Run lengths and packed bits in turn: Parquet's hybrid encoding of small integers.

use bytes::Bytes;

use crate::error::{PageError, Result};
use crate::unpack::{Code, bits_at, unpack};

/// A cursor over integers in the hybrid encoding.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    bytes: Bytes,
    at: usize,
    width: u32,
    run: Run,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Repeated {
        value: u32,
        left: usize,
    },
    /// The packed values begin at a byte, and so many were read.
    Packed {
        start: usize,
        index: usize,
        left: usize,
    },
}

/// Whether all values that were read so far were repeated ones, and one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniform {
    /// Nothing was read.
    Empty,
    /// This value alone.
    Value(u32),
    /// Others, or packed ones.
    No,
}

impl Uniform {
    fn and(self, value: u32) -> Self {
        match self {
            Self::Empty => Self::Value(value),
            Self::Value(known) if known == value => self,
            _ => Self::No,
        }
    }
}

impl Runs {
    /// Begins at the first run. `width` is at most 32.
    pub(crate) fn new(bytes: Bytes, width: u32) -> Self {
        Self {
            bytes,
            at: 0,
            width,
            run: Run::Repeated { value: 0, left: 0 },
        }
    }

    /// Begins behind the byte that holds the width.
    pub(crate) fn with_width(bytes: Bytes) -> Result<Self> {
        match bytes.first() {
            Some(width @ 0..=32) => Ok(Self::new(bytes.slice(1..), u32::from(*width))),
            // A page without values.
            None => Ok(Self::new(bytes, 0)),
            Some(width) => Err(PageError::damaged(format!("codes of {width} bits"))),
        }
    }

    /// Returns the value that is repeated for at least `n` values from here on.
    pub(crate) fn repeats(&mut self, n: usize) -> Result<Option<u32>> {
        if self.left() == 0 {
            self.next_run()?;
        }
        Ok(match self.run {
            Run::Repeated { value, left } if left >= n => Some(value),
            _ => None,
        })
    }

    /// Reads values, each below `limit`.
    pub(crate) fn read<T: Code>(
        &mut self,
        limit: u32,
        mut out: &mut [T],
        uniform: &mut Uniform,
    ) -> Result<()> {
        while !out.is_empty() {
            match &mut self.run {
                Run::Repeated { left: 0, .. } | Run::Packed { left: 0, .. } => self.next_run()?,
                Run::Repeated { value, left } => {
                    if *value >= limit {
                        return Err(beyond(*value, limit));
                    }
                    let (now, rest) = out.split_at_mut(out.len().min(*left));
                    now.fill(T::truncated(*value));
                    *uniform = uniform.and(*value);
                    *left -= now.len();
                    out = rest;
                }
                Run::Packed { start, index, left } => {
                    let (now, rest) = out.split_at_mut(out.len().min(*left));
                    unpack_below(&self.bytes[*start..], self.width, *index, limit, now)?;
                    *uniform = Uniform::No;
                    *index += now.len();
                    *left -= now.len();
                    out = rest;
                }
            }
        }
        Ok(())
    }

    /// Passes over values; returns how many of them were 1, for values of one bit.
    pub(crate) fn pass(&mut self, mut n: usize) -> Result<usize> {
        let mut ones = 0;
        while n > 0 {
            match &mut self.run {
                Run::Repeated { left: 0, .. } | Run::Packed { left: 0, .. } => self.next_run()?,
                Run::Repeated { value, left } => {
                    let now = n.min(*left);
                    ones += if *value == 1 { now } else { 0 };
                    *left -= now;
                    n -= now;
                }
                Run::Packed { start, index, left } => {
                    let now = n.min(*left);
                    if self.width == 1 {
                        ones += ones_of(&self.bytes[*start..], *index, now);
                    }
                    *index += now;
                    *left -= now;
                    n -= now;
                }
            }
        }
        Ok(ones)
    }

    fn left(&self) -> usize {
        match self.run {
            Run::Repeated { left, .. } | Run::Packed { left, .. } => left,
        }
    }

    fn next_run(&mut self) -> Result<()> {
        let header = self.varint()?;
        let count = (header >> 1) as usize;
        if header & 1 == 0 {
            let width = self.width.div_ceil(8) as usize;
            let value = self.bytes.get(self.at..self.at + width);
            let value = value.ok_or_else(ends)?;
            let value = value
                .iter()
                .rev()
                .fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            self.at += width;
            self.run = Run::Repeated { value, left: count };
            return Ok(());
        }
        let values = count.saturating_mul(8);
        if self.width == 0 {
            self.run = Run::Repeated {
                value: 0,
                left: values,
            };
            return Ok(());
        }
        // Some writers cut the last run where its values end.
        let bytes = self.bytes.len() - self.at;
        let left = values.min(bytes.saturating_mul(8) / self.width as usize);
        if left == 0 && values > 0 {
            return Err(ends());
        }
        self.run = Run::Packed {
            start: self.at,
            index: 0,
            left,
        };
        self.at += count.saturating_mul(self.width as usize).min(bytes);
        Ok(())
    }

    fn varint(&mut self) -> Result<u64> {
        varint(&self.bytes, &mut self.at).ok_or_else(ends)
    }
}

/// Reads a number of up to 64 bits, seven a byte.
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Unpacks values and compares them with the limit.
fn unpack_below<T: Code>(
    bytes: &[u8],
    width: u32,
    index: usize,
    limit: u32,
    out: &mut [T],
) -> Result<()> {
    let most = u32::MAX >> (32 - width);
    if width <= T::BITS {
        unpack(bytes, width, index, out);
        if most >= limit {
            let greatest = greatest(out).widened();
            if greatest >= limit {
                return Err(beyond(greatest, limit));
            }
        }
        return Ok(());
    }
    // Writers may pack wider than they need.
    let mut wide = [0_u32; 64];
    for (part, out) in out.chunks_mut(wide.len()).enumerate() {
        let wide = &mut wide[..out.len()];
        unpack(bytes, width, index + part * 64, wide);
        for (out, value) in out.iter_mut().zip(wide) {
            if *value >= limit {
                return Err(beyond(*value, limit));
            }
            *out = T::truncated(*value);
        }
    }
    Ok(())
}

/// Returns the greatest value, 0 of none; in lanes, which vector instructions compare at once.
fn greatest<T: Code>(values: &[T]) -> T {
    let mut greatest = [T::default(); 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for (lane, value) in greatest.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let lanes = greatest.iter().chain(rest);
    lanes.fold(
        T::default(),
        |most, value| if *value > most { *value } else { most },
    )
}

/// Counts the ones among bits.
fn ones_of(bytes: &[u8], mut index: usize, mut n: usize) -> usize {
    let mut ones = 0;
    while n > 0 {
        let now = n.min(56);
        ones += bits_at(bytes, index, now as u32).count_ones() as usize;
        index += now;
        n -= now;
    }
    ones
}

fn ends() -> PageError {
    PageError::damaged("a page ends within its runs")
}

fn beyond(value: u32, limit: u32) -> PageError {
    PageError::damaged(format!("a page has the code {value}, and {limit} entries"))
}

#[cfg(test)]
mod tests;
