//! `bit_and(a)` of integers: the bits that all values have. Zero bits are collected. The state is the value.

use crate::catalogue::{AggregateEntry, NamedAggregate, bits};
use crate::pipeline::AggregateFunction;

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "bit_and",
    datafusion: &["bit_and"],
    arity: 1,
    rounds: |_| false,
    function: AggregateFunction::Named(NamedAggregate::new(&ENTRY)),
    types: |arguments, _| bits::types("bit_and", arguments),
    accumulate: |builder, update| {
        bits::accumulate(builder, update, &super::bit_or::OR, bits::complement)
    },
    columns: |builder, finish, results| bits::columns(builder, finish, results, bits::complement),
    arguments: bits::arguments,
};
