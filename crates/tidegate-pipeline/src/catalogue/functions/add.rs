//! `a + b`: integers wrap, decimals and times raise where their width does not hold the result, a date or
//! timestamp is moved by an interval.

use crate::catalogue::arithmetic::{OPERANDS, TIMES, lower, pairs, types};
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::expr::ArithmeticOp;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "add",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types: |signature| types(ArithmeticOp::Add, signature),
    lower: |builder, arguments| lower(ArithmeticOp::Add, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures: || pairs(ArithmeticOp::Add, &[OPERANDS, TIMES]),
}];
