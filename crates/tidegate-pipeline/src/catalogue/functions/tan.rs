//! `tan(a)`, of an angle in radians.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "tan",
    datafusion: &["tan"],
    constants: &[],
    arity: (1, 1),
    types: |signature| floats::types("tan", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(1),
}];

static DOUBLE: Kernel = floats::double("tan", f64::tan, "tan({0})", Accuracy::Ulps(6));
static SINGLE: Kernel = floats::single("tan of singles", f32::tan, "tanf({0})", Accuracy::Ulps(6));
