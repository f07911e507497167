//! `ascii(a)`: the code point of the first character, 0 if there is none.

use crate::catalogue::texts::{self, takes};
use crate::catalogue::{Body, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["ascii"],
    (1, 1),
    |signature| {
        takes("ascii", signature, 1)?;
        signature.gives("ascii", &arrow_schema::DataType::Int32)
    },
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 0, |_| arrow_schema::DataType::Int32),
)];

static KERNEL: Kernel = texts::measure(
    "ascii",
    Body::TextInt(|text| (text.chars().next().map_or(0, |c| c as usize)) as i64),
);
