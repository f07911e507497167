//! `left(a, n)`: the first `n` characters; for `n` below 0 all but the last ones.

use crate::catalogue::texts::{self, gives_first};
use crate::catalogue::{Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["left"],
    (2, 2),
    |signature| gives_first("left", signature, 1),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || texts::signatures(1, 1, Clone::clone),
)];

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
