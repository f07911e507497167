//! Three-valued OR: TRUE wins over NULL, and the right side is not wanted where the left one is TRUE.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::program::{Builder, Nullable, ValueId};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "or",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types,
    lower: |builder, arguments| connect(true, builder, arguments),
    accuracy: Accuracy::Exact,
    signatures,
}];

/// Checks a conjunction or disjunction.
pub(super) fn types(signature: &Signature) -> Result<(), Unsupported> {
    for operand in [0, 1] {
        signature.takes_boolean("an operand of a conjunction or disjunction", operand)?;
    }
    signature.gives_boolean("a conjunction or disjunction")
}

/// Lowers AND, which FALSE decides, or OR, which TRUE does.
pub(super) fn connect(
    decisive: bool,
    builder: &mut Builder,
    arguments: &mut Arguments<'_>,
) -> Lowered {
    let left = arguments.lower(builder, 0)?;
    let by_left = decides(decisive, builder, left);
    let is_open = builder.not(by_left);
    let right = builder.guarded(is_open, |builder| arguments.lower(builder, 1))?;
    let by_right = decides(decisive, builder, right);
    let decided = builder.or(by_left, by_right);
    let both = builder.and(left.valid, right.valid);
    let (left, right) = (builder.truth(left), builder.truth(right));
    let holds = match decisive {
        true => builder.or(left, right),
        false => builder.and(left, right),
    };
    // Where the result is there, one side decides or both are there.
    let valid = builder.or(both, decided);
    Ok(builder.true_if_there(holds, valid))
}

fn decides(decisive: bool, builder: &mut Builder, side: Nullable) -> ValueId {
    let is_decisive = match decisive {
        true => side.value,
        false => builder.not(side.value),
    };
    builder.and(side.valid, is_decisive)
}

pub(super) fn signatures() -> Vec<Signature> {
    vec![Signature::new(
        vec![DataType::Boolean; 2],
        DataType::Boolean,
    )]
}
