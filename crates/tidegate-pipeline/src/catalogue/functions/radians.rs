//! `radians(a)` of degrees. A product, which every backend rounds alike.

use crate::catalogue::{Accuracy, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["radians"],
    |signature| floats::types("radians", signature),
    |builder, arguments| {
        let (double, single) = (f64::to_radians(1.0), f32::to_radians(1.0));
        floats::scaled(builder, arguments, double, single)
    },
    Accuracy::Exact,
)];
