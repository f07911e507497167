//! `left(a, n)`: the first `n` characters; for `n` below 0 all but the last ones.

use crate::catalogue::texts::{self, gives_first, takes};
use crate::catalogue::{Accuracy, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "left",
    datafusion: &["left"],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        takes("left", signature, 1)?;
        gives_first("left", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || texts::signatures(1, 1, Clone::clone),
}];

static KERNEL: Kernel = texts::kernel("left", |arguments| {
    let (text, n) = (arguments[0].text(), arguments[1].int());
    let end = match usize::try_from(n) {
        Ok(n) => text.char_indices().nth(n),
        Err(_) => {
            let dropped = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
            let start = text.char_indices().nth_back(dropped - 1);
            return text[..start.map_or(0, |(at, _)| at)].into();
        }
    };
    text[..end.map_or(text.len(), |(at, _)| at)].into()
});
