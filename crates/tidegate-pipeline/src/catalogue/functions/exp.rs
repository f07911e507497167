//! `exp(a)`.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "exp",
    datafusion: &["exp"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("exp", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("exp", f64::exp, "exp({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single("exp of singles", f32::exp, "expf({0})", Accuracy::Ulps(4));
