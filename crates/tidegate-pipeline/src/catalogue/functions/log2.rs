//! `log2(a)`; NaN below 0.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["log2"],
    |signature| floats::types("log2", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("log2", f64::log2, "log2({0})", Accuracy::Ulps(3));
static SINGLE: Kernel = floats::single(
    "log2 of singles",
    f32::log2,
    "log2f({0})",
    Accuracy::Ulps(3),
);
