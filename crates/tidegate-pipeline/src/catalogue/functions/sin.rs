//! `sin(a)`, of an angle in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["sin"],
    |signature| floats::types("sin", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("sin", f64::sin, "sin({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single("sin of singles", f32::sin, "sinf({0})", Accuracy::Ulps(4));
