//! `ln(a)`; NaN below 0.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["ln"],
    |signature| floats::types("ln", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("ln", f64::ln, "log({0})", Accuracy::Ulps(3));
static SINGLE: Kernel = floats::single("ln of singles", f32::ln, "logf({0})", Accuracy::Ulps(3));
