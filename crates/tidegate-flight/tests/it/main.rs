//! The server as clients meet it: over loopback, with the Flight SQL client of `arrow-flight`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test fail it by panicking"
)]

mod access;
mod bounds;
mod broken;
mod client;
mod collector;
mod fuzz;
mod hostile;
mod http;
mod ingest;
mod load;
mod login;
mod metadata;
mod misuse;
mod options;
mod others;
mod queries;
mod soak;
mod support;
mod traces;
mod walk;
