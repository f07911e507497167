//! `cos(a)`, of an angle in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["cos"],
    |signature| floats::types("cos", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("cos", f64::cos, "cos({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single("cos of singles", f32::cos, "cosf({0})", Accuracy::Ulps(4));
