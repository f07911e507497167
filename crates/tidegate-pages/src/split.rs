//! `BYTE_STREAM_SPLIT`: the first bytes of all values, then the second ones, and so on.

use bytes::Bytes;

use crate::error::{PageError, Result};

/// Returns the values of a page as `PLAIN` has them, each of `width` bytes.
pub(crate) fn joined(bytes: &Bytes, width: usize) -> Result<Bytes> {
    if width == 0 || !bytes.len().is_multiple_of(width) {
        return Err(PageError::damaged("streams of bytes that differ in length"));
    }
    Ok(Bytes::from(match width {
        4 => joined_by::<4>(bytes),
        8 => joined_by::<8>(bytes),
        _ => {
            let num_values = bytes.len() / width;
            let mut out = vec![0; bytes.len()];
            for (index, value) in out.chunks_exact_mut(width).enumerate() {
                for (byte, out) in value.iter_mut().enumerate() {
                    *out = bytes[byte * num_values + index];
                }
            }
            out
        }
    }))
}

fn joined_by<const WIDTH: usize>(bytes: &[u8]) -> Vec<u8> {
    let num_values = bytes.len() / WIDTH;
    let streams: [&[u8]; WIDTH] =
        std::array::from_fn(|byte| &bytes[byte * num_values..][..num_values]);
    let mut out = vec![0; bytes.len()];
    let (values, _) = out.as_chunks_mut::<WIDTH>();
    for (index, value) in values.iter_mut().enumerate() {
        for (byte, stream) in streams.iter().enumerate() {
            value[byte] = stream[index];
        }
    }
    out
}

#[cfg(test)]
mod tests;
