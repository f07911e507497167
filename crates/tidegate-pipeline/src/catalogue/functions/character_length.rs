//! `character_length(a)`, also `length` and `char_length`.

use crate::catalogue::texts::{self, gives_offset};
use crate::catalogue::{Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["character_length"],
    (1, 1),
    |signature| gives_offset("character_length", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, texts::offset),
)];

static KERNEL: Kernel = texts::measure(
    "character_length",
    Body::TextInt(|text| (text.chars().count()) as i64),
);
