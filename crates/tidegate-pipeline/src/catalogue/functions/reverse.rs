//! `reverse(a)`, character by character.

use crate::catalogue::texts::{self, gives_first, takes};
use crate::catalogue::{Accuracy, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "reverse",
    datafusion: &["reverse"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("reverse", signature, 1)?;
        gives_first("reverse", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 0, Clone::clone),
}];

static KERNEL: Kernel = texts::kernel("reverse", |arguments| {
    arguments[0].text().chars().rev().collect::<String>().into()
});
