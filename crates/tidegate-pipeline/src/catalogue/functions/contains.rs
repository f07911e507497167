//! `contains(a, b)`.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, texts};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "contains",
    datafusion: &["contains"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        texts::takes("contains", signature, 2)?;
        signature.gives_boolean("contains")
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(2, 0, |_| DataType::Boolean),
}];

static KERNEL: Kernel = texts::matches("contains", |text, part| text.contains(part));
