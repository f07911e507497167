//! `octet_length(a)`, in bytes.

use crate::catalogue::texts::{self, gives_offset, takes};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "octet_length",
    datafusion: &["octet_length"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("octet_length", signature, 1)?;
        gives_offset("octet_length", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 0, texts::offset),
}];

static KERNEL: Kernel = texts::measure("octet_length", Body::TextInt(|text| (text.len()) as i64));
