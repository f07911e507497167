//! `starts_with(a, b)`.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, texts};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "starts_with",
    datafusion: &["starts_with"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        texts::takes("starts_with", signature, 2)?;
        signature.gives_boolean("starts_with")
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(2, 0, |_| DataType::Boolean),
}];

static KERNEL: Kernel = texts::matches("starts_with", |text, prefix| text.starts_with(prefix));
