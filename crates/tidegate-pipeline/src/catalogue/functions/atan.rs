//! `atan(a)` in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["atan"],
    |signature| floats::types("atan", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("atan", f64::atan, "atan({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single(
    "atan of singles",
    f32::atan,
    "atanf({0})",
    Accuracy::Ulps(4),
);
