//! Three-valued NOT.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, ScalarEntry, Signature};
use crate::program::Nullable;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "not",
    datafusion: &[],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        signature.takes_boolean("the operand of NOT", 0)?;
        signature.gives_boolean("NOT")
    },
    lower: |builder, arguments| {
        let ([value], valid) = arguments.strict(builder)?;
        let value = builder.not(value);
        Ok(Nullable { value, valid })
    },
    accuracy: Accuracy::Exact,
    signatures: || vec![Signature::new(vec![DataType::Boolean], DataType::Boolean)],
}];
