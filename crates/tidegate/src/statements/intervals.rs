//! Intervals of a number that is computed, `INTERVAL (n + 1) DAY`, and of a clock's text, `INTERVAL '3 days 04:05:06'`.
//!
//! DataFusion reads intervals of literals alone, in which each number has a unit. So the first becomes `(n + 1) *
//! INTERVAL '1' DAY`, the second `INTERVAL '3 days 4 hours 5 minutes 6 seconds'`, and a number without a unit before a
//! clock is one of days, as in PostgreSQL. A minus before an interval of several parts is that of all of them.

use sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Interval, UnaryOperator, Value,
};

use super::calls::{double, string, take};

/// Writes an interval, a cast to one or a minus before one as DataFusion reads it.
pub(super) fn bind(expr: &mut Expr) {
    match expr {
        Expr::Interval(interval) => {
            unwrap_literal(interval);
            match product(interval) {
                Some(product) => *expr = product,
                None if interval.leading_field.is_none() => spell(&mut interval.value),
                None => {}
            }
        }
        Expr::Cast {
            expr: text,
            data_type: DataType::Interval { .. },
            ..
        } => spell(text),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: operand,
        } if has_parts(operand) => {
            let interval = take(operand);
            **operand = Expr::Nested(Box::new(interval));
        }
        _ => {}
    }
}

/// Takes a literal out of parentheses.
fn unwrap_literal(interval: &mut Interval) {
    while let Expr::Nested(inner) = interval.value.as_mut() {
        if !matches!(**inner, Expr::Nested(_)) && !is_literal(inner) {
            return;
        }
        let inner = take(inner);
        *interval.value = inner;
    }
}

/// Returns the product of a number and an interval of its unit; `None` for a literal that DataFusion reads.
fn product(interval: &mut Interval) -> Option<Expr> {
    let has_more = interval.last_field.is_some()
        || interval.leading_precision.is_some()
        || interval.fractional_seconds_precision.is_some();
    if has_more || matches!(interval.value.as_ref(), Expr::BinaryOp { .. }) {
        return None;
    }
    // A quarter is no unit of DataFusion's.
    let (times, unit, is_known) = match interval.leading_field.clone()? {
        DateTimeField::Quarter => {
            as_number(&mut interval.value);
            ("3", DateTimeField::Month, is_text(&interval.value))
        }
        unit => ("1", unit, true),
    };
    if is_known && is_literal(&interval.value) && !is_placeholder(&interval.value) {
        return None;
    }
    let number = match take(&mut interval.value) {
        // Its type is known when it has a value.
        number if is_placeholder(&number) => double(number),
        number @ Expr::Nested(_) => number,
        number => Expr::Nested(Box::new(number)),
    };
    let one = Expr::Interval(Interval {
        value: Box::new(string(times)),
        leading_field: Some(unit),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    });
    Some(Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(number),
        op: BinaryOperator::Multiply,
        right: Box::new(one),
    })))
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        } => is_literal(expr),
        _ => false,
    }
}

/// Makes a number of a text that is one.
fn as_number(expr: &mut Expr) {
    if let Expr::Value(value) = expr
        && let Value::SingleQuotedString(text) = &value.value
        && let Ok(number) = text.trim().parse::<i64>()
    {
        value.value = Value::Number(number.to_string(), false);
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// Tells whether DataFusion would take a minus before an interval for one of its first number alone.
fn has_parts(expr: &Expr) -> bool {
    let Expr::Interval(interval) = expr else {
        return false;
    };
    let Expr::Value(value) = interval.value.as_ref() else {
        return false;
    };
    match &value.value {
        Value::SingleQuotedString(text) => text.contains(':') || text.trim().contains(' '),
        _ => false,
    }
}

/// Writes the clocks in a text with units.
fn spell(expr: &mut Expr) {
    if let Expr::Value(value) = expr
        && let Value::SingleQuotedString(text) = &value.value
        && let Some(spelled) = with_units(text)
    {
        value.value = Value::SingleQuotedString(spelled);
    }
}

/// Returns a text of an interval in which each number has a unit; `None` if neither a clock nor quarters are in it, or
/// such that are not read.
fn with_units(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_clock = |word: &&str| word.contains(':');
    let is_quarter = |word: &&str| {
        ["quarter", "quarters"]
            .iter()
            .any(|unit| word.eq_ignore_ascii_case(unit))
    };
    if !words.iter().any(is_clock) && !words.iter().any(is_quarter) {
        return None;
    }
    let mut spelled: Vec<String> = Vec::with_capacity(words.len() + 1);
    for (place, word) in words.iter().enumerate() {
        if is_clock(word) {
            spelled.push(clock(word)?);
            continue;
        }
        if is_quarter(word) {
            let number = spelled.pop()?.parse::<i64>().ok()?;
            spelled.push(number.checked_mul(3)?.to_string());
            spelled.push("months".to_string());
            continue;
        }
        spelled.push((*word).to_string());
        if words.get(place + 1).is_some_and(is_clock) && word.parse::<i64>().is_ok() {
            spelled.push("days".to_string());
        }
    }
    Some(spelled.join(" "))
}

/// Returns `4 hours 5 minutes 6 seconds` for `04:05:06`, and `-1 hours -30 minutes -0 seconds` for `-1:30`.
fn clock(word: &str) -> Option<String> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let mut parts = digits.split(':');
    let hours = whole(parts.next()?)?;
    let minutes = whole(parts.next()?).filter(|minutes| *minutes < 60)?;
    let seconds = parts.next().unwrap_or("0");
    let (seconds, fraction) = match seconds.split_once('.') {
        Some((seconds, fraction)) => (seconds, format!(".{:0<1}", digits_of(fraction)?)),
        None => (seconds, String::new()),
    };
    let seconds = whole(seconds).filter(|seconds| *seconds < 60)?;
    if parts.next().is_some() {
        return None;
    }
    Some(format!(
        "{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds}{fraction} seconds"
    ))
}

fn whole(text: &str) -> Option<u32> {
    digits_of(text)?.parse().ok()
}

fn digits_of(text: &str) -> Option<&str> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{bind, with_units};
    use crate::statements::tests::expr;

    #[test]
    fn numbers_that_are_computed_are_multiplied() {
        for (sql, expect) in [
            ("INTERVAL (i) DAY", "((i) * INTERVAL '1' DAY)"),
            ("INTERVAL (i + 1) HOURS", "((i + 1) * INTERVAL '1' HOURS)"),
            ("INTERVAL i MONTH", "((i) * INTERVAL '1' MONTH)"),
            ("INTERVAL f(x) MINUTE", "((f(x)) * INTERVAL '1' MINUTE)"),
            (
                "INTERVAL ($1) DAY",
                "(CAST($1 AS DOUBLE) * INTERVAL '1' DAY)",
            ),
            ("INTERVAL 2 QUARTER", "((2) * INTERVAL '3' MONTH)"),
            ("INTERVAL '2' QUARTER", "((2) * INTERVAL '3' MONTH)"),
            ("INTERVAL ((3)) DAY", "INTERVAL 3 DAY"),
            ("INTERVAL -1 DAY", "INTERVAL -1 DAY"),
            ("INTERVAL '1' DAY", "INTERVAL '1' DAY"),
            ("INTERVAL '1 day'", "INTERVAL '1 day'"),
            ("INTERVAL '1:30'", "INTERVAL '1 hours 30 minutes 0 seconds'"),
            (
                "CAST('1:30' AS INTERVAL)",
                "CAST('1 hours 30 minutes 0 seconds' AS INTERVAL)",
            ),
            ("-INTERVAL '1 day 2 hours'", "-(INTERVAL '1 day 2 hours')"),
            ("-INTERVAL '1' DAY", "-INTERVAL '1' DAY"),
        ] {
            let mut expr = expr(sql);
            bind(&mut expr);
            assert_eq!(expr.to_string(), expect, "{sql}");
        }
    }

    #[test]
    fn clocks_have_units() {
        for (text, expect) in [
            ("04:05:06", Some("4 hours 5 minutes 6 seconds")),
            ("-1:30", Some("-1 hours -30 minutes -0 seconds")),
            (
                "3 days 04:05:06.25",
                Some("3 days 4 hours 5 minutes 6.25 seconds"),
            ),
            ("1 2:03", Some("1 days 2 hours 3 minutes 0 seconds")),
            ("1 year -2 quarters", Some("1 year -6 months")),
            ("quarter", None),
            ("1 day", None),
            ("1:60", None),
            ("1:2:3:4", None),
            ("a:b", None),
            ("1:", None),
        ] {
            assert_eq!(with_units(text).as_deref(), expect, "{text}");
        }
    }
}
