//! How the process ends.

/// The exit status if all went well.
pub(crate) const DONE: u8 = 0;
/// The exit status if a statement failed, or could not be tried.
pub(crate) const FAILED: u8 = 1;
