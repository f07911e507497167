//! The command `tidegate`: SQL from a prompt, the command line, files or standard input.
//!
//! Results go to standard output and everything else to standard error. The exit status is 0 if all
//! went well, 1 if a statement failed, 2 if the command line is wrong, 130 after Ctrl-C. Nothing in
//! here knows plans or CUDA: the crate `tidegate` answers, this one asks and prints.
//!
//! In reading order: `args` (what can be typed), `app` (threads, and which of the doors opens),
//! `run` (statements, one after the other), `render` (rows become text), `repl` (the prompt),
//! `demo` and `doctor` (the subcommands). `console`, `environment`, `failure`, `panics` and
//! `signals` are what they all stand on.

mod app;
mod args;
mod console;
mod demo;
mod doctor;
mod environment;
mod failure;
mod panics;
mod render;
mod repl;
mod run;
mod signals;

use std::process::ExitCode;

fn main() -> ExitCode {
    panics::hold_back();
    app::start(args::parse())
}
