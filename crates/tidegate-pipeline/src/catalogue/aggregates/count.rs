//! `count(*)` and `count(a)`. The state is the value.

use arrow_schema::DataType;

use crate::catalogue::{AggregateEntry, CallTypes, count_of};
use crate::pipeline::AggregateFunction;

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "count",
    datafusion: &["count"],
    arity: 1,
    rounds: |_| false,
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
        let of = of.map(|of| vec![of]);
        of.into_iter().chain([vec![]]).collect()
    },
};
