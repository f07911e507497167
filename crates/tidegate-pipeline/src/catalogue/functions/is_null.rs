//! `a IS NULL` and `a IS NOT NULL`.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, ScalarEntry, Signature};
use crate::program::Nullable;

pub(super) static ENTRIES: &[ScalarEntry] = &[
    ScalarEntry {
        name: "is_null",
        datafusion: &[],
        constants: &[],
        arity: (1, 1),
        types: |signature| signature.gives_boolean("IS NULL"),
        lower: |builder, arguments| {
            let valid = arguments.lower(builder, 0)?.valid;
            let value = builder.not(valid);
            let valid = builder.bool(true);
            Ok(Nullable { value, valid })
        },
        accuracy: Accuracy::Exact,
        signatures,
    },
    ScalarEntry {
        name: "is_not_null",
        datafusion: &[],
        constants: &[],
        arity: (1, 1),
        types: |signature| signature.gives_boolean("IS NOT NULL"),
        lower: |builder, arguments| {
            let value = arguments.lower(builder, 0)?.valid;
            let valid = builder.bool(true);
            Ok(Nullable { value, valid })
        },
        accuracy: Accuracy::Exact,
        signatures,
    },
];

fn signatures() -> Vec<Signature> {
    let of = [DataType::Int32, DataType::Float64, DataType::Utf8];
    of.map(|data_type| Signature::new(vec![data_type], DataType::Boolean))
        .into()
}
