//! `ends_with(a, b)`.

use arrow_schema::DataType;

use crate::catalogue::{Kernel, ScalarEntry, texts};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["ends_with"],
    (2, 2),
    |signature| texts::gives_boolean("ends_with", signature),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(2, 0, |_| DataType::Boolean),
)];

static KERNEL: Kernel = texts::matches("ends_with", |text, suffix| text.ends_with(suffix));
