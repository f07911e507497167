//! What functions that choose one of their arguments have in common.

use arrow_schema::{DataType, TimeUnit};

use super::{Arguments, Lowered, Signature};
use crate::check::Unsupported;
use crate::program::{Builder, Comparison, Nullable};

/// Checks that the arguments are of the result's type.
pub(super) fn types(name: &str, signature: &Signature) -> Result<(), Unsupported> {
    let result = &signature.result;
    let is_other = |data_type: &&DataType| *data_type != result;
    match signature.arguments.iter().find(is_other) {
        Some(other) => Err(Unsupported::new(format!("{name} of {other} as {result}"))),
        None if matches!(result, DataType::Interval(_)) => {
            Err(Unsupported::new(format!("{name} of {result}")))
        }
        None => Ok(()),
    }
}

/// Takes the value that compares so with all others that are there.
pub(super) fn extreme(
    builder: &mut Builder,
    arguments: &mut Arguments<'_>,
    wins: Comparison,
) -> Lowered {
    let mut held: Option<Nullable> = None;
    for index in 0..arguments.num() {
        let next = arguments.lower(builder, index)?;
        let next = Nullable {
            value: builder.canonical(next.value),
            ..next
        };
        held = Some(match held {
            None => next,
            Some(held) => {
                let wins = builder.compare(wins, held.value, next.value);
                let is_alone = builder.not(next.valid);
                let stays = builder.or(is_alone, wins);
                let stays = builder.and(stays, held.valid);
                Nullable {
                    value: builder.select(stays, held.value, next.value),
                    valid: builder.or(held.valid, next.valid),
                }
            }
        });
    }
    held.ok_or_else(|| Unsupported::new("a choice between no values"))
}

/// Returns signatures of so many arguments of one type.
pub(super) fn signatures(num: usize) -> Vec<Signature> {
    [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(15, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Utf8,
    ]
    .map(|of| Signature::new(vec![of.clone(); num], of))
    .into()
}
