//! What functions of decimals have in common.

use arrow_schema::DataType;

use super::Signature;
use crate::interval::Interval;
use crate::program::{Builder, IntegerOp, Raised, ValueId};
use crate::types::Decimal;

/// Returns what 1 is in a type's units; `None` for what is no decimal.
pub(super) fn scale_of(data_type: &DataType) -> Option<i128> {
    let decimal = Decimal::of(data_type)?;
    10_i128.checked_pow(u32::try_from(decimal.scale).ok()?)
}

/// Makes a decimal of whole numbers, and raises where it has more digits than its type.
pub(super) fn of_whole(
    builder: &mut Builder,
    (name, data_type): (&str, &DataType),
    whole: ValueId,
    scale: i128,
    valid: ValueId,
) -> ValueId {
    let operation = format!("{name} of {data_type}");
    let overflow = Raised::Overflow { operation };
    let width = Interval::of_type(data_type).unwrap_or(Interval::ALL);
    let scale = builder.int(scale);
    let op = IntegerOp::Multiply;
    let value = builder.checked(op, width, (whole, scale), valid, &overflow);
    let digits = Decimal::of(data_type).map_or(Interval::ALL, Interval::of_digits);
    builder.held(value, digits, valid, &overflow)
}

/// Returns signatures of one decimal that give its type.
pub(super) fn signatures() -> Vec<Signature> {
    [
        DataType::Decimal32(7, 2),
        DataType::Decimal64(12, 3),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(38, 0),
        DataType::Decimal128(38, 6),
    ]
    .map(|of| Signature::new(vec![of.clone()], of))
    .into()
}
