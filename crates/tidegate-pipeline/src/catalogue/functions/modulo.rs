//! `a % b`, of the dividend's sign: integers and decimals raise for 0; MIN % −1 is 0 for integers, and
//! raises for decimals.

use crate::catalogue::arithmetic::{OPERANDS, lower, pairs, types};
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::expr::ArithmeticOp;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "modulo",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types: |signature| types(ArithmeticOp::Modulo, signature),
    lower: |builder, arguments| lower(ArithmeticOp::Modulo, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures: || pairs(ArithmeticOp::Modulo, &[OPERANDS]),
}];
