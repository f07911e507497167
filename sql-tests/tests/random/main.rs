//! What no file of SQL says: random queries, damaged files, devices that fail, and the text of values.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod damaged;
mod differential;
mod faults;
mod format;
