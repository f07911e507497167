//! `degrees(a)` of radians. A product, which every backend rounds alike.

use crate::catalogue::{Accuracy, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["degrees"],
    |signature| floats::types("degrees", signature),
    |builder, arguments| {
        let (double, single) = (f64::to_degrees(1.0), f32::to_degrees(1.0));
        floats::scaled(builder, arguments, double, single)
    },
    Accuracy::Exact,
)];
