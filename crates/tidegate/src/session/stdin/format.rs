//! The format of an input, from its first bytes.

use crate::error::{Error, ErrorKind};

/// Compressed formats, by their first bytes, and what decompresses them.
const COMPRESSED: [(&[u8], &str, &str); 4] = [
    (&[0x1f, 0x8b], "gzip", "gunzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "Zstandard", "unzstd"),
    (b"BZh", "bzip2", "bunzip2"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "unxz"),
];

/// What an input holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
    /// Objects of JSON, in an array or one after the other.
    Json,
    /// Lines of values.
    Csv,
    /// Something compressed: its name, and what decompresses it.
    Compressed(&'static str, &'static str),
}

impl Format {
    /// Finds the format of an input, of which `head` is the beginning, and not empty.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for bytes that are neither of a known format nor text.
    pub(super) fn of(name: &str, head: &[u8]) -> Result<Self, Error> {
        if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
            return Ok(Self::Parquet);
        }
        if head.starts_with(b"ARROW1") || head.starts_with(&[0xff; 4]) {
            return Ok(Self::Arrow);
        }
        let compressed = COMPRESSED
            .iter()
            .find(|(magic, ..)| head.starts_with(magic));
        if let Some((_, format, program)) = compressed {
            return Ok(Self::Compressed(format, program));
        }
        if head.contains(&0) {
            let message = format!(
                "'{name}' is neither CSV, JSON, Parquet nor Arrow: it begins with {:02x?}",
                &head[..head.len().min(8)]
            );
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        let text = head
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(head)
            .trim_ascii_start();
        Ok(match text.first() {
            Some(b'{' | b'[') => Self::Json,
            _ => Self::Csv,
        })
    }

    /// Returns the ending of files of this format.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for what is compressed.
    pub(super) fn ending(self, name: &str) -> Result<&'static str, Error> {
        Ok(match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Compressed(format, program) => {
                let message = format!(
                    "'{name}' is compressed with {format}: decompress it first, as in {program} -c x \
                     | tidegate …, or name its format in CREATE EXTERNAL TABLE … OPTIONS \
                     ('format.compression' '…')"
                );
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[track_caller]
    fn is(head: &[u8], format: Format) {
        assert_eq!(Format::of("-", head).unwrap(), format);
    }

    #[test]
    fn formats_are_found_from_the_first_bytes() {
        is(b"PAR1\x15\x04", Format::Parquet);
        is(b"ARROW1\0\0", Format::Arrow);
        is(b"\xff\xff\xff\xff\x10\0\0\0", Format::Arrow);
        is(b"{\"a\": 1}\n", Format::Json);
        is(b"\xef\xbb\xbf \n {\"a\": 1}", Format::Json);
        is(b"[{\"a\": 1}]", Format::Json);
        is(b"\x1f\x8b\x08\0", Format::Compressed("gzip", "gunzip"));
        is(b"\xef\xbb\xbfa;b;c\n", Format::Csv);
        assert!(Format::of("-", b"abc\0def").is_err());
    }
}
