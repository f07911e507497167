//! `bool_and(a)`: TRUE if all values are, NULL over none. The state is the value.

use arrow_schema::DataType;

use crate::catalogue::{AggregateEntry, CallTypes, NamedAggregate};
use crate::check::boolean;
use crate::pipeline::AggregateFunction;
use crate::program::{Accumulator, Reduce};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "bool_and",
    datafusion: &["bool_and"],
    arity: 1,
    rounds: |_| false,
    function: AggregateFunction::Named(NamedAggregate::new(&ENTRY)),
    types: |arguments, _| {
        boolean("bool_and", &arguments[0])?;
        Ok(CallTypes::of_value(DataType::Boolean))
    },
    accumulate: |builder, update| {
        let (value, rows) = update.value(builder)?;
        Ok(vec![Accumulator {
            reduce: Reduce::Least,
            value: Some(value),
            rows,
        }])
    },
    columns: |_, _, results| Ok(results.to_vec()),
    arguments: || vec![vec![DataType::Boolean]],
};
