//! Panics become errors: nothing of a panic is printed where it happens.

use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, PoisonError};

/// What the last panic said and where.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Records panics instead of printing them. Whoever waits for the work that panicked tells.
pub(crate) fn hold_back() {
    panic::set_hook(Box::new(|info| {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(describe(info));
    }));
}

/// Returns what the last panic said, once.
pub(crate) fn take() -> String {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    last.unwrap_or_else(|| "a task ended without a message".to_string())
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let message = info.payload_as_str().unwrap_or("no message").trim();
    match info.location() {
        Some(place) => format!("{message} (at {}:{})", place.file(), place.line()),
        None => message.to_string(),
    }
}
