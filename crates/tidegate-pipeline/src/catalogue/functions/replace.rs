//! `replace(a, from, to)`: every `from`, from the left; of an empty one there is none.

use crate::catalogue::texts::{self, gives_text};
use crate::catalogue::{Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["replace"],
    (3, 3),
    |signature| gives_text("replace", signature, 3),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || {
        let mut signatures = texts::signatures(3, 0, Clone::clone);
        signatures.retain(|signature| signature.result != arrow_schema::DataType::Utf8View);
        signatures
    },
)];

static KERNEL: Kernel = texts::kernel("replace", |arguments| {
    let (text, from) = (arguments[0].text(), arguments[1].text());
    match from {
        "" => text.into(),
        _ => text.replace(from, arguments[2].text()).into(),
    }
});
