//! `bit_length(a)`.

use crate::catalogue::texts::{self, gives_offset, takes};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "bit_length",
    datafusion: &["bit_length"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("bit_length", signature, 1)?;
        gives_offset("bit_length", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    oracle: |_, args| {
        use crate::interpret::value::Value;

        Ok(match args[0] {
            Value::Utf8(text) => {
                Value::Int((text.chars().map(char::len_utf8).sum::<usize>() * 8) as i64)
            }
            other => other,
        })
    },
    signatures: || texts::signatures(1, 0, texts::offset),
}];

static KERNEL: Kernel = texts::measure("bit_length", Body::TextInt(|text| (text.len() * 8) as i64));
