//! The aggregate functions; a line each.

mod avg;
mod count;
mod max;
mod min;
mod sum;
mod variance;

use super::AggregateEntry;
use crate::pipeline::AggregateFunction;

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
    }
}
