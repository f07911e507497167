//! `sum(a)`: integers and decimals wrap at the width of the result, floats are summed exactly and rounded
//! once. The state is the value.

use arrow_schema::{DataType, TimeUnit};

use crate::catalogue::{AggregateEntry, CallTypes};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Accumulator, Builder, Class, IntegerOp, Nullable, Reduce, ValueId};
use crate::types::{Decimal, DecimalWidth};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "sum",
    datafusion: &["sum"],
    arity: 1,
    rounds: |value| value.is_floating(),
    function: AggregateFunction::Sum,
    types,
    accumulate: |builder, update| {
        let (value, rows) = update.value(builder)?;
        Ok(vec![sum_of(builder, value, rows, &update.value_type)])
    },
    columns: |builder, finish, results| {
        let of = |sum: &Nullable| Nullable {
            value: total(builder, sum.value, &finish.update.value_type),
            ..*sum
        };
        Ok(results.iter().map(of).collect())
    },
    arguments,
};

fn types(arguments: &[DataType], _: &DataType) -> Result<CallTypes, Unsupported> {
    let argument = &arguments[0];
    if let Some(decimal) = Decimal::of(argument) {
        let most = decimal.width.max_precision();
        let sum = Decimal {
            precision: decimal.precision.saturating_add(10).min(most),
            ..decimal
        };
        return Ok(CallTypes::of_value(sum.data_type()));
    }
    match argument {
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Duration(_) => {
            Ok(CallTypes::of_value(argument.clone()))
        }
        _ => Err(Unsupported::new(format!("sum of {argument}"))),
    }
}

/// Sums values for a result of this type.
pub(super) fn sum_of(
    builder: &Builder,
    value: ValueId,
    rows: ValueId,
    data_type: &DataType,
) -> Accumulator {
    let is_wide = Decimal::of(data_type).is_some_and(|of| of.width == DecimalWidth::W128);
    let reduce = match builder.data(value).is_float() {
        true => Reduce::SumFloat,
        false => Reduce::SumInteger {
            bits: if is_wide { 128 } else { 64 },
        },
    };
    Accumulator {
        reduce,
        value: Some(value),
        rows,
    }
}

/// Returns a sum as the result's type has it.
pub(super) fn total(builder: &mut Builder, sum: ValueId, data_type: &DataType) -> ValueId {
    match (data_type, Decimal::of(data_type)) {
        (_, Some(decimal)) if decimal.width == DecimalWidth::W32 => {
            builder.convert(sum, Class::I32)
        }
        (DataType::UInt64, _) => {
            let zero = builder.int(0);
            builder.wrapping(IntegerOp::Add, (64, false), sum, zero)
        }
        _ => sum,
    }
}

fn arguments() -> Vec<Vec<DataType>> {
    let of = [
        DataType::Int64,
        DataType::UInt64,
        DataType::Float64,
        DataType::Duration(TimeUnit::Second),
        DataType::Decimal32(5, 2),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(12, 3),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(38, 6),
    ];
    of.map(|of| vec![of]).into()
}
