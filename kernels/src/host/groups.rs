//! Groups: which group a row is of, and what is kept of each.

pub(super) mod finder;
pub(super) mod keys;
pub(super) mod layout;
pub(super) mod lines;
pub(super) mod recorder;
pub(super) mod records;
pub(super) mod results;
pub(super) mod shared;
pub(super) mod states;
pub(super) mod taken;
pub(super) mod words;
