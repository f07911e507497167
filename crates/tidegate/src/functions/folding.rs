//! Whether a function is called to fold a constant.
//!
//! DataFusion's rules evaluate constant expressions by calling the functions themselves, which cannot tell
//! such a call from one that a query makes. Whoever runs a rule says so here.

use std::cell::Cell;

thread_local! {
    static IS_FOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running a rule of the optimizer until it is dropped.
#[derive(Debug)]
pub(crate) struct Folding {
    was_folding: bool,
}

impl Folding {
    /// Marks this thread.
    pub(crate) fn begin() -> Self {
        Self {
            was_folding: IS_FOLDING.replace(true),
        }
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        IS_FOLDING.set(self.was_folding);
    }
}

/// Tells whether a function that is called now on this thread is called to fold a constant.
pub(crate) fn is_folding() -> bool {
    IS_FOLDING.get()
}
