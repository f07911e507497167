//! `reverse(a)`, character by character.

use crate::catalogue::texts::{self, gives_first, takes};
use crate::catalogue::{Accuracy, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "reverse",
    datafusion: &["reverse"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        takes("reverse", signature, 1)?;
        gives_first("reverse", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    oracle: |_, args| {
        use crate::interpret::value::Value;

        Ok(match args[0] {
            Value::Utf8(text) => texts::kept({
                let mut characters: Vec<char> = text.chars().collect();
                characters.reverse();
                characters.into_iter().collect()
            }),
            other => other,
        })
    },
    signatures: || texts::signatures(1, 0, Clone::clone),
}];

static KERNEL: Kernel = texts::kernel("reverse", |arguments| {
    arguments[0].text().chars().rev().collect::<String>().into()
});
