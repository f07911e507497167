//! `log10(a)`; NaN below 0.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["log10"],
    |signature| floats::types("log10", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("log10", f64::log10, "log10({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single(
    "log10 of singles",
    f32::log10,
    "log10f({0})",
    Accuracy::Ulps(4),
);
