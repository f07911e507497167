//! `cbrt(a)`, the cubic root.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["cbrt"],
    |signature| floats::types("cbrt", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("cbrt", f64::cbrt, "cbrt({0})", Accuracy::Ulps(3));
static SINGLE: Kernel = floats::single(
    "cbrt of singles",
    f32::cbrt,
    "cbrtf({0})",
    Accuracy::Ulps(3),
);
