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

use super::AggregateEntry;
use crate::pipeline::AggregateFunction;

pub(super) static ALL: &[&[&AggregateEntry]] = &[
    &[&avg::ENTRY],
    &[&bit_and::ENTRY],
    &[&bit_or::ENTRY],
    &[&bool_and::ENTRY],
    &[&bool_or::ENTRY],
    &[&corr::ENTRY],
    &[&count::ENTRY],
    covar::ENTRIES,
    &[&max::ENTRY],
    &[&min::ENTRY],
    regr::ENTRIES,
    &[&sum::ENTRY],
    variance::ENTRIES,
];

/// Returns a function's entry.
pub(super) fn entry(function: AggregateFunction) -> &'static AggregateEntry {
    match function {
        AggregateFunction::Count => &count::ENTRY,
        AggregateFunction::Sum => &sum::ENTRY,
        AggregateFunction::Min => &min::ENTRY,
        AggregateFunction::Max => &max::ENTRY,
        AggregateFunction::Avg => &avg::ENTRY,
        AggregateFunction::VarPop => &variance::VAR_POP,
        AggregateFunction::VarSamp => &variance::VAR_SAMP,
        AggregateFunction::StddevPop => &variance::STDDEV_POP,
        AggregateFunction::StddevSamp => &variance::STDDEV_SAMP,
        AggregateFunction::Named(named) => named.entry(),
    }
}
