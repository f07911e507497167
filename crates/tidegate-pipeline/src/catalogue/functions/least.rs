//! `least(a, …)`: the least of the values that are there, NULL if none is. A float comes out canonical.

use crate::catalogue::choice;
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::program::Comparison;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "least",
    datafusion: &["least"],
    constants: &[],
    arity: (1, usize::MAX),
    types: |signature| choice::types("least", signature),
    lower: |builder, arguments| choice::extreme(builder, arguments, Comparison::LessOrEqual),
    accuracy: Accuracy::Exact,
    signatures: || choice::signatures(3),
}];
