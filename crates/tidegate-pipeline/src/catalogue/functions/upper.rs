//! `upper(a)` by Unicode.

use crate::catalogue::texts::{self, gives_first};
use crate::catalogue::{Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["upper"],
    (1, 1),
    |signature| gives_first("upper", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, Clone::clone),
)];

static KERNEL: Kernel = texts::kernel("upper", |arguments| {
    arguments[0].text().to_uppercase().into()
});
