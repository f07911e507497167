//! The aggregate functions; two lines each.

mod avg;
mod bit_and;
mod bit_or;
mod bool_and;
mod bool_or;
mod corr;
mod count;
mod covar;
mod max;
mod min;
mod regr;
mod sum;
mod variance;

use std::slice::from_ref;

use super::AggregateEntry;
use crate::pipeline::AggregateFunction;

pub(super) static ALL: &[&[AggregateEntry]] = &[
    from_ref(&avg::ENTRY),
    from_ref(&bit_and::ENTRY),
    from_ref(&bit_or::ENTRY),
    from_ref(&bool_and::ENTRY),
    from_ref(&bool_or::ENTRY),
    from_ref(&corr::ENTRY),
    from_ref(&count::ENTRY),
    &covar::ENTRIES,
    from_ref(&max::ENTRY),
    from_ref(&min::ENTRY),
    &regr::ENTRIES,
    from_ref(&sum::ENTRY),
    &variance::ENTRIES,
];

/// Returns a function's entry.
pub(super) fn entry(function: AggregateFunction) -> &'static AggregateEntry {
    match function {
        AggregateFunction::Count => &count::ENTRY,
        AggregateFunction::Sum => &sum::ENTRY,
        AggregateFunction::Min => &min::ENTRY,
        AggregateFunction::Max => &max::ENTRY,
        AggregateFunction::Avg => &avg::ENTRY,
        AggregateFunction::VarPop => &variance::ENTRIES[0],
        AggregateFunction::VarSamp => &variance::ENTRIES[1],
        AggregateFunction::StddevPop => &variance::ENTRIES[2],
        AggregateFunction::StddevSamp => &variance::ENTRIES[3],
        AggregateFunction::Named(named) => named.entry(),
    }
}
