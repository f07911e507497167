//! Whole numbers of text with a point, an exponent, underscores, blanks around it, or digits of another base: `12.7`
//! is 13 and `-0.5` is -1, the one of two that is further from zero, as in DuckDB.

use std::borrow::Cow;

/// Digits before the point up to which a number is read; none with more is held by an integer.
const DIGITS_MAX: i64 = 64;

/// Tells whether a text is digits alone, perhaps with a sign.
pub(super) fn is_plain(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Writes a number as the whole one that is nearest; `None` of a text that is no number, or none that is near.
pub(super) fn rounded(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(number) = of_other_base(text) {
        return Some(number.to_string());
    }
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let number = nearest(&without_underscores(number)?)?;
    Some(format!("{sign}{number}"))
}

/// Reads `0x1F` and `0b101`.
fn of_other_base(text: &str) -> Option<u128> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (text.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (text.get(2..)?, 2),
        _ => return None,
    };
    let has_sign = digits.starts_with('+');
    let number = u128::from_str_radix(digits, base).ok();
    number.filter(|_| !has_sign)
}

/// Takes out underscores, which stand between digits.
fn without_underscores(number: &str) -> Option<Cow<'_, str>> {
    if !number.contains('_') {
        return Some(Cow::Borrowed(number));
    }
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let mut parts = number.split('_').map(str::as_bytes);
    let are_between = parts.all(|part| is_digit(part.first()) && is_digit(part.last()));
    are_between.then(|| Cow::Owned(number.replace('_', "")))
}

/// Reads digits with a point and an exponent, and rounds by the first digit that is left out.
fn nearest(number: &str) -> Option<u128> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    if !is_number || point > DIGITS_MAX {
        return None;
    }
    let digit_at = |place: i64| {
        let digit = digits.as_bytes().get(usize::try_from(place).ok()?);
        digit.map(|digit| u128::from(*digit - b'0'))
    };
    let before = (0..point).try_fold(0_u128, |number, place| {
        number
            .checked_mul(10)?
            .checked_add(digit_at(place).unwrap_or(0))
    })?;
    let is_more = digit_at(point).is_some_and(|digit| digit >= 5);
    before.checked_add(u128::from(is_more))
}

#[cfg(test)]
mod tests {
    use super::{is_plain, rounded};

    #[test]
    fn numbers_are_rounded_half_away_from_zero() {
        for (text, expect) in [
            ("12.5", Some("13")),
            ("-12.5", Some("-13")),
            ("1.4999", Some("1")),
            ("0.5", Some("1")),
            ("-0.4", Some("-0")),
            (".5", Some("1")),
            ("5.", Some("5")),
            ("1e3", Some("1000")),
            ("1.25E1", Some("13")),
            ("15e-1", Some("2")),
            ("1e-5", Some("0")),
            ("5e-1", Some("1")),
            (" 42 ", Some("42")),
            ("1_000", Some("1000")),
            ("0x1F", Some("31")),
            ("0b11", Some("3")),
            ("9223372036854775807.4", Some("9223372036854775807")),
            ("9223372036854775807.5", Some("9223372036854775808")),
            ("", None),
            (".", None),
            ("1e", None),
            ("1e3.5", None),
            ("1.5a", None),
            ("1 2", None),
            ("1__0", None),
            ("_1", None),
            ("0x", None),
            ("0x+1", None),
            ("0e2000000000", None),
            ("true", None),
            ("ä", None),
        ] {
            assert_eq!(rounded(text).as_deref(), expect, "{text}");
            assert!(!(is_plain(text) && expect.is_some()), "{text}");
        }
        assert!(is_plain("-12") && is_plain("+5") && !is_plain("1.5"));
    }
}
