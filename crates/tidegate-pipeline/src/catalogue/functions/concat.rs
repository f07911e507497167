//! `concat(a, …)`: what is there, one after another; never NULL.

use crate::catalogue::texts::{self, gives_text};
use crate::catalogue::{Arguments, Kernel, Lowered, ScalarEntry};
use crate::program::{Builder, Nullable};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["concat"],
    (1, usize::MAX),
    |signature| gives_text("concat", signature, signature.arguments.len()),
    lower,
    || {
        [1, 2, 3]
            .map(|num| texts::signatures(num, 0, Clone::clone))
            .concat()
    },
)];

static KERNEL: Kernel = texts::kernel("concat", |arguments| {
    let texts = arguments.iter().map(|argument| argument.text());
    texts.collect::<String>().into()
});

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let mut texts = Vec::with_capacity(arguments.num());
    for index in 0..arguments.num() {
        let Nullable { value, valid } = arguments.lower(builder, index)?;
        let nothing = builder.text("");
        texts.push(builder.select(valid, value, nothing));
    }
    Ok(Nullable {
        value: builder.call(&KERNEL, texts),
        valid: builder.bool(true),
    })
}
