//! `cos(a)`, of an angle in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "cos",
    datafusion: &["cos"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("cos", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("cos", f64::cos, "cos({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single("cos of singles", f32::cos, "cosf({0})", Accuracy::Ulps(4));
