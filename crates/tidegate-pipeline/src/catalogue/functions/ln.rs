//! `ln(a)`; NaN below 0.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "ln",
    datafusion: &["ln"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("ln", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("ln", f64::ln, "log({0})", Accuracy::Ulps(3));
static SINGLE: Kernel = floats::single("ln of singles", f32::ln, "logf({0})", Accuracy::Ulps(3));
