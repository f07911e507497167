//! `substr(a, start[, length])` in characters, counted from 1; positions before the first one count towards
//! the length.

use arrow_schema::DataType;

use crate::catalogue::{
    Accuracy, Arguments, Body, Kernel, Lowered, Options, ScalarEntry, Signature,
};
use crate::check::Unsupported;
use crate::program::{Builder, Nullable, Type};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "substr",
    datafusion: &[],
    constants: &[],
    arity: (1, 1),
    types,
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

static SLICE: Kernel = Kernel {
    name: "characters",
    accuracy: Accuracy::Exact,
    body: Body::Slice(characters),
    gives: |_| Type::Text,
    cuda: None,
};

/// Returns the characters from one place to another, counted from 0.
fn characters(text: &str, from: i64, to: i64) -> &str {
    let offset_of = |place: i64| match usize::try_from(place) {
        Ok(place) => {
            let mut offsets = text.char_indices().map(|(offset, _)| offset);
            offsets.nth(place).unwrap_or(text.len())
        }
        Err(_) => 0,
    };
    let (from, to) = (offset_of(from), offset_of(to));
    text.get(from..to.max(from)).unwrap_or("")
}

fn types(signature: &Signature) -> Result<(), Unsupported> {
    signature.takes_string("substr", 0)?;
    let result = &signature.result;
    if !result.is_string() {
        return Err(Unsupported::new(format!("substr as {result}")));
    }
    // DataFusion raises for both on the first row that is not NULL.
    match signature.options {
        Options::Substring {
            start: i64::MIN, ..
        } => Err(Unsupported::new(format!("substr from {}", i64::MIN))),
        Options::Substring {
            length: Some(length),
            ..
        } if length < 0 => Err(Unsupported::new(format!("substr of length {length}"))),
        _ => Ok(()),
    }
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([text], valid) = arguments.strict(builder)?;
    let Options::Substring { start, length } = arguments.signature.options else {
        return Err(Unsupported::new("substr without a start"));
    };
    let from = start.saturating_sub(1);
    let to = length.map_or(i64::MAX, |length| from.saturating_add(length));
    let (from, to) = (builder.int(from.into()), builder.int(to.into()));
    let value = builder.call(&SLICE, vec![text, from, to]);
    Ok(Nullable { value, valid })
}

fn signatures() -> Vec<Signature> {
    let of = [
        (1, None),
        (2, Some(1)),
        (-1, Some(3)),
        (3, None),
        (i64::MAX, Some(i64::MAX)),
        (0, Some(0)),
    ];
    let signature = |(start, length)| {
        let options = Options::Substring { start, length };
        Signature::with(vec![DataType::Utf8], DataType::Utf8, options)
    };
    of.map(signature).into()
}
