//! `sum(a > 5)` and `avg(x IS NULL)`: conditions are summed as 1 where they hold and 0 where they do not, as in DuckDB.
//!
//! That an argument is a condition is seen in its text alone: a column of BOOLEAN is not.

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value,
};

use super::calls::{cast, take};
use crate::functions::forms;

/// Aggregates that take numbers.
const SUMS: [&str; 3] = ["sum", "avg", "mean"];

/// Casts a condition that is summed to an integer. Its operators are bound already.
pub(super) fn count(expr: &mut Expr) {
    let Expr::Function(call) = expr else {
        return;
    };
    if !forms::name_of(call).is_some_and(|name| SUMS.contains(&name.as_str())) {
        return;
    }
    let FunctionArguments::List(list) = &mut call.args else {
        return;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_mut_slice() else {
        return;
    };
    if is_condition(argument) {
        *argument = cast(take(argument), DataType::BigInt(None));
    }
}

/// Tells whether an expression is true, false or NULL by its text.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_condition(inner),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
                | BinaryOperator::Spaceship
                | BinaryOperator::And
                | BinaryOperator::Or
                | BinaryOperator::PGRegexMatch
                | BinaryOperator::PGRegexIMatch
                | BinaryOperator::PGRegexNotMatch
                | BinaryOperator::PGRegexNotIMatch
                | BinaryOperator::PGLikeMatch
                | BinaryOperator::PGILikeMatch
                | BinaryOperator::PGNotLikeMatch
                | BinaryOperator::PGNotILikeMatch
        ),
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::InUnnest { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Exists { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. } => true,
        Expr::Value(value) => matches!(value.value, Value::Boolean(_)),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Boolean | DataType::Bool),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::count;
    use crate::statements::tests::expr;

    #[test]
    fn conditions_are_summed_as_numbers() {
        for (sql, expect) in [
            ("sum(a > 5)", "sum(CAST(a > 5 AS BIGINT))"),
            (
                "AVG(DISTINCT (a IS NULL)) FILTER (WHERE b)",
                "AVG(DISTINCT CAST((a IS NULL) AS BIGINT)) FILTER (WHERE b)",
            ),
            (
                "mean(NOT a) OVER (ORDER BY b)",
                "mean(CAST(NOT a AS BIGINT)) OVER (ORDER BY b)",
            ),
            (
                "sum(a BETWEEN 1 AND 2)",
                "sum(CAST(a BETWEEN 1 AND 2 AS BIGINT))",
            ),
            (
                "sum(a NOT IN (1, 2))",
                "sum(CAST(a NOT IN (1, 2) AS BIGINT))",
            ),
            ("sum(a::BOOLEAN)", "sum(CAST(a::BOOLEAN AS BIGINT))"),
            ("sum(true)", "sum(CAST(true AS BIGINT))"),
            ("sum(a + 5)", "sum(a + 5)"),
            ("min(a > 5)", "min(a > 5)"),
            ("\"sum\"(a > 5)", "\"sum\"(a > 5)"),
        ] {
            let mut expr = expr(sql);
            count(&mut expr);
            assert_eq!(expr.to_string(), expect, "{sql}");
        }
    }
}
