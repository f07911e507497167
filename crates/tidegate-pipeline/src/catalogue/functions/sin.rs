//! `sin(a)`, of an angle in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "sin",
    datafusion: &["sin"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("sin", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("sin", f64::sin, "sin({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single("sin of singles", f32::sin, "sinf({0})", Accuracy::Ulps(4));
