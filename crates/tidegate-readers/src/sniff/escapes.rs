//! Whether a backslash makes a quote part of a quoted value.
//!
//! A backslash before a quote may also be the last character of a value. A text is read in both ways, strictly: behind a
//! quote that ends a value comes a delimiter or the end of a line, and values that are not enclosed have no quotes. Doubled
//! quotes are the rule, a backslash needs a text that does not read well with them.

use crate::records::Syntax;

/// A text of fewer bytes ends where its file does, or a line.
const CUT_BYTES: usize = 32 << 10;

/// How a text reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// All rows have as many values.
    Regular,
    /// Rows differ in the number of their values.
    Ragged,
    /// A quote stands where none may.
    Broken,
}

/// Returns what makes a quote part of a quoted value; `None` for a doubled quote.
pub(super) fn escape_of(text: &[u8], syntax: Syntax) -> Option<u8> {
    let quote = syntax.quote?;
    memchr::memmem::find(text, &[b'\\', quote])?;
    let shape = |escape| shape_of(text, Syntax { escape, ..syntax }, quote);
    match shape(None) {
        Shape::Regular => None,
        Shape::Ragged if shape(Some(b'\\')) == Shape::Broken => None,
        Shape::Ragged | Shape::Broken => Some(b'\\'),
    }
}

/// Reads a text strictly.
fn shape_of(text: &[u8], syntax: Syntax, quote: u8) -> Shape {
    let (mut at, mut width, mut usual, mut is_ragged) = (0, 1_usize, None, false);
    let mut begins_row = true;
    while at < text.len() {
        if begins_row && matches!(text[at], b'\n' | b'\r') {
            at += 1;
            continue;
        }
        if begins_row && syntax.comment == Some(text[at]) {
            at = line_end(text, at);
            continue;
        }
        begins_row = false;
        let end = match text[at] == quote {
            true => match quoted_end(text, at + 1, quote, syntax.escape) {
                Some(end) => end,
                // What goes on behind the text may be anything.
                None if text.len() >= CUT_BYTES => break,
                None => return Shape::Broken,
            },
            false => {
                let rest = &text[at..];
                let ends = |byte: &u8| *byte == syntax.delimiter || is_newline(*byte);
                let len = rest.iter().position(ends).unwrap_or(rest.len());
                if memchr::memchr(quote, &rest[..len]).is_some() {
                    return Shape::Broken;
                }
                at + len
            }
        };
        match text.get(end) {
            Some(byte) if *byte == syntax.delimiter => width += 1,
            Some(byte) if !is_newline(*byte) => return Shape::Broken,
            _ => {
                is_ragged |= *usual.get_or_insert(width) != width;
                (width, begins_row) = (1, true);
            }
        }
        at = end + 1;
    }
    match is_ragged {
        true => Shape::Ragged,
        false => Shape::Regular,
    }
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn line_end(text: &[u8], from: usize) -> usize {
    let rest = &text[from..];
    let len = memchr::memchr2(b'\n', b'\r', rest);
    from + len.unwrap_or(rest.len())
}

/// Returns the place behind the quote that ends a value; `None` if there is none.
fn quoted_end(text: &[u8], from: usize, quote: u8, escape: Option<u8>) -> Option<usize> {
    let mut at = from;
    while let Some(byte) = text.get(at) {
        if escape == Some(*byte) {
            at += 2;
        } else if *byte != quote {
            at += 1;
        } else if text.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Syntax, escape_of};

    #[track_caller]
    fn check(text: &str, expect: Option<u8>) {
        let syntax = Syntax {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            comment: None,
        };
        assert_eq!(escape_of(text.as_bytes(), syntax), expect, "{text}");
    }

    #[test]
    fn doubled_quotes_are_the_rule() {
        for text in [
            "1,x\n",
            "1,\"a,\\\",7\n2,\"z,\",8\n3,\"q\"\"\",8\n",
            "1,\"a,\\\"\r\n2,\"\"\r\n",
            "a title\n1,\"a,\\\",7\n2,\"b\",8\n",
            "1,\"C:\\dir\\\"",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn backslashes_escape_where_doubled_quotes_do_not_read_well() {
        for text in [
            "1,\"say \\\"hi\\\", x\"\n2,y\n",
            "1,\"say \\\"hi\\\"\"\n2,\"\"\n",
            "1,\"a\\\",b\"\n2,\"c\\\",d\"\n",
            "1,\"a\\\\\"\n2,\"b\\\"c\"\n",
        ] {
            check(text, Some(b'\\'));
        }
    }
}
