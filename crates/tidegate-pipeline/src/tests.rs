//! What tests of several modules are made with.

pub(crate) mod building;
pub(crate) mod random;
