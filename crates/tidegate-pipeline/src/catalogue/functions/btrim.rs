//! `btrim(a[, characters])`: without those characters at both ends; without spaces if none are named.

use crate::catalogue::texts::{self, gives_first};
use crate::catalogue::{Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["btrim"],
    (1, 2),
    |signature| gives_first("btrim", signature, 2),
    |builder, arguments| arguments.call(builder, &KERNEL),
    || {
        [1, 2]
            .map(|num| texts::signatures(num, 0, Clone::clone))
            .concat()
    },
)];

static KERNEL: Kernel = texts::kernel("btrim", |arguments| {
    let text = arguments[0].text();
    let characters = arguments.get(1).map_or(" ", |of| of.text());
    let of = |c: char| characters.contains(c);
    text.trim_matches(of).into()
});
