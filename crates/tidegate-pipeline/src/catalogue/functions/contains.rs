//! `contains(a, b)`.

use arrow_schema::DataType;

use crate::catalogue::{Kernel, ScalarEntry, texts};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["contains"],
    (2, 2),
    |signature| texts::gives_boolean("contains", signature),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(2, 0, |_| DataType::Boolean),
)];

static KERNEL: Kernel = texts::matches("contains", |text, part| text.contains(part));
