//! `count(*)` and `count(a)`. The state is the value.

use arrow_schema::DataType;

use crate::catalogue::{AggregateEntry, CallTypes, count_of};
use crate::pipeline::AggregateFunction;

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    function: AggregateFunction::Count,
    types: |_, _| Ok(CallTypes::of_value(DataType::Int64)),
    accumulate: |builder, update| {
        let rows = match update.argument {
            Some(argument) => builder.and(update.rows, argument.valid),
            None => update.rows,
        };
        Ok(vec![count_of(rows)])
    },
    columns: |_, _, results| Ok(results.to_vec()),
    arguments: || {
        let of = [DataType::Int64, DataType::Float32, DataType::Utf8];
        of.into_iter().map(Some).chain([None]).collect()
    },
};
