//! `bit_length(a)`.

use crate::catalogue::texts::{self, gives_offset, takes};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "bit_length",
    datafusion: &["bit_length"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("bit_length", signature, 1)?;
        gives_offset("bit_length", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 0, texts::offset),
}];

static KERNEL: Kernel = texts::measure("bit_length", Body::TextInt(|text| (text.len() * 8) as i64));
