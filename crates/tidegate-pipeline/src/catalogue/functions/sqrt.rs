//! `sqrt(a)`, rounded as IEEE 754 has it; below 0 it raises.

use crate::catalogue::{Accuracy, Arguments, Kernel, Lowered, ScalarEntry, floats};
use crate::program::{Builder, Comparison, Nullable, Raised};

pub(super) static ENTRIES: &[ScalarEntry] = &[floats::entry(
    &["sqrt"],
    |signature| floats::types("sqrt", signature),
    lower,
    Accuracy::Exact,
)];

const NEGATIVE: &str = "cannot take square root of a negative number";

static SINGLE: Kernel = floats::single("sqrt of singles", f32::sqrt, "sqrtf({0})", Accuracy::Exact);

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let Nullable { value, valid } = arguments.lower(builder, 0)?;
    let zero = floats::constant(builder, 0.0, value);
    let is_negative = builder.compare(Comparison::Less, value, zero);
    builder.raise(is_negative, valid, Raised::Domain { what: NEGATIVE });
    floats::lower(builder, arguments, &floats::SQRT, &SINGLE)
}
