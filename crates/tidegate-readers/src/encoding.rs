//! Which characters bytes stand for.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::SniffError;
use crate::sample::Sample;

/// The share of zero bytes at odd or even places from which bytes are UTF-16, in 16ths.
const ZEROS: usize = 8;

/// An encoding of text.
#[derive(Clone, Copy, PartialEq)]
pub enum Encoding {
    /// UTF-8, read as it is; a byte order mark is left out.
    Utf8,
    /// Any other, which is made UTF-8 first.
    Other(&'static encoding_rs::Encoding),
}

impl fmt::Debug for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| D::Error::custom("no encoding of this name"))
    }
}

impl Encoding {
    /// Finds an encoding by one of its names, such as `latin-1` or `windows-1252`.
    pub fn named(name: &str) -> Option<Self> {
        let label = match name.trim().to_ascii_lowercase().as_str() {
            "utf8" | "utf-8" | "utf8-bom" | "utf-8-bom" | "utf-8-sig" => return Some(Self::Utf8),
            "latin-1" | "latin 1" | "iso_8859_1" => "iso-8859-1".into(),
            "utf-16-le" | "utf16-le" | "utf16le" => "utf-16le".into(),
            "utf-16-be" | "utf16-be" | "utf16be" => "utf-16be".into(),
            "utf16" | "utf_16" => "utf-16".into(),
            "cp1252" | "windows_1252" => "windows-1252".into(),
            other => other.replace('_', "-"),
        };
        let found = encoding_rs::Encoding::for_label(label.as_bytes())?;
        Some(match found == encoding_rs::UTF_8 {
            true => Self::Utf8,
            false => Self::Other(found),
        })
    }

    /// Tells whether each byte below 128 is a character of ASCII, wherever it stands.
    pub(crate) fn is_cuttable(self) -> bool {
        match self {
            Self::Utf8 => true,
            Self::Other(encoding) => encoding.is_single_byte() && encoding.is_ascii_compatible(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Other(encoding) => encoding.name(),
        }
    }

    /// Finds the encoding of a file: by its mark, by the places of zero bytes, by whether it is UTF-8; what
    /// is none of these is Windows-1252, of which Latin-1 is a part.
    ///
    /// # Errors
    /// [`SniffError::NotText`] for zero bytes that are not those of UTF-16.
    pub fn of(sample: &Sample) -> Result<Self, SniffError> {
        let head = sample.pieces.first().map_or(&[][..], |head| &head.bytes);
        if let Some((found, _)) = encoding_rs::Encoding::for_bom(head) {
            return Ok(match found == encoding_rs::UTF_8 {
                true => Self::Utf8,
                false => Self::Other(found),
            });
        }
        let pairs = head.len() / 2;
        let zeros = |at: usize| head.iter().skip(at).step_by(2).filter(|b| **b == 0).count();
        let (even, odd) = (zeros(0), zeros(1));
        if even + odd > 0 {
            if odd * 16 > pairs * ZEROS && even * 16 < pairs {
                return Ok(Self::Other(encoding_rs::UTF_16LE));
            }
            if even * 16 > pairs * ZEROS && odd * 16 < pairs {
                return Ok(Self::Other(encoding_rs::UTF_16BE));
            }
            let begin: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
            return Err(SniffError::NotText(format!(
                "it has zero bytes, and begins with {}",
                begin.join(" ")
            )));
        }
        let is_utf8 = sample
            .pieces
            .iter()
            .all(|piece| is_utf8(&piece.bytes, piece.offset > 0, !piece.is_last));
        Ok(match is_utf8 {
            true => Self::Utf8,
            false => Self::Other(encoding_rs::WINDOWS_1252),
        })
    }
}

/// Tells whether a piece is UTF-8, which may begin or end within a character.
fn is_utf8(bytes: &[u8], may_begin_within: bool, may_end_within: bool) -> bool {
    let mut bytes = bytes;
    if may_begin_within {
        let within = |byte: &u8| byte & 0xc0 == 0x80;
        let skipped = bytes.iter().take(3).take_while(|b| within(b)).count();
        bytes = &bytes[skipped..];
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && may_end_within,
    }
}

/// Makes a stream of bytes UTF-8, and drops a byte order mark.
pub struct Transcoder {
    encoding: Encoding,
    decoder: Option<encoding_rs::Decoder>,
    is_at_start: bool,
    mark: Vec<u8>,
}

impl fmt::Debug for Transcoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transcoder")
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

/// UTF-8's byte order mark.
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Transcoder {
    /// Makes a transcoder for bytes from a file's start, or from within it.
    pub fn new(encoding: Encoding, is_at_start: bool) -> Self {
        let decoder = match encoding {
            Encoding::Utf8 => None,
            Encoding::Other(other) if is_at_start => Some(other.new_decoder_with_bom_removal()),
            Encoding::Other(other) => Some(other.new_decoder_without_bom_handling()),
        };
        Self {
            encoding,
            decoder,
            is_at_start,
            mark: Vec::new(),
        }
    }

    /// Returns whether bytes are handed on as they are, but for a mark at the start.
    pub fn is_plain(&self) -> bool {
        self.decoder.is_none()
    }

    /// Adds what the next bytes stand for to `text`; `is_end` if none come after them.
    pub fn push(&mut self, bytes: &[u8], is_end: bool, text: &mut Vec<u8>) {
        let Some(decoder) = &mut self.decoder else {
            return self.push_plain(bytes, is_end, text);
        };
        let needed = decoder
            .max_utf8_buffer_length(bytes.len())
            .unwrap_or(bytes.len().saturating_mul(3).saturating_add(16));
        let start = text.len();
        text.resize(start + needed, 0);
        let (_, _, written, _) = decoder.decode_to_utf8(bytes, &mut text[start..], is_end);
        text.truncate(start + written);
    }

    fn push_plain(&mut self, bytes: &[u8], is_end: bool, text: &mut Vec<u8>) {
        if !self.is_at_start {
            return text.extend_from_slice(bytes);
        }
        self.mark.extend_from_slice(bytes);
        if self.mark.len() < MARK.len() && !is_end {
            return;
        }
        self.is_at_start = false;
        let mark = std::mem::take(&mut self.mark);
        text.extend_from_slice(mark.strip_prefix(&MARK).unwrap_or(&mark));
    }
}

#[cfg(test)]
mod tests;
