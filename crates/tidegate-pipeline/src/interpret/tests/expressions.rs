//! Three-valued logic, and what is not needed does not raise.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray};
use arrow_schema::DataType;

use crate::expr::{ArithmeticOp, CompareOp, Expr};
use crate::interpret::evaluate;
use crate::scalar::ScalarValue;
use crate::tests::building::{batch, col, eval, param, scalar, strings, text};

use DataType::{Boolean, Float64, Int64, Utf8, Utf8View};

const T: Option<bool> = Some(true);
const F: Option<bool> = Some(false);
const N: Option<bool> = None;

fn flags(values: &[Option<bool>]) -> ArrayRef {
    Arc::new(BooleanArray::from(values.to_vec()))
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

/// `1 / column > 0`, which raises on 0.
fn raises_on_zero(column: usize) -> Expr {
    let one = param(0, &Int64);
    let ratio = Expr::arithmetic(ArithmeticOp::Divide, one, col(column, &Int64), Int64);
    Expr::compare(CompareOp::Gt, ratio.unwrap(), param(1, &Int64)).unwrap()
}

fn one_and_zero() -> [crate::scalar::Scalar; 2] {
    [1, 0].map(|value| scalar(Int64, ScalarValue::Int(value)))
}

#[test]
fn three_valued_logic() {
    let left = flags(&[T, T, T, F, F, F, N, N, N]);
    let right = flags(&[T, F, N, T, F, N, T, F, N]);
    let (a, b) = (|| col(0, &Boolean), || col(1, &Boolean));
    let cases = [
        (Expr::and(a(), b()).unwrap(), [T, F, N, F, F, F, N, F, N]),
        (Expr::or(a(), b()).unwrap(), [T, T, T, T, F, N, T, N, N]),
        (Expr::not(a()).unwrap(), [F, F, F, T, T, T, N, N, N]),
        (Expr::is_null(a()).unwrap(), [F, F, F, F, F, F, T, T, T]),
        (Expr::is_not_null(b()).unwrap(), [T, T, F, T, T, F, T, T, F]),
    ];
    for (expr, expected) in cases {
        let found = eval(&expr, vec![Arc::clone(&left), Arc::clone(&right)]).unwrap();
        assert_eq!(&found, &flags(&expected), "{:?}", expr.kind);
    }
}

#[test]
fn what_is_not_needed_does_not_raise() {
    let guard = |op| Expr::compare(op, col(0, &Int64), param(1, &Int64)).unwrap();
    let safe = Expr::and(guard(CompareOp::NotEq), raises_on_zero(0)).unwrap();
    let input = batch(vec![ints(&[Some(0), Some(1)])]);
    let found = evaluate(&safe, &one_and_zero(), &input).unwrap();
    assert_eq!(&found, &flags(&[F, T]));
    let safe = Expr::or(guard(CompareOp::Eq), raises_on_zero(0)).unwrap();
    let found = evaluate(&safe, &one_and_zero(), &input).unwrap();
    assert_eq!(&found, &flags(&[T, T]));
    let cases = vec![(guard(CompareOp::Eq), guard(CompareOp::Eq))];
    let lazy = Expr::case(cases, Some(raises_on_zero(0)), Boolean).unwrap();
    let found = evaluate(&lazy, &one_and_zero(), &input).unwrap();
    assert_eq!(&found, &flags(&[T, T]));
    let error = evaluate(&raises_on_zero(0), &one_and_zero(), &input).unwrap_err();
    assert!(error.is_arithmetic());
}

#[test]
fn case_takes_the_first_true() {
    let branches = vec![
        (col(0, &Boolean), col(2, &Int64)),
        (col(1, &Boolean), col(3, &Int64)),
    ];
    let columns = || {
        vec![
            flags(&[T, F, N, F]),
            flags(&[T, T, T, N]),
            ints(&[Some(1); 4]),
            ints(&[Some(2), None, Some(2), Some(2)]),
        ]
    };
    let without = Expr::case(branches.clone(), None, Int64).unwrap();
    let found = eval(&without, columns()).unwrap();
    assert_eq!(&found, &ints(&[Some(1), None, Some(2), None]));
    let otherwise = Some(col(2, &Int64));
    let with = Expr::case(branches, otherwise, Int64).unwrap();
    let found = eval(&with, columns()).unwrap();
    assert_eq!(&found, &ints(&[Some(1), None, Some(2), Some(1)]));
}

#[test]
fn membership() {
    let parameters = [
        scalar(Int64, ScalarValue::Int(1)),
        scalar(Int64, ScalarValue::Int(3)),
        scalar(Int64, ScalarValue::Null),
    ];
    let needles = || batch(vec![ints(&[Some(1), Some(2), None])]);
    let items = |indexes: &[usize]| indexes.iter().map(|index| param(*index, &Int64)).collect();
    let cases = [
        (vec![0, 1], false, [T, F, N]),
        (vec![0, 1], true, [F, T, N]),
        (vec![0, 2], false, [T, N, N]),
        (vec![0, 2], true, [F, N, N]),
        (vec![2], false, [N, N, N]),
    ];
    for (indexes, negated, expected) in cases {
        let expr = Expr::in_list(col(0, &Int64), items(&indexes), negated).unwrap();
        let found = evaluate(&expr, &parameters, &needles()).unwrap();
        assert_eq!(&found, &flags(&expected), "{indexes:?} {negated}");
    }
}

#[test]
fn floats_in_a_list_match_as_they_are_equal() {
    let needles: ArrayRef = Arc::new(Float64Array::from(vec![
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        1.0,
    ]));
    let float = |value| scalar(Float64, ScalarValue::Float(value));
    let parameters = [float(0.0), float(f64::NAN)];
    let list = vec![param(0, &Float64), param(1, &Float64)];
    let expr = Expr::in_list(col(0, &Float64), list, false).unwrap();
    let found = evaluate(&expr, &parameters, &batch(vec![needles])).unwrap();
    assert_eq!(&found, &flags(&[T, T, T, T, F]));
}

#[test]
fn like_of_parameters_and_columns() {
    let texts = || strings(&[Some("abc"), Some("xyz"), None]);
    let fixed = Expr::like(col(0, &Utf8), param(0, &Utf8), false, false).unwrap();
    let input = batch(vec![texts()]);
    let found = evaluate(&fixed, &[text("a%")], &input).unwrap();
    assert_eq!(&found, &flags(&[T, F, N]));
    let negated = Expr::like(col(0, &Utf8), param(0, &Utf8), true, true).unwrap();
    let found = evaluate(&negated, &[text("A%")], &input).unwrap();
    assert_eq!(&found, &flags(&[F, T, N]));
    let null = scalar(Utf8, ScalarValue::Null);
    let found = evaluate(&fixed, &[null], &input).unwrap();
    assert_eq!(&found, &flags(&[N, N, N]));
    let patterns: ArrayRef = Arc::new(StringViewArray::from(vec![Some("%c"), None, Some("%")]));
    let varying = Expr::like(col(0, &Utf8), col(1, &Utf8View), false, false).unwrap();
    let found = eval(&varying, vec![texts(), patterns]).unwrap();
    assert_eq!(&found, &flags(&[T, N, N]));
}

#[test]
fn substrings() {
    let cases = [
        ("alphabet", 1, None, "alphabet"),
        ("alphabet", 3, Some(2), "ph"),
        ("alphabet", 3, Some(20), "phabet"),
        ("alphabet", 0, None, "alphabet"),
        ("alphabet", -3, None, "alphabet"),
        ("alphabet", 0, Some(5), "alph"),
        ("alphabet", -5, Some(5), ""),
        ("alphabet", -2, Some(5), "al"),
        ("alphabet", 30, None, ""),
        ("alphabet", 8, Some(1), "t"),
        ("alphabet", 9, Some(1), ""),
        ("alphabet", 3, Some(0), ""),
        ("alphabet", 2, Some(i64::MAX), "lphabet"),
        ("alphabet", i64::MAX, Some(i64::MAX), ""),
        ("joséésoj", 5, None, "ésoj"),
        ("joséésoj", 4, Some(2), "éé"),
        ("Hi🌏", 3, Some(1), "🌏"),
        ("", 1, Some(1), ""),
    ];
    for (text, start, length, expected) in cases {
        let expr = Expr::substring(col(0, &Utf8), start, length, Utf8).unwrap();
        let found = eval(&expr, vec![strings(&[Some(text)])]).unwrap();
        let shown = format!("{text} {start} {length:?}");
        assert_eq!(&found, &strings(&[Some(expected)]), "{shown}");
    }
    let expr = Expr::substring(col(0, &Utf8), 2, Some(1), Utf8View).unwrap();
    let found = eval(&expr, vec![strings(&[Some("abc"), None])]).unwrap();
    let expected: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), None]));
    assert_eq!(&found, &expected);
}
