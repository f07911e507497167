//! `log2(a)`; NaN below 0.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "log2",
    datafusion: &["log2"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("log2", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("log2", f64::log2, "log2({0})", Accuracy::Ulps(3));
static SINGLE: Kernel = floats::single(
    "log2 of singles",
    f32::log2,
    "log2f({0})",
    Accuracy::Ulps(3),
);
