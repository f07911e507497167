//! `log10(a)`; NaN below 0.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "log10",
    datafusion: &["log10"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("log10", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("log10", f64::log10, "log10({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single(
    "log10 of singles",
    f32::log10,
    "log10f({0})",
    Accuracy::Ulps(4),
);
