//! Files as people have them, and what is read of them.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod errors;
mod names;
mod options;
mod read;
mod split;
mod syntax;
mod values;
