//! `a - b`: integers wrap, decimals and times raise where their width does not hold the result, dates give
//! days, and a date or timestamp is moved by an interval.

use crate::catalogue::arithmetic::{OPERANDS, TIMES, lower, pairs, types};
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::expr::ArithmeticOp;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "subtract",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types: |signature| types(ArithmeticOp::Subtract, signature),
    lower: |builder, arguments| lower(ArithmeticOp::Subtract, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures: || pairs(ArithmeticOp::Subtract, &[OPERANDS, TIMES]),
}];
