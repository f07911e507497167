//! `coalesce(a, …)`: the first value that is there. Those after it are not evaluated.

use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, choice};
use crate::program::{Builder, Nullable};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "coalesce",
    datafusion: &["coalesce"],
    constants: &[],
    arity: (1, usize::MAX),
    types: |signature| choice::types("coalesce", signature),
    lower,
    accuracy: Accuracy::Exact,
    signatures: || choice::signatures(3),
}];

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let mut found = arguments.lower(builder, 0)?;
    for index in 1..arguments.num() {
        if builder.is(found.valid, true) {
            break;
        }
        let is_open = builder.not(found.valid);
        let next = builder.guarded(is_open, |builder| arguments.lower(builder, index))?;
        found = Nullable {
            value: builder.select(found.valid, found.value, next.value),
            valid: builder.or(found.valid, next.valid),
        };
    }
    Ok(found)
}
