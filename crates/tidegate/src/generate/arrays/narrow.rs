//! Filters on indices as narrower spans: exactly, or not at all.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_kernels::random::Span;

use super::INDEX_NAMES;

/// Leaves the indices for which the filter holds; `None` if it says anything else, and then the spans
/// are of no use.
pub(super) fn narrow(spans: &mut [Span], filter: &Expr) -> Option<()> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => {
                narrow(spans, left)?;
                narrow(spans, right)
            }
            op => match (integer(left), integer(right)) {
                (None, Some(value)) => compare(spans, left, *op, value),
                (Some(value), None) => compare(spans, right, op.swap()?, value),
                _ => None,
            },
        },
        Expr::Between(between) if !between.negated => {
            let (low, high) = (integer(&between.low)?, integer(&between.high)?);
            compare(spans, &between.expr, Operator::GtEq, low)?;
            compare(spans, &between.expr, Operator::LtEq, high)
        }
        _ => None,
    }
}

/// Leaves the indices for which `subject op value` holds.
fn compare(spans: &mut [Span], subject: &Expr, op: Operator, value: i128) -> Option<()> {
    let bound = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
    if let Some(dimension) = dimension(spans, subject) {
        let span = &mut spans[dimension];
        let range = match op {
            Operator::Eq => bound(value)..bound(value + 1),
            Operator::Lt => 0..bound(value),
            Operator::LtEq => 0..bound(value + 1),
            Operator::Gt => bound(value + 1)..u64::MAX,
            Operator::GtEq => bound(value)..u64::MAX,
            _ => return None,
        };
        *span = span.within(range);
        return Some(());
    }
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Modulo,
        right,
    }) = subject
    else {
        return None;
    };
    let (dimension, modulus) = (dimension(spans, left)?, integer(right)?);
    if op != Operator::Eq {
        return None;
    }
    // The sign of a modulus has no part in what is left of an index, which is never negative.
    let modulus = u64::try_from(modulus.checked_abs()?).ok()?;
    if modulus == 0 {
        return None;
    }
    spans[dimension] = remaining(spans[dimension], modulus, value);
    Some(())
}

/// Returns the dimension whose index the expression is.
fn dimension(spans: &[Span], expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => INDEX_NAMES[..spans.len()]
            .iter()
            .position(|name| *name == column.name),
        _ => None,
    }
}

fn integer(expr: &Expr) -> Option<i128> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    match value {
        ScalarValue::Int8(value) => value.map(i128::from),
        ScalarValue::Int16(value) => value.map(i128::from),
        ScalarValue::Int32(value) => value.map(i128::from),
        ScalarValue::Int64(value) => value.map(i128::from),
        ScalarValue::UInt8(value) => value.map(i128::from),
        ScalarValue::UInt16(value) => value.map(i128::from),
        ScalarValue::UInt32(value) => value.map(i128::from),
        ScalarValue::UInt64(value) => value.map(i128::from),
        _ => None,
    }
}

/// Returns the indices that leave `rest` when they are divided by `modulus`.
fn remaining(span: Span, modulus: u64, rest: i128) -> Span {
    let none = Span { count: 0, ..span };
    let Some(rest) = u64::try_from(rest).ok().filter(|rest| *rest < modulus) else {
        return none;
    };
    let modulus_wide = i128::from(modulus);
    // start + step t = rest (modulo modulus), solved for the least t.
    let wanted = (i128::from(rest) - i128::from(span.start)).rem_euclid(modulus_wide);
    let (divisor, inverse) = extended_gcd(i128::from(span.step), modulus_wide);
    if wanted % divisor != 0 {
        return none;
    }
    let period = modulus_wide / divisor;
    let first = (wanted / divisor * inverse.rem_euclid(period)).rem_euclid(period);
    let (Ok(first), Ok(period)) = (u64::try_from(first), u64::try_from(period)) else {
        return none;
    };
    if first >= span.count {
        return none;
    }
    let count = (span.count - first).div_ceil(period);
    Span {
        start: span.at(first),
        // With one index the step is of no account, and might not fit.
        step: if count > 1 { span.step * period } else { 1 },
        count,
    }
}

/// Returns the greatest common divisor of a and b, and an x with a x = it (modulo b).
fn extended_gcd(a: i128, b: i128) -> (i128, i128) {
    let (mut r, mut s) = ((a, b), (1, 0));
    while r.1 != 0 {
        let quotient = r.0 / r.1;
        r = (r.1, r.0 - quotient * r.1);
        s = (s.1, s.0 - quotient * s.1);
    }
    (r.0, s.0)
}
