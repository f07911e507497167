//! `octet_length(a)`, in bytes.

use crate::catalogue::texts::{self, gives_offset};
use crate::catalogue::{Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["octet_length"],
    (1, 1),
    |signature| gives_offset("octet_length", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, texts::offset),
)];

static KERNEL: Kernel = texts::measure("octet_length", Body::TextInt(|text| (text.len()) as i64));
