//! `power(a, b)` of doubles; 0 to a negative power raises.

use arrow_schema::DataType;

use crate::catalogue::floats::{any_double, types};
use crate::catalogue::{Accuracy, Arguments, Body, Kernel, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::program::{Builder, Comparison, Nullable, Raised};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "power",
    datafusion: &["power"],
    constants: &[],
    arity: (2, 2),
    types: |signature| match signature.arguments[0] {
        DataType::Float64 => types("power", signature),
        ref other => Err(Unsupported::new(format!("power of {other}"))),
    },
    lower,
    accuracy: POWER.accuracy,
    signatures: || {
        vec![Signature::new(
            vec![DataType::Float64; 2],
            DataType::Float64,
        )]
    },
}];

const UNDEFINED: &str = "zero raised to a negative power is undefined";

static POWER: Kernel = Kernel {
    name: "power",
    accuracy: Accuracy::Ulps(5),
    body: Body::Float2(f64::powf),
    gives: any_double,
    cuda: Some("pow({0}, {1})"),
};

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([base, power], valid) = arguments.strict(builder)?;
    let zero = builder.float(0.0);
    let is_zero = builder.compare(Comparison::Equal, base, zero);
    let is_negative = builder.compare(Comparison::Less, power, zero);
    let is_undefined = builder.and(is_zero, is_negative);
    builder.raise(is_undefined, valid, Raised::Domain { what: UNDEFINED });
    let value = builder.call(&POWER, vec![base, power]);
    Ok(Nullable { value, valid })
}
