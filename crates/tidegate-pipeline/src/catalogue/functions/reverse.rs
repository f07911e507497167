//! `reverse(a)`, character by character.

use crate::catalogue::texts::{self, gives_first};
use crate::catalogue::{Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["reverse"],
    (1, 1),
    |signature| gives_first("reverse", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, Clone::clone),
)];

static KERNEL: Kernel = texts::kernel("reverse", |arguments| {
    arguments[0].text().chars().rev().collect::<String>().into()
});
