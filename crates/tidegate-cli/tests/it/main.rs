//! The command as its users meet it: what it reads and prints, how it exits, and what the guide says of it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod cli;
mod command;
mod configuration;
mod connect;
mod guide;
#[cfg(unix)]
mod prompt;
mod serve;
mod server;
mod stdin;
