//! `a * b`: integers wrap, decimals raise where their width does not hold the result.

use crate::catalogue::arithmetic::{OPERANDS, lower, pairs, types};
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::expr::ArithmeticOp;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "multiply",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types: |signature| types(ArithmeticOp::Multiply, signature),
    lower: |builder, arguments| lower(ArithmeticOp::Multiply, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures: || pairs(ArithmeticOp::Multiply, &[OPERANDS]),
}];
