//! `acos(a)` in radians; NaN outside of −1 to 1.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["acos"],
    |signature| floats::types("acos", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("acos", f64::acos, "acos({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single(
    "acos of singles",
    f32::acos,
    "acosf({0})",
    Accuracy::Ulps(4),
);
