//! Text of bytes, as DuckDB has it: `a\x00b`. A byte is two hexadecimal digits behind `\x`, or a letter of ASCII, of which
//! those that are not shown, quotes and the backslash are written as digits.

use std::fmt::Write;

/// Reads the bytes of a text; `None` of one with other letters, or with another backslash.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Some(found),
            [b'\\', b'x', high, low, rest @ ..] => {
                found.push((digit(*high)? << 4) | digit(*low)?);
                rest
            }
            [b'\\', ..] => return None,
            [byte, rest @ ..] if byte.is_ascii() => {
                found.push(*byte);
                rest
            }
            _ => return None,
        };
    }
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

/// Writes bytes as text.
pub(super) fn written(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        let is_quote = matches!(byte, b'\\' | b'\'' | b'"');
        if matches!(byte, b' '..=b'~') && !is_quote {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{read, written};

    #[test]
    fn bytes_are_letters_or_digits() {
        let cases: [(&str, Option<&[u8]>); 10] = [
            ("", Some(b"")),
            ("abc", Some(b"abc")),
            ("\\xAB", Some(b"\xab")),
            ("a\\x00\\xfFb", Some(b"a\0\xffb")),
            ("\\xA", None),
            ("\\x", None),
            ("\\xG1", None),
            ("a\\b", None),
            ("a\\\\b", None),
            ("ä", None),
        ];
        for (text, expect) in cases {
            assert_eq!(read(text).as_deref(), expect, "{text}");
        }
        assert_eq!(written(b"a\"'\\\xc3\0~"), "a\\x22\\x27\\x5C\\xC3\\x00~");
    }
}
