//! `bit_or(a)` of integers: the bits that any value has. The state is the value.

use crate::catalogue::{AggregateEntry, Monoid, NamedAggregate, bits};
use crate::pipeline::AggregateFunction;

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "bit_or",
    datafusion: &["bit_or"],
    arity: 1,
    rounds: |_| false,
    function: AggregateFunction::Named(NamedAggregate::new(&ENTRY)),
    types: |arguments, _| bits::types("bit_or", arguments),
    accumulate: |builder, update| bits::accumulate(builder, update, &OR, |_, value| value),
    columns: |builder, finish, results| bits::columns(builder, finish, results, |_, value| value),
    arguments: bits::arguments,
};

pub(super) static OR: Monoid = Monoid {
    name: "bit or",
    combine: |one, other| one | other,
    gives: bits::no_other_bits,
    cuda: "{0} | {1}",
    atomic: Some("atomicOr"),
};
