//! `lower(a)` by Unicode, with its rule for the last sigma of a word.

use crate::catalogue::texts::{self, gives_first, takes};
use crate::catalogue::{Accuracy, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "lower",
    datafusion: &["lower"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("lower", signature, 1)?;
        gives_first("lower", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 0, Clone::clone),
}];

static KERNEL: Kernel = texts::kernel("lower", |arguments| {
    arguments[0].text().to_lowercase().into()
});
