//! Tables of our own, cut into morsels that can be read again.

mod morsel_source;
mod morsel_table;
mod share;

pub use morsel_source::{ArrayParts, Batches, MorselSource};
pub use morsel_table::MorselTable;
pub(crate) use morsel_table::{Counter, MorselScan};
pub(crate) use share::Share;
pub use share::{ArrayDescription, SourceDescription, ValuesDescription};
pub use tidegate_scheduler::MorselSize;
