//! What aggregates of bits have in common: words of 64 bits, as signed integers.

use arrow_schema::DataType;

use super::{Accumulator, Builder, CallTypes, Finish, Monoid, Nullable, Reduce, Update, ValueId};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::program::{Class, IntegerOp};
use crate::types::integer_bits;

/// Gives an integer of the argument's type.
pub(super) fn types(name: &str, arguments: &[DataType]) -> Result<CallTypes, Unsupported> {
    match &arguments[0] {
        integer if integer.is_integer() => Ok(CallTypes::of_value(integer.clone())),
        other => Err(Unsupported::new(format!("{name} of {other}"))),
    }
}

/// Combines the words that a function makes of the values.
pub(super) fn accumulate(
    builder: &mut Builder,
    update: &Update,
    monoid: &'static Monoid,
    word: fn(&mut Builder, ValueId) -> ValueId,
) -> Result<Vec<Accumulator>, Unsupported> {
    let (value, rows) = update.value(builder)?;
    let value = match builder.data(value).class() {
        Class::I128 => builder.convert(value, Class::I64),
        _ => value,
    };
    Ok(vec![Accumulator {
        reduce: Reduce::Combine(monoid),
        value: Some(word(builder, value)),
        rows,
    }])
}

/// Makes the value of the combined word, in the width of its type.
pub(super) fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
    word: fn(&mut Builder, ValueId) -> ValueId,
) -> Result<Vec<Nullable>, Unsupported> {
    let of = &finish.update.value_type;
    let bits = integer_bits(of).ok_or_else(|| Unsupported::new(format!("bits of {of}")))?;
    let zero = builder.int(0);
    let column = |result: &Nullable| {
        let word = word(builder, result.value);
        Nullable {
            value: builder.wrapping(IntegerOp::Add, bits, word, zero),
            ..*result
        }
    };
    Ok(results.iter().map(column).collect())
}

/// Turns every bit.
pub(super) fn complement(builder: &mut Builder, value: ValueId) -> ValueId {
    let ones = builder.int(-1);
    builder.exact(IntegerOp::Subtract, ones, value)
}

/// Returns where words lie that have no other bits than those within an interval.
pub(super) fn no_other_bits(of: Interval) -> Interval {
    let most = of.high.max(-1 - of.low).max(0).unsigned_abs();
    let ones = (most + 1).next_power_of_two() as i128 - 1;
    Interval::new(if of.low < 0 { -1 - ones } else { 0 }, ones)
}

/// Returns the types that aggregates of bits are tested with.
pub(super) fn arguments() -> Vec<Vec<DataType>> {
    [
        DataType::Int8,
        DataType::Int64,
        DataType::UInt16,
        DataType::UInt64,
    ]
    .map(|of| vec![of])
    .into()
}
