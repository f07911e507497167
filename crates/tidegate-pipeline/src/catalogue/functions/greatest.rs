//! `greatest(a, …)`: the greatest of the values that are there, NULL if none is. A float comes out canonical.

use crate::catalogue::choice;
use crate::catalogue::{Accuracy, ScalarEntry};
use crate::program::Comparison;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "greatest",
    datafusion: &["greatest"],
    constants: &[],
    arity: (1, usize::MAX),
    types: |signature| choice::types("greatest", signature),
    lower: |builder, arguments| choice::extreme(builder, arguments, Comparison::GreaterOrEqual),
    accuracy: Accuracy::Exact,
    signatures: || choice::signatures(3),
}];
