//! `cbrt(a)`, the cubic root.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "cbrt",
    datafusion: &["cbrt"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("cbrt", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("cbrt", f64::cbrt, "cbrt({0})", Accuracy::Ulps(3));
static SINGLE: Kernel = floats::single(
    "cbrt of singles",
    f32::cbrt,
    "cbrtf({0})",
    Accuracy::Ulps(3),
);
