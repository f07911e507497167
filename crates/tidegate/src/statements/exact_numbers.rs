//! Numbers of many digits that are cast, `12345678901234567890::DECIMAL(38, 0)`: they keep all of their digits.
//!
//! DataFusion reads a number that is no integer of 64 bits as a double, which has 15 digits and a part of another, before it
//! casts it. A cast of a string has all digits, so the number becomes one. So does a number of a row that `INSERT … VALUES`
//! casts to the type of its column.

use sqlparser::ast::{DataType, Expr, Insert, SetExpr, UnaryOperator, Value};

use super::calls::string;

/// Digits that every double keeps.
const DIGITS_OF_DOUBLE: usize = 15;

/// Writes the number that a cast to an exact type is of as a string, if it has more digits than a double.
pub(super) fn quote(cast: &mut Expr) {
    let Expr::Cast {
        expr: operand,
        data_type,
        ..
    } = cast
    else {
        return;
    };
    let takes_fraction = match data_type {
        DataType::Decimal(_)
        | DataType::Numeric(_)
        | DataType::Dec(_)
        | DataType::HugeInt
        | DataType::UHugeInt => true,
        DataType::BigInt(_) | DataType::UBigInt => false,
        _ => return,
    };
    if let Some(number) = number(operand)
        && is_long(&number)
        && (takes_fraction || !number.contains('.'))
    {
        **operand = string(number);
    }
}

/// Writes numbers of the rows of an INSERT as strings that have more digits than a double, and are no integers of 64 bits.
pub(super) fn quote_rows(insert: &mut Insert) {
    let Some(source) = &mut insert.source else {
        return;
    };
    let SetExpr::Values(values) = source.body.as_mut() else {
        return;
    };
    for value in values.rows.iter_mut().flat_map(|row| row.iter_mut()) {
        if let Some(number) = number(value)
            && is_long(&number)
            && number.parse::<i64>().is_err()
            && number.parse::<u64>().is_err()
        {
            *value = string(number);
        }
    }
}

/// Tells whether a number has more digits than a double keeps, and no exponent.
fn is_long(number: &str) -> bool {
    let num_digits = number.bytes().filter(u8::is_ascii_digit).count();
    let is_plain = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    num_digits > DIGITS_OF_DOUBLE && is_plain
}

/// Returns the number that is written, with its sign; `None` if it is computed.
fn number(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let digits = digits.trim_end_matches('.');
                let begins = if digits.starts_with('.') { "0" } else { "" };
                Some(format!("{begins}{digits}"))
            }
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr,
        } => number(expr),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => number(expr)
            .filter(|number| !number.starts_with('-'))
            .map(|number| format!("-{number}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::quote;
    use crate::statements::tests::expr;

    #[test]
    fn long_numbers_become_strings() {
        for (sql, expect) in [
            (
                "12345678901234567890::DECIMAL(38,0)",
                "'12345678901234567890'::DECIMAL(38,0)",
            ),
            (
                "CAST(-(0.1234567890123456789) AS NUMERIC(38,20))",
                "CAST('-0.1234567890123456789' AS NUMERIC(38,20))",
            ),
            (
                "TRY_CAST(+.1234567890123456789 AS DECIMAL(38,20))",
                "TRY_CAST('0.1234567890123456789' AS DECIMAL(38,20))",
            ),
            (
                "99999999999999999999::HUGEINT",
                "'99999999999999999999'::HUGEINT",
            ),
            ("1234567890123456.7::BIGINT", "1234567890123456.7::BIGINT"),
            (
                "123456789012345::DECIMAL(38,0)",
                "123456789012345::DECIMAL(38,0)",
            ),
            (
                "1234567890123456789e2::DECIMAL(38,0)",
                "1234567890123456789e2::DECIMAL(38,0)",
            ),
            (
                "12345678901234567890::DOUBLE",
                "12345678901234567890::DOUBLE",
            ),
            ("(a + 1)::DECIMAL(38,0)", "(a + 1)::DECIMAL(38,0)"),
        ] {
            let mut expr = expr(sql);
            quote(&mut expr);
            assert_eq!(expr.to_string(), expect, "{sql}");
        }
    }
}
