//! The command `tidegate` as a function: SQL from a prompt, the command line, files or standard input.
//!
//! [`start`] is given the words of a command line and returns how the process ends. Results go to
//! standard output and everything else to standard error. Nothing in here knows plans or CUDA: the
//! crate `tidegate` answers, this one asks and prints.
//!
//! In reading order: `args` (what can be typed), `config` (where values come from), `app` (threads,
//! and which of the doors opens), `script` (text is cut into steps), `shell` (steps are run, one after
//! the other), `run` (one statement), `render` (rows become text), `destination` (a screen, a file or
//! a pager), `repl` (the prompt), `demo`, `doctor`, `configuration`, `kernel`, `manual`, `report` and `serve` (the
//! subcommands). `session` opens the session of this process; `console`, `environment`,
//! `exit`, `failure`, `log`, `panics` and `signals` are what they all stand on.
//!
//! ```no_run
//! let status = tidegate_cli::start(vec!["tidegate".into(), "doctor".into()]);
//! ```

mod app;
mod args;
mod cluster;
mod config;
mod configuration;
mod connect;
mod console;
mod demo;
mod destination;
mod doctor;
mod engine;
mod environment;
mod exit;
mod failure;
mod kernel;
mod log;
mod manual;
mod panics;
mod params;
mod progress;
mod render;
mod repl;
mod report;
mod run;
mod script;
mod serve;
mod session;
mod shell;
mod signals;

pub use app::{run, start};
