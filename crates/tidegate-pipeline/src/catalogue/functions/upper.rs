//! `upper(a)` by Unicode.

use crate::catalogue::texts::{self, gives_first, takes};
use crate::catalogue::{Accuracy, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "upper",
    datafusion: &["upper"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("upper", signature, 1)?;
        gives_first("upper", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 0, Clone::clone),
}];

static KERNEL: Kernel = texts::kernel("upper", |arguments| {
    arguments[0].text().to_uppercase().into()
});
