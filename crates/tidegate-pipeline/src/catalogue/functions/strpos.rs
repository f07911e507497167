//! `strpos(a, b)`: the first place of `b` in characters, counted from 1; 0 if it is not in `a`.

use crate::catalogue::texts::{self, gives_offset, takes};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "strpos",
    datafusion: &["strpos"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        takes("strpos", signature, 2)?;
        gives_offset("strpos", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(2, 0, texts::offset),
}];

static KERNEL: Kernel = texts::measure(
    "strpos",
    Body::Text2Int(|text, part| {
        let found = text.find(part);
        found.map_or(0, |at| text[..at].chars().count() as i64 + 1)
    }),
);
