//! `character_length(a)`, also `length` and `char_length`.

use crate::catalogue::texts::{self, gives_offset, takes};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "character_length",
    datafusion: &["character_length"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("character_length", signature, 1)?;
        gives_offset("character_length", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 0, texts::offset),
}];

static KERNEL: Kernel = texts::measure(
    "character_length",
    Body::TextInt(|text| (text.chars().count()) as i64),
);
