//! `lower(a)` by Unicode, with its rule for the last sigma of a word.

use crate::catalogue::texts::{self, gives_first};
use crate::catalogue::{Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["lower"],
    (1, 1),
    |signature| gives_first("lower", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, Clone::clone),
)];

static KERNEL: Kernel = texts::kernel("lower", |arguments| {
    arguments[0].text().to_lowercase().into()
});
