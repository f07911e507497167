//! The format of an input, from its first bytes.

use std::collections::HashMap;

use crate::error::{Error, ErrorKind};

/// Delimiters that a first line is searched for; on a tie the first of them is taken.
const DELIMITERS: [u8; 4] = *b",\t;|";

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
    /// A JSON object on each line.
    JsonLines,
    /// One JSON array of objects.
    JsonArray,
    /// Lines of values with this between them; the first line has the columns' names.
    Csv(u8),
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
            Some(b'{') => Self::JsonLines,
            Some(b'[') => Self::JsonArray,
            _ => Self::Csv(delimiter(text)),
        })
    }

    /// Returns the ending of files of this format, and the options to read them with.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for what is compressed.
    pub(super) fn reader(
        self,
        name: &str,
    ) -> Result<(&'static str, HashMap<String, String>), Error> {
        let option = |name: &str, value: String| HashMap::from([(name.to_string(), value)]);
        Ok(match self {
            Self::Parquet => ("parquet", HashMap::new()),
            Self::Arrow => ("arrow", HashMap::new()),
            Self::JsonLines => ("json", HashMap::new()),
            Self::JsonArray => ("json", option("format.newline_delimited", "false".into())),
            Self::Csv(delimiter) => {
                let mut options = option("format.delimiter", char::from(delimiter).into());
                options.insert("format.has_header".into(), "true".into());
                ("csv", options)
            }
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

/// Returns the delimiter that stands most often in the first line, outside of quotes.
fn delimiter(text: &[u8]) -> u8 {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut is_quoted = false;
    for byte in text {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' | b'\r' if !is_quoted => break,
            byte if !is_quoted => {
                if let Some(place) = DELIMITERS.iter().position(|known| known == byte) {
                    counts[place] += 1;
                }
            }
            _ => {}
        }
    }
    // Of equals `max_by_key` takes the last.
    let most = (0..DELIMITERS.len())
        .rev()
        .max_by_key(|place| counts[*place]);
    most.map_or(b',', |place| DELIMITERS[place])
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
        is(b"{\"a\": 1}\n", Format::JsonLines);
        is(b"\xef\xbb\xbf \n {\"a\": 1}", Format::JsonLines);
        is(b"[{\"a\": 1}]", Format::JsonArray);
        is(b"\x1f\x8b\x08\0", Format::Compressed("gzip", "gunzip"));
        assert!(Format::of("-", b"abc\0def").is_err());
    }

    #[test]
    fn the_delimiter_is_the_most_frequent_one_of_the_first_line() {
        is(b"a,b\n1;2;3;4\n", Format::Csv(b','));
        is(b"a", Format::Csv(b','));
        is(b"\xef\xbb\xbfa;b;c\n", Format::Csv(b';'));
        is(b"\"a,b,c,d\"\tb\tc\r\n", Format::Csv(b'\t'));
        is(b"a|b,c|d\n", Format::Csv(b'|'));
        is(b"a,b|c\n", Format::Csv(b','));
    }
}
