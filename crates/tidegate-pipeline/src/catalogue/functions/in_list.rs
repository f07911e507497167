//! `a [NOT] IN (b, …)`: an item is not wanted where the needle is NULL or was found before it.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Arguments, Lowered, Options, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::program::{Builder, Comparison, Nullable};
use crate::types::same_values;

/// The most items. Each is a comparison for every row: a longer list is for a set to look values up in.
const ITEMS_MAX: usize = 1000;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "in",
    datafusion: &[],
    constants: &[],
    arity: (1, usize::MAX),
    types,
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

fn types(signature: &Signature) -> Result<(), Unsupported> {
    let [needle, list @ ..] = signature.arguments.as_slice() else {
        return Err(Unsupported::new("IN without a needle"));
    };
    if list.is_empty() {
        return Err(Unsupported::new("an empty IN list"));
    }
    if list.len() > ITEMS_MAX {
        let what = format!(
            "an IN list of {} items, where rows are compared with at most {ITEMS_MAX}",
            list.len()
        );
        return Err(Unsupported::new(what));
    }
    if let Some(item) = list.iter().find(|item| !same_values(needle, item)) {
        return Err(Unsupported::new(format!("{needle} IN a list with {item}")));
    }
    signature.gives_boolean("IN")
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let needle = arguments.lower(builder, 0)?;
    let (mut found, mut all_there) = (builder.bool(false), builder.bool(true));
    for index in 1..arguments.num() {
        let is_open = builder.not(found);
        let wanted = builder.and(needle.valid, is_open);
        let item = builder.guarded(wanted, |builder| arguments.lower(builder, index))?;
        let same = builder.compare(Comparison::Equal, needle.value, item.value);
        let is_it = builder.and(item.valid, same);
        found = builder.or(found, is_it);
        all_there = builder.and(all_there, item.valid);
    }
    let is_known = builder.or(found, all_there);
    let negated = matches!(arguments.signature.options, Options::Negated(true));
    Ok(Nullable {
        value: if negated { builder.not(found) } else { found },
        valid: builder.and(needle.valid, is_known),
    })
}

fn signatures() -> Vec<Signature> {
    use DataType::{Boolean, Date32, Decimal64, Float32, Int16, UInt64, Utf8};

    let mut signatures = Vec::new();
    for data_type in [
        Boolean,
        Int16,
        UInt64,
        Float32,
        Decimal64(12, 3),
        Date32,
        Utf8,
    ] {
        for (items, negated) in [(1, false), (3, false), (3, true)] {
            let arguments = vec![data_type.clone(); items + 1];
            let options = Options::Negated(negated);
            signatures.push(Signature::with(arguments, Boolean, options));
        }
    }
    signatures
}
