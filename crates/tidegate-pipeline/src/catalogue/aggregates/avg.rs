//! `avg(a)`: of floats the sum over the count, of durations and decimals truncated, decimals with four more
//! digits. The state is the count and the sum, NULL and NULL for a group without a value.

use arrow_schema::{DataType, TimeUnit};

use super::sum::{sum_of, total};
use crate::catalogue::arithmetic::scaled;
use crate::catalogue::{AggregateEntry, CallTypes, Finish, Update, count_of};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::pipeline::AggregateFunction;
use crate::program::{Accumulator, Builder, Class, FloatOp, Nullable, Raised, Reduce, Rounding};
use crate::types::{Decimal, DecimalWidth};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "avg",
    datafusion: &["avg"],
    arity: 1,
    rounds: |value| value.is_floating(),
    function: AggregateFunction::Avg,
    types,
    accumulate,
    columns,
    arguments,
};

/// DataFusion sums in the narrowest decimal with 13 digits to spare, never below the width of the argument,
/// and gives four more digits after the point.
fn types(arguments: &[DataType], _: &DataType) -> Result<CallTypes, Unsupported> {
    let argument = &arguments[0];
    let of = |value: DataType, sum: DataType| CallTypes {
        value,
        state: vec![DataType::UInt64, sum],
    };
    let Some(decimal) = Decimal::of(argument) else {
        return match argument {
            DataType::Float64 | DataType::Duration(_) => Ok(of(argument.clone(), argument.clone())),
            _ => Err(Unsupported::new(format!("avg of {argument}"))),
        };
    };
    let most = decimal.width.max_precision();
    let needed = decimal.precision.saturating_add(13).max(most);
    let mut widths = [DecimalWidth::W64, DecimalWidth::W128].into_iter();
    let width = widths
        .find(|width| needed <= width.max_precision())
        .ok_or_else(|| Unsupported::new(format!("avg of {argument}: its sum is a Decimal256")))?;
    let sum = Decimal {
        width,
        precision: width.max_precision(),
        scale: decimal.scale,
    };
    let most_scale = i8::try_from(most).unwrap_or(i8::MAX);
    let value = Decimal {
        width: decimal.width,
        precision: decimal.precision.saturating_add(4).min(most),
        scale: decimal.scale.saturating_add(4).min(most_scale),
    };
    Ok(of(value.data_type(), sum.data_type()))
}

fn accumulate(builder: &mut Builder, update: &Update) -> Result<Vec<Accumulator>, Unsupported> {
    let (value, rows) = update.value(builder)?;
    // The mean of integers is that of their exact sum.
    let sum = match builder.converted_integer(value) {
        Some(integer) => Accumulator {
            reduce: Reduce::SumInteger { bits: 128 },
            value: Some(integer),
            rows,
        },
        None => sum_of(builder, value, rows, summed_type(update)),
    };
    Ok(vec![count_of(rows), sum])
}

/// Returns the type in which is summed.
fn summed_type(update: &Update) -> &DataType {
    let state = update.state.get(1);
    state.map_or(&update.value_type, |field| field.data_type())
}

fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
) -> Result<Vec<Nullable>, Unsupported> {
    let [count, sum] = results else {
        return Err(Unsupported::new("avg without its count and its sum"));
    };
    let (update, valid) = (finish.update, sum.valid);
    let of = |value| Nullable { value, valid };
    let total = match update.value_type {
        DataType::Float64 => builder.convert(sum.value, Class::F64),
        _ => total(builder, sum.value, summed_type(update)),
    };
    if finish.gives_state() {
        return Ok(vec![of(count.value), of(total)]);
    }
    let mean = match (
        Decimal::of(&update.value_type),
        Decimal::of(summed_type(update)),
    ) {
        (Some(value), Some(summed)) => {
            let overflow = Raised::Overflow {
                operation: match &update.argument_type {
                    Some(argument) => format!("avg of {argument}"),
                    None => "avg".to_owned(),
                },
            };
            let digits = u32::try_from(value.scale - summed.scale).unwrap_or(0);
            let limit = Interval::of_width(summed.width);
            let factor = 10_i128.pow(digits);
            let scaled = scaled(builder, total, factor, limit, valid, &overflow);
            let mean = builder.divide(Rounding::Zero, scaled, count.value, limit);
            builder.held(mean, Interval::of_digits(value), valid, &overflow)
        }
        _ if update.value_type == DataType::Float64 => {
            let count = builder.convert(count.value, Class::F64);
            builder.float2(FloatOp::Divide, total, count)
        }
        _ => builder.divide(Rounding::Zero, total, count.value, Interval::signed(64)),
    };
    Ok(vec![of(mean)])
}

fn arguments() -> Vec<Vec<DataType>> {
    let of = [
        DataType::Float64,
        DataType::Duration(TimeUnit::Second),
        DataType::Decimal32(5, 2),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(12, 3),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(25, 2),
    ];
    of.map(|of| vec![of]).into()
}
