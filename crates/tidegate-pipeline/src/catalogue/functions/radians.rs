//! `radians(a)` of degrees. A product, which every backend rounds alike.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, ScalarEntry, floats};
use crate::program::FloatOp;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "radians",
    datafusion: &["radians"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("radians", signature),
    lower: |builder, arguments| {
        let factor = match arguments.signature.arguments[0] {
            DataType::Float32 => f64::from(f32::to_radians(1.0)),
            _ => f64::to_radians(1.0),
        };
        floats::strict(builder, arguments, |builder, value| {
            let factor = floats::constant(builder, factor, value);
            builder.float2(FloatOp::Multiply, value, factor)
        })
    },
    accuracy: Accuracy::Exact,
    signatures: || floats::signatures(1),
}];
