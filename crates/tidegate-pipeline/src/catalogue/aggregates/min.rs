//! `min(a)`: the least value, floats as they compare. The state is the value.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::catalogue::{AggregateEntry, CallTypes};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Accumulator, Reduce};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "min",
    datafusion: &["min"],
    arity: 1,
    rounds: |_| false,
    function: AggregateFunction::Min,
    types,
    accumulate: |builder, update| {
        let (value, rows) = update.value(builder)?;
        Ok(vec![Accumulator {
            reduce: Reduce::Least,
            value: Some(builder.canonical(value)),
            rows,
        }])
    },
    columns: |_, _, results| Ok(results.to_vec()),
    arguments,
};

/// Returns the types of an extreme. A dictionary's least string leaves as a plain string, whether or not the
/// planner said so by a cast.
pub(super) fn types(arguments: &[DataType], declared: &DataType) -> Result<CallTypes, Unsupported> {
    if matches!(declared, DataType::Dictionary(_, _)) {
        return Err(Unsupported::new(format!("min or max as {declared}")));
    }
    Ok(CallTypes::of_value(match &arguments[0] {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    }))
}

/// Returns what extremes are tested with.
pub(super) fn arguments() -> Vec<Vec<DataType>> {
    let of = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(7, 2),
        DataType::Decimal64(12, 3),
        DataType::Decimal128(38, 6),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Utf8,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ];
    of.map(|of| vec![of]).into()
}
