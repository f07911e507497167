//! `rtrim(a[, characters])`: without those characters at the end; without spaces if none are named.

use crate::catalogue::texts::{self, gives_first, takes};
use crate::catalogue::{Accuracy, Kernel, ScalarEntry};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "rtrim",
    datafusion: &["rtrim"],
    constants: &[],
    arity: (1, 2),
    types: |signature| {
        takes("rtrim", signature, 2)?;
        gives_first("rtrim", signature)
    },
    lower: |builder, arguments| arguments.call(builder, &KERNEL),
    accuracy: Accuracy::Exact,
    signatures: || {
        [1, 2]
            .map(|num| texts::signatures(num, 0, Clone::clone))
            .concat()
    },
}];

static KERNEL: Kernel = texts::kernel("rtrim", |arguments| {
    let text = arguments[0].text();
    let characters = arguments.get(1).map_or(" ", |of| of.text());
    let of = |c: char| characters.contains(c);
    text.trim_end_matches(of).into()
});
