//! `exp(a)`.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["exp"],
    |signature| floats::types("exp", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    DOUBLE.accuracy,
)];

static DOUBLE: Kernel = floats::double("exp", f64::exp, "exp({0})", Accuracy::Ulps(4));
static SINGLE: Kernel = floats::single("exp of singles", f32::exp, "expf({0})", Accuracy::Ulps(4));
