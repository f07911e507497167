//! `bit_length(a)`.

use crate::catalogue::texts::{self, gives_offset};
use crate::catalogue::{Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["bit_length"],
    (1, 1),
    |signature| gives_offset("bit_length", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, texts::offset),
)];

static KERNEL: Kernel = texts::measure("bit_length", Body::TextInt(|text| (text.len() * 8) as i64));
