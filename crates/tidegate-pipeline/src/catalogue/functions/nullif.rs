//! `nullif(a, b)`: NULL where the two are equal.

use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, choice};
use crate::check::Unsupported;
use crate::program::{Builder, Comparison, Nullable};
use crate::types::is_float;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "nullif",
    datafusion: &["nullif"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        choice::types("nullif", signature)?;
        match &signature.arguments[0] {
            // DataFusion tells NaNs apart by their bits.
            float if is_float(float) => Err(Unsupported::new(format!("nullif of {float}"))),
            _ => Ok(()),
        }
    },
    lower,
    accuracy: Accuracy::Exact,
    signatures: || {
        let mut signatures = choice::signatures(2);
        signatures.retain(|signature| !is_float(&signature.result));
        signatures
    },
}];

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let one = arguments.lower(builder, 0)?;
    let other = arguments.lower(builder, 1)?;
    let are_equal = builder.compare(Comparison::Equal, one.value, other.value);
    let are_equal = builder.and(are_equal, other.valid);
    let differ = builder.not(are_equal);
    Ok(Nullable {
        value: one.value,
        valid: builder.and(one.valid, differ),
    })
}
