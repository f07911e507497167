//! Intervals of a number that is computed, `INTERVAL (n + 1) DAY`, and of a clock's text, `INTERVAL '3 days 04:05:06'`.
//!
//! DataFusion reads intervals of literals alone, in which each number has a unit. So the first becomes `(n + 1) *
//! INTERVAL '1' DAY`, the second `INTERVAL '3 days 4 hours 5 minutes 6 seconds'`, and a number without a unit before a
//! clock is one of days, as in PostgreSQL. A minus before an interval of several parts is that of all of them.

use sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Interval, UnaryOperator, Value,
};

use super::calls::{double, string, take};
use crate::functions::cast_texts::spans::with_units;

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

#[cfg(test)]
mod tests {
    use super::bind;
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
}
