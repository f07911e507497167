//! `starts_with(a, b)`.

use arrow_schema::DataType;

use crate::catalogue::{Kernel, ScalarEntry, texts};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["starts_with"],
    (2, 2),
    |signature| texts::gives_boolean("starts_with", signature),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(2, 0, |_| DataType::Boolean),
)];

static KERNEL: Kernel = texts::matches("starts_with", |text, prefix| text.starts_with(prefix));
