//! Numbers with a fraction in fields that are whole numbers.
//!
//! Arrow's reader cuts the fraction off: 1.5 is read as 1. [`Fractions`] makes strings of such numbers before it, which it
//! refuses as it does other values of another type. What is looked at is a point behind a digit, and a minus of an exponent;
//! the number's field is named before it.

use std::collections::HashSet;
use std::ops::Range;

/// Bytes that wait for the end of a value.
const HELD_MAX: usize = 64 << 10;

/// Makes strings of the fractions in some fields, in buffers of any size.
#[derive(Debug)]
pub struct Fractions {
    names: HashSet<Vec<u8>>,
    /// What comes behind the last value that has ended.
    held: Vec<u8>,
}

impl Fractions {
    /// Makes strings of fractions in the fields of these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: names.into_iter().map(String::into_bytes).collect(),
            held: Vec::new(),
        }
    }

    /// Appends what a buffer becomes, up to the last value that ends in it.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let ended = memchr::memrchr3(b',', b'{', b'}', &self.held).map(|at| at + 1);
        let ended = match ended {
            Some(ended) => ended,
            None if self.held.len() > HELD_MAX => self.held.len(),
            None => return,
        };
        self.append(&self.held[..ended], out);
        self.held.drain(..ended);
    }

    /// Appends what is behind the last value.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }

    fn append(&self, text: &[u8], out: &mut Vec<u8>) {
        out.reserve(text.len());
        let mut copied = 0;
        for at in memchr::memchr2_iter(b'.', b'-', text) {
            if let Some(number) = self.fraction(text, at)
                && number.start >= copied
            {
                out.extend_from_slice(&text[copied..number.start]);
                out.push(b'"');
                out.extend_from_slice(&text[number.clone()]);
                out.push(b'"');
                copied = number.end;
            }
        }
        out.extend_from_slice(&text[copied..]);
    }

    /// Returns where the number lies of which the byte at a place is part, if it has a fraction and is of such a field.
    fn fraction(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let (before, behind) = text.split_at_checked(at)?;
        let is_of_number = match (before.last()?, behind.first()?) {
            (last, b'.') => last.is_ascii_digit(),
            (last, _) => matches!(last, b'e' | b'E'),
        };
        if !is_of_number {
            return None;
        }
        let ends = |byte: &u8| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let start = before.iter().rposition(ends)? + 1;
        let end = at + behind.iter().position(ends).unwrap_or(behind.len());
        let named = before[..start].trim_ascii_end().strip_suffix(b":")?;
        let named = named.trim_ascii_end().strip_suffix(b"\"")?;
        let quote = memchr::memrchr(b'"', named)?;
        if !self.names.contains(&named[quote + 1..]) {
            return None;
        }
        let number: f64 = std::str::from_utf8(&text[start..end]).ok()?.parse().ok()?;
        (number.fract() != 0.0).then_some(start..end)
    }
}
