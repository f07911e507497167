//! Three-valued AND: FALSE wins over NULL, and the right side is not wanted where the left one is FALSE.

use super::or::{connect, signatures, types};
use crate::catalogue::{Accuracy, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "and",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types,
    lower: |builder, arguments| connect(false, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures,
}];
