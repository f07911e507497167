//! `ceil(a)` of floats and decimals, up.

use crate::catalogue::ScalarEntry;
use crate::catalogue::whole::{self, NextWhole};

pub(super) static ENTRIES: &[ScalarEntry] = &[whole::entry(
    &["ceil"],
    |signature| CEIL.types(signature),
    |builder, arguments| CEIL.lower(builder, arguments),
)];

static CEIL: NextWhole = NextWhole {
    name: "ceil",
    double: whole::double("ceil", f64::ceil, "ceil({0})"),
    single: whole::single("ceil of singles", f32::ceil, "ceilf({0})"),
    step: 1,
};
