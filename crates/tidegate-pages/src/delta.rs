//! `DELTA_BINARY_PACKED`: differences of integers in packed blocks.
//!
//! A block has the least difference and parts, each packed at a width of its own. Arithmetic is modulo
//! 2^64, of which 32-bit columns keep the lower half.

use bytes::Bytes;

use crate::error::{PageError, Result};
use crate::runs::varint;
use crate::unpack::{bits_at, unpack};

/// Parts that a block may have: writers have 4 or 8.
const PARTS_MAX: u64 = 1 << 10;
/// Values that a part may have.
const PART_VALUES_MAX: u64 = 1 << 20;

/// A cursor over integers.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    bytes: Bytes,
    /// Bits that a difference has at most.
    width_max: u32,
    parts: usize,
    part_values: usize,
    /// Values left, the first included while it was not read.
    left: usize,
    /// The value that comes next if it is the first, else the one that was read last.
    value: i64,
    is_first: bool,
    /// Behind the bytes that were used for blocks.
    at: usize,
    least: i64,
    /// Where the widths of the block's parts lie.
    widths: usize,
    /// Parts of the block that were begun.
    begun: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    start: usize,
    width: u32,
    index: usize,
    left: usize,
}

impl Delta {
    /// Begins at the header, for integers of so many bits.
    pub(crate) fn new(bytes: Bytes, bits: u32) -> Result<Self> {
        let mut at = 0;
        let mut number = || varint(&bytes, &mut at).ok_or_else(ends);
        let (block, parts, count, first) = (number()?, number()?, number()?, number()?);
        let part_values = block.checked_div(parts).unwrap_or(0);
        let is_even = parts > 0 && part_values * parts == block && part_values.is_multiple_of(8);
        if !is_even || part_values == 0 || parts > PARTS_MAX || part_values > PART_VALUES_MAX {
            return Err(PageError::damaged(format!(
                "differences in blocks of {block} in {parts} parts"
            )));
        }
        let left = usize::try_from(count).map_err(|_| ends())?;
        Ok(Self {
            width_max: bits,
            parts: parts as usize,
            part_values: part_values as usize,
            left,
            value: zigzag(first),
            is_first: true,
            at,
            least: 0,
            widths: 0,
            begun: parts as usize,
            part: Part::default(),
            bytes,
        })
    }

    /// Returns how many values are left.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns what lies behind the last value, once all were read.
    pub(crate) fn rest(&self) -> Bytes {
        self.bytes.slice(self.at.min(self.bytes.len())..)
    }

    /// Reads values.
    pub(crate) fn read(&mut self, mut out: &mut [i64]) -> Result<()> {
        if out.len() > self.left {
            return Err(ends());
        }
        self.left -= out.len();
        if self.is_first && !out.is_empty() {
            out[0] = self.value;
            self.is_first = false;
            out = &mut out[1..];
        }
        let mut differences = [0_u32; 64];
        while !out.is_empty() {
            if self.part.left == 0 {
                self.next_part()?;
            }
            let now = out.len().min(self.part.left).min(differences.len());
            let (now, rest) = out.split_at_mut(now);
            let part = self.part;
            let bytes = &self.bytes[part.start.min(self.bytes.len())..];
            if ((part.index + now.len()) * part.width as usize).div_ceil(8) > bytes.len() {
                return Err(ends());
            }
            match part.width {
                0 => now.fill(0),
                width @ 1..=32 => {
                    let differences = &mut differences[..now.len()];
                    unpack(bytes, width, part.index, differences);
                    for (out, difference) in now.iter_mut().zip(differences) {
                        *out = i64::from(*difference);
                    }
                }
                width => {
                    for (index, out) in (part.index..).zip(now.iter_mut()) {
                        *out = wide_at(bytes, index * width as usize, width) as i64;
                    }
                }
            }
            for out in now.iter_mut() {
                self.value = self.value.wrapping_add(self.least).wrapping_add(*out);
                *out = self.value;
            }
            self.part.index += now.len();
            self.part.left -= now.len();
            out = rest;
        }
        Ok(())
    }

    /// Passes over values.
    pub(crate) fn pass(&mut self, mut n: usize) -> Result<()> {
        let mut passed = [0; 256];
        while n > 0 {
            let now = n.min(passed.len());
            self.read(&mut passed[..now])?;
            n -= now;
        }
        Ok(())
    }

    fn next_part(&mut self) -> Result<()> {
        if self.begun == self.parts {
            self.least = zigzag(varint(&self.bytes, &mut self.at).ok_or_else(ends)?);
            self.widths = self.at;
            self.at += self.parts;
            self.begun = 0;
        }
        let width = self.bytes.get(self.widths + self.begun);
        let width = u32::from(*width.ok_or_else(ends)?);
        if width > self.width_max {
            return Err(PageError::damaged(format!("differences of {width} bits")));
        }
        self.begun += 1;
        self.part = Part {
            start: self.at,
            width,
            index: 0,
            left: self.part_values,
        };
        self.at += self.part_values / 8 * width as usize;
        Ok(())
    }
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Returns 33 to 64 bits at a place that is within the bytes.
fn wide_at(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let low = bits_at(bytes, bit, 32);
    low | bits_at(bytes, bit + 32, width - 32) << 32
}

fn ends() -> PageError {
    PageError::damaged("a page ends within its differences")
}

#[cfg(test)]
mod tests;
