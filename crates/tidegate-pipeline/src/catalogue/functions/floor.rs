//! `floor(a)` of floats and decimals, down.

use crate::catalogue::ScalarEntry;
use crate::catalogue::whole::{self, NextWhole};

pub(super) static ENTRIES: &[ScalarEntry] = &[whole::entry(
    &["floor"],
    |signature| FLOOR.types(signature),
    |builder, arguments| FLOOR.lower(builder, arguments),
)];

static FLOOR: NextWhole = NextWhole {
    name: "floor",
    double: whole::double("floor", f64::floor, "floor({0})"),
    single: whole::single("floor of singles", f32::floor, "floorf({0})"),
    step: -1,
};
