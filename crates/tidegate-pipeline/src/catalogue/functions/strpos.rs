//! `strpos(a, b)`: the first place of `b` in characters, counted from 1; 0 if it is not in `a`.

use crate::catalogue::texts::{self, gives_offset, takes};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "strpos",
    datafusion: &["strpos"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        takes("strpos", signature, 2)?;
        gives_offset("strpos", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    oracle: |_, args| {
        use crate::interpret::value::Value;

        Ok(match (args[0], args[1]) {
            (Value::Utf8(text), Value::Utf8(part)) => {
                let mut places = (1..).zip(text.char_indices());
                let starts = |at: usize| text[at..].starts_with(part);
                let found = places.find(|(_, (at, _))| starts(*at));
                let is_empty = part.is_empty();
                Value::Int(found.map_or(i64::from(is_empty), |(place, _)| place))
            }
            _ => Value::Null,
        })
    },
    signatures: || texts::signatures(2, 0, texts::offset),
}];

static KERNEL: Kernel = texts::measure(
    "strpos",
    Body::Text2Int(|text, part| {
        let found = text.find(part);
        found.map_or(0, |at| text[..at].chars().count() as i64 + 1)
    }),
);
