//! Tables of our own, cut into morsels that can be read again.

mod morsel_source;
mod morsel_table;

pub use morsel_source::{ArrayParts, Batches, MorselSize, MorselSource};
pub use morsel_table::MorselTable;
pub(crate) use morsel_table::{Counter, MorselScan};
