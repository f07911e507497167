//! `atan(a)` in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "atan",
    datafusion: &["atan"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("atan", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("atan", f64::atan, "atan({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single(
    "atan of singles",
    f32::atan,
    "atanf({0})",
    Accuracy::Ulps(4),
);
