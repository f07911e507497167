//! Parts the code of a Rust file from its comments, so that a rule about code is not misled by
//! prose and a rule about prose not by code.
//!
//! One pass over the bytes. Each byte belongs to code, to a comment or to a literal; a view keeps
//! the bytes of its kind and has spaces for the others. Line breaks stay in both views, so offsets
//! and lines are those of the file.

/// Two views of one file, each as long as the file in bytes.
pub(super) struct RustText {
    /// Neither comments nor literals: both are blank, quotes included.
    pub(super) code: String,
    /// Comments alone, with their slashes.
    pub(super) comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Parts `text`. Text that does not lex is parted as far as it goes.
pub(super) fn split(text: &str) -> RustText {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut comments = Vec::with_capacity(bytes.len());
    let mut start = 0;
    while start < bytes.len() {
        let (kind, len) = piece_at(bytes, start);
        let end = (start + len).min(bytes.len());
        for &byte in &bytes[start..end] {
            let blank = if byte == b'\n' { b'\n' } else { b' ' };
            code.push(if kind == Kind::Code { byte } else { blank });
            comments.push(if kind == Kind::Comment { byte } else { blank });
        }
        start = end;
    }
    RustText {
        code: String::from_utf8_lossy(&code).into_owned(),
        comments: String::from_utf8_lossy(&comments).into_owned(),
    }
}

/// Returns the kind and the length, at least 1, of the piece that begins at `start`.
fn piece_at(bytes: &[u8], start: usize) -> (Kind, usize) {
    let rest = &bytes[start..];
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, line_comment_len(rest)),
        [b'/', b'*', ..] => (Kind::Comment, block_comment_len(rest)),
        [b'"', ..] => (Kind::Literal, quoted_len(rest, b'"')),
        [b'r', ..] if begins_raw_string(bytes, start) => (Kind::Literal, raw_string_len(rest)),
        [b'\'', b'\\', ..] => (Kind::Literal, quoted_len(rest, b'\'')),
        [b'\'', ..] => match char_literal_len(rest) {
            Some(len) => (Kind::Literal, len),
            None => (Kind::Code, 1),
        },
        _ => (Kind::Code, 1),
    }
}

fn line_comment_len(rest: &[u8]) -> usize {
    rest.iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(rest.len())
}

/// Block comments nest.
fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut offset = 0;
    while offset < rest.len() {
        match rest[offset..] {
            [b'/', b'*', ..] => {
                depth += 1;
                offset += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                offset += 2;
                if depth == 0 {
                    return offset;
                }
            }
            _ => offset += 1,
        }
    }
    rest.len()
}

/// Length of a literal in `quote`s, in which a backslash takes the next byte with it.
fn quoted_len(rest: &[u8], quote: u8) -> usize {
    let mut offset = 1;
    while offset < rest.len() {
        match rest[offset] {
            b'\\' => offset += 2,
            byte if byte == quote => return offset + 1,
            _ => offset += 1,
        }
    }
    rest.len()
}

/// Tells whether the `r` at `start` opens `r"…"`, `r#"…"#`, or one of these after `b` or `c`.
fn begins_raw_string(bytes: &[u8], start: usize) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let before = &bytes[..start];
    let stands_alone = match before {
        [.., last, b'b' | b'c'] => !is_word(*last),
        [b'b' | b'c'] => true,
        [.., last] => !is_word(*last),
        [] => true,
    };
    let after_hashes = bytes[start + 1..].iter().find(|&&byte| byte != b'#');
    stands_alone && after_hashes == Some(&b'"')
}

fn raw_string_len(rest: &[u8]) -> usize {
    let num_hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    let body = 2 + num_hashes;
    let mut closing = vec![b'"'];
    closing.resize(1 + num_hashes, b'#');
    rest[body..]
        .windows(closing.len())
        .position(|window| window == closing)
        .map_or(rest.len(), |offset| body + offset + closing.len())
}

/// Length of `'x'` without an escape; nothing for a lifetime.
fn char_literal_len(rest: &[u8]) -> Option<usize> {
    let char_len = match *rest.get(1)? {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + char_len) == Some(&b'\'')).then_some(char_len + 2)
}

#[cfg(test)]
mod tests;
