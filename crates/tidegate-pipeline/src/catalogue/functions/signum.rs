//! `signum(a)`: −1, 0 or 1; NaN for NaN.

use crate::catalogue::{Accuracy, Kernel, ScalarEntry, floats};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["signum"],
    |signature| floats::types("signum", signature),
    |builder, arguments| floats::lower(builder, arguments, &DOUBLE, &SINGLE),
    Accuracy::Exact,
)];

static DOUBLE: Kernel = Kernel {
    gives: floats::next_to_argument,
    ..floats::double(
        "signum",
        |value| if value == 0.0 { 0.0 } else { value.signum() },
        "({0} == 0.0 ? 0.0 : {0} != {0} ? {0} : copysign(1.0, {0}))",
        Accuracy::Exact,
    )
};

static SINGLE: Kernel = Kernel {
    gives: floats::next_to_argument,
    ..floats::single(
        "signum of singles",
        |value| if value == 0.0 { 0.0 } else { value.signum() },
        "({0} == 0.0f ? 0.0f : {0} != {0} ? {0} : copysignf(1.0f, {0}))",
        Accuracy::Exact,
    )
};
