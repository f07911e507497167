//! `strpos(a, b)`: the first place of `b` in characters, counted from 1; 0 if it is not in `a`.

use crate::catalogue::texts::{self, gives_offset};
use crate::catalogue::{Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["strpos"],
    (2, 2),
    |signature| gives_offset("strpos", signature, 2),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(2, 0, texts::offset),
)];

static KERNEL: Kernel = texts::measure(
    "strpos",
    Body::Text2Int(|text, part| {
        let found = text.find(part);
        found.map_or(0, |at| text[..at].chars().count() as i64 + 1)
    }),
);
