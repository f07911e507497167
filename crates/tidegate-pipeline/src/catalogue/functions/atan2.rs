//! `atan2(y, x)` in radians.

use crate::catalogue::floats::{any_double, any_single};
use crate::catalogue::{Accuracy, Body, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "atan2",
    datafusion: &["atan2"],
    constants: &[],
    arity: (2, 2),
    types: |signature| floats::types("atan2", signature),
    lower: |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    accuracy: DOUBLE.accuracy,
    signatures: || floats::signatures(2),
}];

static DOUBLE: Kernel = Kernel {
    name: "atan2",
    accuracy: Accuracy::Ulps(5),
    body: Body::Float2(f64::atan2),
    gives: any_double,
    cuda: Some("atan2({0}, {1})"),
};

static SINGLE: Kernel = Kernel {
    name: "atan2 of singles",
    accuracy: Accuracy::Ulps(5),
    body: Body::Single2(f32::atan2),
    gives: any_single,
    cuda: Some("atan2f({0}, {1})"),
};
