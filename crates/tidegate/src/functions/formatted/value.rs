//! How a value is written by a specification.

use super::grammar::{Align, Spec};

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Integer(i128),
    /// A number, and how it is written without a specification.
    Float {
        number: f64,
        text: &'a str,
    },
    Text(&'a str),
}

/// Digits behind the point, unless the specification says how many.
const PRECISION: usize = 6;

/// Digits of a group.
const GROUP: usize = 3;

/// Adds a value to a line.
///
/// # Errors
/// A type that is not that of the value.
pub(super) fn write(line: &mut String, value: &Value<'_>, spec: &Spec) -> Result<(), String> {
    let kind = spec.kind;
    let (sign, body) = match (value, kind) {
        (Value::Integer(number), ' ' | 'd' | 'i' | 'u') => {
            signed(*number < 0, spec, number.unsigned_abs().to_string())
        }
        (Value::Integer(number), 'x' | 'X' | 'o' | 'b') => radix(*number, spec),
        (Value::Integer(number), 'c') => {
            let character = u32::try_from(*number).ok().and_then(char::from_u32);
            let Some(character) = character else {
                return Err(format!("{number} is no character"));
            };
            pad(line, "", &character.to_string(), spec, Align::Left);
            return Ok(());
        }
        (Value::Integer(number), 's') => (String::new(), number.to_string()),
        (Value::Integer(number), _) => float(*number as f64, spec),
        (Value::Float { text, .. }, 's') => (String::new(), (*text).to_string()),
        (Value::Float { number, text }, ' ') if spec.precision.is_none() => {
            let is_negative = number.is_sign_negative();
            signed(is_negative, spec, text.trim_start_matches('-').to_string())
        }
        (Value::Float { number, .. }, ' ' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G') => {
            float(*number, spec)
        }
        (Value::Text(text), ' ' | 's') => {
            let text = match spec.precision {
                Some(most) => text.chars().take(most).collect(),
                None => (*text).to_string(),
            };
            pad(line, "", &text, spec, Align::Left);
            return Ok(());
        }
        (Value::Float { .. }, kind) => {
            return Err(format!(
                "{kind} takes an integer, and this is a DOUBLE: write f, or CAST it"
            ));
        }
        (Value::Text(_), kind) => {
            return Err(format!(
                "{kind} takes a number, and this is a string: write s, or CAST it"
            ));
        }
    };
    let body = match spec.group {
        Some(group) => grouped(&body, group),
        None => body,
    };
    pad(line, &sign, &body, spec, Align::Right);
    Ok(())
}

fn signed(is_negative: bool, spec: &Spec, digits: String) -> (String, String) {
    let sign = match (is_negative, spec.plus) {
        (true, _) => "-".to_string(),
        (false, Some(plus)) => plus.to_string(),
        (false, None) => String::new(),
    };
    (sign, digits)
}

fn radix(number: i128, spec: &Spec) -> (String, String) {
    let magnitude = number.unsigned_abs();
    let (prefix, digits) = match spec.kind {
        'x' => ("0x", format!("{magnitude:x}")),
        'X' => ("0X", format!("{magnitude:X}")),
        'o' => ("0", format!("{magnitude:o}")),
        _ => ("0b", format!("{magnitude:b}")),
    };
    let (mut sign, digits) = signed(number < 0, spec, digits);
    if spec.is_alternate {
        sign.push_str(prefix);
    }
    (sign, digits)
}

fn float(number: f64, spec: &Spec) -> (String, String) {
    let is_negative = number.is_sign_negative() && !number.is_nan();
    let magnitude = number.abs();
    if !magnitude.is_finite() {
        let word = if magnitude.is_nan() { "nan" } else { "inf" };
        return signed(is_negative, spec, word.to_string());
    }
    let precision = spec.precision.unwrap_or(PRECISION);
    let digits = match spec.kind.to_ascii_lowercase() {
        'f' => format!("{magnitude:.precision$}"),
        'e' => exponential(magnitude, precision),
        _ => general(magnitude, precision.max(1), spec.is_alternate),
    };
    let digits = match spec.kind.is_ascii_uppercase() {
        true => digits.to_ascii_uppercase(),
        false => digits,
    };
    signed(is_negative, spec, digits)
}

/// Writes a number as C does: the exponent has a sign, and two digits at least.
fn exponential(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Writes so many significant digits, in the shorter of the two forms.
fn general(number: f64, precision: usize, keeps_zeros: bool) -> String {
    let scientific = exponential(number, precision - 1);
    let exponent = scientific.split_once('e').map(|(_, exponent)| exponent);
    let exponent: i32 = exponent
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    let digits = i32::try_from(precision).unwrap_or(i32::MAX);
    let (mantissa, rest) = match exponent {
        -4.. if exponent < digits => {
            let behind = usize::try_from(digits - 1 - exponent).unwrap_or_default();
            (format!("{number:.behind$}"), String::new())
        }
        _ => {
            let (mantissa, rest) = scientific.split_at(scientific.find('e').unwrap_or_default());
            (mantissa.to_string(), rest.to_string())
        }
    };
    let mantissa = match mantissa.contains('.') && !keeps_zeros {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => &mantissa,
    };
    format!("{mantissa}{rest}")
}

/// Parts the digits before the point in groups.
fn grouped(digits: &str, group: char) -> String {
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let mut written = String::with_capacity(digits.len() + end / GROUP);
    for (index, digit) in digits[..end].chars().enumerate() {
        if index > 0 && (end - index).is_multiple_of(GROUP) {
            written.push(group);
        }
        written.push(digit);
    }
    written.push_str(&digits[end..]);
    written
}

/// Adds a value, and what fills its field.
fn pad(line: &mut String, sign: &str, body: &str, spec: &Spec, usual: Align) {
    let length = sign.chars().count() + body.chars().count();
    let missing = spec.width.saturating_sub(length);
    let is_number = usual == Align::Right && body.starts_with(|c: char| c.is_ascii_digit());
    if spec.has_zeros && is_number {
        line.push_str(sign);
        line.extend(std::iter::repeat_n('0', missing));
        line.push_str(body);
        return;
    }
    let before = match spec.align.unwrap_or(usual) {
        Align::Left => 0,
        Align::Center => missing / 2,
        Align::Right => missing,
    };
    line.extend(std::iter::repeat_n(spec.fill, before));
    line.push_str(sign);
    line.push_str(body);
    line.extend(std::iter::repeat_n(spec.fill, missing - before));
}
