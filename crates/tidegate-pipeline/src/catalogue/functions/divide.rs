//! `a / b`: integers and decimals are rounded towards zero, and raise for 0 and where MIN / −1 does not fit.

use crate::catalogue::arithmetic::{OPERANDS, lower, pairs, types};
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::expr::ArithmeticOp;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "divide",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types: |signature| types(ArithmeticOp::Divide, signature),
    lower: |builder, arguments| lower(ArithmeticOp::Divide, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures: || pairs(ArithmeticOp::Divide, &[OPERANDS]),
}];
