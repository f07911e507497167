//! `asin(a)` in radians; NaN outside of −1 to 1.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["asin"],
    |signature| floats::types("asin", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("asin", f64::asin, "asin({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single(
    "asin of singles",
    f32::asin,
    "asinf({0})",
    Accuracy::Ulps(4),
);
