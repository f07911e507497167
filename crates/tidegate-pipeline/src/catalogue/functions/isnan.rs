//! `isnan(a)`; what is no float is none.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, ScalarEntry, Signature, floats};
use crate::check::Unsupported;
use crate::program::Comparison;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "isnan",
    datafusion: &["isnan"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        let argument = &signature.arguments[0];
        if !argument.is_numeric() {
            return Err(Unsupported::new(format!("isnan of {argument}")));
        }
        signature.gives_boolean("isnan")
    },
    lower: |builder, arguments| {
        floats::strict(builder, arguments, |builder, value| {
            if !builder.data(value).is_float() {
                return builder.bool(false);
            }
            // NaN alone compares as greater.
            let greatest = floats::constant(builder, f64::INFINITY, value);
            builder.compare(Comparison::Greater, value, greatest)
        })
    },
    accuracy: Accuracy::Exact,
    signatures: || {
        [
            DataType::Float64,
            DataType::Float32,
            DataType::Int32,
            DataType::Decimal128(15, 2),
        ]
        .map(|of| Signature::new(vec![of], DataType::Boolean))
        .into()
    },
}];
