//! `ends_with(a, b)`.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, texts};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "ends_with",
    datafusion: &["ends_with"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        texts::takes("ends_with", signature, 2)?;
        signature.gives_boolean("ends_with")
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(2, 0, |_| DataType::Boolean),
}];

static KERNEL: Kernel = texts::matches("ends_with", |text, suffix| text.ends_with(suffix));
