//! `tan(a)`, of an angle in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["tan"],
    |signature| floats::types("tan", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("tan", f64::tan, "tan({0})", Accuracy::Ulps(6));
static SINGLE: Kernel = floats::single("tan of singles", f32::tan, "tanf({0})", Accuracy::Ulps(6));
