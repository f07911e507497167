//! The command `tidegate`: SQL from a prompt, the command line, files or standard input.
//!
//! Results go to standard output and everything else to standard error. The exit status is 0 if all
//! went well, 1 if a statement failed, 2 if the command line is wrong, 130 after Ctrl-C. All of it
//! is the crate's library, where a reader goes on.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_cli::start(env::args_os().collect())
}
