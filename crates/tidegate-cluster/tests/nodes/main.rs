//! A scheduler and executors in one process, over loopback.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod answers;
mod files;
mod groups;
mod joins;
mod left;
mod nodes;
mod seen;
mod shares;
mod trust;
