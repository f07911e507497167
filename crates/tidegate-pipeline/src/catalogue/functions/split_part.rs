//! `split_part(a, delimiter, n)`: the `n`th part, from the end for `n` below 0; place 0 raises. An empty
//! delimiter does not divide.

use crate::catalogue::texts::{self, gives_text};
use crate::catalogue::{Arguments, Kernel, Lowered, ScalarEntry};
use crate::program::{Builder, Comparison, Nullable, Raised};

pub(super) static ENTRIES: &[ScalarEntry] = &[texts::entry(
    &["split_part"],
    (3, 3),
    |signature| gives_text("split_part", signature, 2),
    lower,
    || texts::signatures(2, 1, Clone::clone),
)];

const PLACE: &str = "field position must not be zero";

static KERNEL: Kernel = texts::kernel("split_part", |arguments| {
    let (text, delimiter, n) = (arguments[0].text(), arguments[1].text(), arguments[2].int());
    let Some(place) = n.unsigned_abs().checked_sub(1) else {
        return "".into();
    };
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    let part = match (delimiter, n > 0) {
        ("", _) => (place == 0).then_some(text),
        (_, true) => text.split(delimiter).nth(place),
        (_, false) => text.rsplit(delimiter).nth(place),
    };
    part.unwrap_or("").into()
});

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([text, delimiter, place], valid) = arguments.strict(builder)?;
    let zero = builder.int(0);
    let is_zero = builder.compare(Comparison::Equal, place, zero);
    builder.raise(is_zero, valid, Raised::Domain { what: PLACE });
    let value = builder.call(&KERNEL, vec![text, delimiter, place]);
    Ok(Nullable { value, valid })
}
