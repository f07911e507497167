//! `max(a)`: the greatest value, floats as they compare. The state is the value.

use super::min::{arguments, types};
use crate::catalogue::AggregateEntry;
use crate::pipeline::AggregateFunction;
use crate::program::{Accumulator, Reduce};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "max",
    datafusion: &["max"],
    arity: 1,
    rounds: |_| false,
    function: AggregateFunction::Max,
    types,
    accumulate: |builder, update| {
        let (value, rows) = update.value(builder)?;
        Ok(vec![Accumulator {
            reduce: Reduce::Greatest,
            value: Some(builder.canonical(value)),
            rows,
        }])
    },
    columns: |_, _, results| Ok(results.to_vec()),
    arguments,
};
