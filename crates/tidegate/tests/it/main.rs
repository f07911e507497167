//! The library as an embedding program sees it.

mod scratch;
