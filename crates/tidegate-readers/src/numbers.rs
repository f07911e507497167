//! How numbers are written: `1234.5`, `1,234.50` or `1.234,50`.
//!
//! Digits are grouped in threes or not at all. A number that begins with a zero that counts for nothing
//! (`007`) or with a plus (`+49123`) is an identifier: it is one only where the user says so.

use std::str::FromStr;

use crate::sniff::Traits;

/// The longest number that has groups or a decimal comma.
const NUMBER_MAX: usize = 64;
/// The digits that a `DECIMAL(38, 0)` has.
const WIDE_DIGITS: usize = 38;

/// How the numbers of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFormat {
    /// What stands before the fraction, `.` or `,`.
    pub decimal: u8,
    /// Whether the other of the two may stand between groups of three digits.
    pub is_grouped: bool,
    /// Whether identifiers such as `007` are refused.
    pub is_strict: bool,
}

impl Default for NumberFormat {
    fn default() -> Self {
        Self {
            decimal: b'.',
            is_grouped: false,
            is_strict: false,
        }
    }
}

/// Tells what a value is, as a number; empty if it is none.
pub(crate) fn traits_of(value: &[u8]) -> Traits {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let Some(first) = digits.first() else {
        return Traits::empty();
    };
    if !first.is_ascii_digit() && !matches!(first, b'.' | b',') {
        return match is_special(digits) {
            true => Traits::POINT_NUMBER | Traits::COMMA_NUMBER,
            false => Traits::empty(),
        };
    }
    if has_idle_zero(digits) {
        return Traits::empty();
    }
    if digits.iter().all(u8::is_ascii_digit) {
        let is_integer = parse_plain_integer(value).is_some();
        return match is_integer {
            true => {
                Traits::INTEGER
                    | Traits::WIDE
                    | Traits::POINT_INTEGER
                    | Traits::COMMA_INTEGER
                    | Traits::POINT_NUMBER
                    | Traits::COMMA_NUMBER
            }
            false if digits.len() <= WIDE_DIGITS => Traits::WIDE,
            false => Traits::empty(),
        };
    }
    if is_address(digits) {
        return Traits::empty();
    }
    let mut traits = Traits::empty();
    for (decimal, integer, number) in [
        (b'.', Traits::POINT_INTEGER, Traits::POINT_NUMBER),
        (b',', Traits::COMMA_INTEGER, Traits::COMMA_NUMBER),
    ] {
        match shape(digits, decimal) {
            Some(Shape::Integer) => traits |= integer | number,
            Some(Shape::Number) => traits |= number,
            None => {}
        }
    }
    traits
}

fn is_special(value: &[u8]) -> bool {
    [&b"nan"[..], b"inf", b"infinity"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

/// Tells whether a number begins with a zero that counts for nothing.
fn has_idle_zero(digits: &[u8]) -> bool {
    matches!(digits, [b'0', next, ..] if next.is_ascii_digit())
}

/// Tells whether these are four numbers below 256, as an IPv4 address is written.
fn is_address(value: &[u8]) -> bool {
    let mut parts = 0;
    let are_bytes = value.split(|byte| *byte == b'.').all(|part| {
        parts += 1;
        let digits = std::str::from_utf8(part).ok();
        !has_idle_zero(part) && digits.is_some_and(|digits| digits.parse::<u8>().is_ok())
    });
    are_bytes && parts == 4
}

enum Shape {
    Integer,
    Number,
}

/// Reads digits, groups, a fraction and an exponent.
fn shape(digits: &[u8], decimal: u8) -> Option<Shape> {
    let group = if decimal == b'.' { b',' } else { b'.' };
    let (mantissa, exponent) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    if let Some(exponent) = exponent {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+"));
        let exponent = exponent.unwrap_or(digits.rsplit(|b| matches!(b, b'e' | b'E')).next()?);
        if exponent.is_empty() || exponent.len() > 4 || !exponent.iter().all(u8::is_ascii_digit) {
            return None;
        }
    }
    let (whole, fraction) = match mantissa.iter().position(|b| *b == decimal) {
        Some(at) => (&mantissa[..at], Some(&mantissa[at + 1..])),
        None => (mantissa, None),
    };
    let fraction_digits = fraction.map_or(0, <[u8]>::len);
    if !fraction.unwrap_or_default().iter().all(u8::is_ascii_digit) {
        return None;
    }
    if whole.is_empty() {
        return (fraction_digits > 0).then_some(Shape::Number);
    }
    if whole.contains(&group) {
        let mut parts = whole.split(|b| *b == group);
        let first = parts.next()?;
        let is_first = (1..=3).contains(&first.len()) && first != b"0";
        let mut all_digits = first.iter().all(u8::is_ascii_digit);
        for part in parts {
            all_digits &= part.len() == 3 && part.iter().all(u8::is_ascii_digit);
        }
        if !is_first || !all_digits {
            return None;
        }
    } else if !whole.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(match (fraction, exponent) {
        (None, None) => Shape::Integer,
        _ => Shape::Number,
    })
}

fn parse_plain_integer(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl NumberFormat {
    /// Reads a whole number; `None` for one that the type does not hold, too.
    pub(crate) fn integer<T: FromStr>(self, value: &str) -> Option<T> {
        self.check(value)?;
        match value.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                let mut buffer = [0; NUMBER_MAX];
                let plain = self.plain(value, &mut buffer)?;
                // What has a fraction of zeros is whole where the user says that it is.
                let whole = match plain.split_once('.') {
                    Some((whole, fraction))
                        if !self.is_strict && fraction.bytes().all(|b| b == b'0') =>
                    {
                        whole
                    }
                    Some(_) => return None,
                    None => plain,
                };
                whole.parse().ok()
            }
        }
    }

    /// Reads a number.
    pub(crate) fn double(self, value: &str) -> Option<f64> {
        self.check(value)?;
        if self.decimal == b'.'
            && let Ok(number) = value.parse()
        {
            return Some(number);
        }
        let mut buffer = [0; NUMBER_MAX];
        match self.plain(value, &mut buffer) {
            Some(plain) => plain.parse().ok(),
            None if is_special(value.strip_prefix('-').unwrap_or(value).as_bytes()) => {
                value.parse().ok()
            }
            None => None,
        }
    }

    /// Writes a number with a decimal point and without groups; `None` if it is not written so.
    pub(crate) fn plain<'a>(
        self,
        value: &str,
        buffer: &'a mut [u8; NUMBER_MAX],
    ) -> Option<&'a str> {
        let group = if self.decimal == b'.' { b',' } else { b'.' };
        let bytes = value.as_bytes();
        let digits = bytes.strip_prefix(b"-").or(bytes.strip_prefix(b"+"));
        let digits = digits.unwrap_or(bytes);
        if bytes.len() > NUMBER_MAX || (!self.is_grouped && digits.contains(&group)) {
            return None;
        }
        shape(digits, self.decimal)?;
        let mut length = 0;
        for byte in bytes.iter().filter(|byte| **byte != group) {
            buffer[length] = if *byte == self.decimal { b'.' } else { *byte };
            length += 1;
        }
        std::str::from_utf8(&buffer[..length]).ok()
    }

    fn check(self, value: &str) -> Option<()> {
        let bytes = value.as_bytes();
        let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
        let refused = self.is_strict && (bytes.first() == Some(&b'+') || has_idle_zero(digits));
        (!refused).then_some(())
    }
}

#[cfg(test)]
mod tests;
