//! Byte arrays of a page, as places in one buffer.

use bytes::Bytes;

use crate::delta::Delta;
use crate::error::{PageError, Result};
use crate::header::PageEncoding;

/// Byte arrays: where each begins in `bytes`, and its length.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    pub(crate) bytes: Bytes,
    pub(crate) places: Vec<(u32, u32)>,
}

impl Slices {
    /// Returns the array at a place.
    pub(crate) fn get(&self, place: (u32, u32)) -> &[u8] {
        let (start, length) = (place.0 as usize, place.1 as usize);
        self.bytes.get(start..start + length).unwrap_or_default()
    }

    /// Reads `num_values` arrays; those that share beginnings may take `bytes_max` together.
    pub(crate) fn read(
        &mut self,
        encoding: PageEncoding,
        bytes: Bytes,
        num_values: usize,
        bytes_max: u64,
    ) -> Result<()> {
        self.places.clear();
        // Places are 32 bits; pages are not longer than 31.
        if bytes.len() > i32::MAX as usize {
            return Err(PageError::damaged("a page beyond 2 GiB"));
        }
        match encoding {
            PageEncoding::Plain => self.read_plain(bytes, num_values),
            PageEncoding::DeltaLengthByteArray => self.read_lengths(bytes, num_values),
            PageEncoding::DeltaByteArray => self.read_shared(bytes, num_values, bytes_max),
            other => Err(PageError::unsupported(format!("byte arrays as {other:?}"))),
        }
    }

    fn read_plain(&mut self, bytes: Bytes, num_values: usize) -> Result<()> {
        let mut at = 0;
        self.places.reserve(num_values.min(bytes.len() / 4));
        for _ in 0..num_values {
            let rest = bytes.get(at..).unwrap_or_default();
            let length = u32::from_le_bytes(*rest.first_chunk().ok_or_else(ends)?);
            if length as usize > rest.len() - 4 {
                return Err(ends());
            }
            self.places.push((at as u32 + 4, length));
            at += 4 + length as usize;
        }
        self.bytes = bytes;
        Ok(())
    }

    fn read_lengths(&mut self, bytes: Bytes, num_values: usize) -> Result<()> {
        let mut lengths = Delta::new(bytes, 32)?;
        if lengths.left() != num_values {
            return Err(ends());
        }
        let mut place = 0_u64;
        let places = &mut self.places;
        each_length(&mut lengths, |length| {
            places.push((place as u32, length));
            place += u64::from(length);
            // Before it can leave 32 bits.
            match place > i32::MAX as u64 {
                true => Err(ends()),
                false => Ok(()),
            }
        })?;
        self.bytes = lengths.rest();
        match place <= self.bytes.len() as u64 {
            true => Ok(()),
            false => Err(ends()),
        }
    }

    fn read_shared(&mut self, bytes: Bytes, num_values: usize, bytes_max: u64) -> Result<()> {
        let mut prefixes = Delta::new(bytes, 32)?;
        if prefixes.left() != num_values {
            return Err(ends());
        }
        let mut shared = Vec::with_capacity(num_values.min(1 << 16));
        each_length(&mut prefixes, |length| {
            shared.push(length);
            Ok(())
        })?;
        let mut suffixes = Self::default();
        suffixes.read_lengths(prefixes.rest(), num_values)?;
        let mut joined: Vec<u8> = Vec::with_capacity(suffixes.bytes.len());
        let mut last = 0..0;
        for (prefix, place) in shared.into_iter().zip(&suffixes.places) {
            let (prefix, suffix) = (prefix as usize, suffixes.get(*place));
            if prefix > last.len() {
                return Err(PageError::damaged(
                    "a string shares more than there is before it",
                ));
            }
            let start = joined.len();
            let bytes = (start + prefix + suffix.len()) as u64;
            if bytes > bytes_max || bytes > i32::MAX as u64 {
                return Err(PageError::TooLarge {
                    bytes,
                    limit: bytes_max,
                });
            }
            joined.extend_from_within(last.start..last.start + prefix);
            joined.extend_from_slice(suffix);
            last = start..joined.len();
            self.places.push((start as u32, last.len() as u32));
        }
        self.bytes = Bytes::from(joined);
        Ok(())
    }
}

/// Reads all lengths; none is negative.
fn each_length(lengths: &mut Delta, mut visit: impl FnMut(u32) -> Result<()>) -> Result<()> {
    let mut some = [0; 256];
    while lengths.left() > 0 {
        let now = lengths.left().min(some.len());
        lengths.read(&mut some[..now])?;
        for length in &some[..now] {
            // They are 32 bits, and lengths beyond 31 do not fit in a page.
            let length = i32::try_from(*length).ok();
            let length = length.and_then(|length| u32::try_from(length).ok());
            visit(length.ok_or_else(ends)?)?;
        }
    }
    Ok(())
}

fn ends() -> PageError {
    PageError::damaged("a page ends within its strings")
}

#[cfg(test)]
mod tests;
