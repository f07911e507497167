//! The project's automation: `cargo xtask <verb>`.
//!
//! Each verb is one module: `tidy` checks the rules that no compiler knows, `ci` runs every check
//! but the tests. `process` runs the commands that both need, `failure` says what went wrong.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod ci;
mod failure;
mod process;
mod tidy;

use std::env;
use std::process::ExitCode;

use failure::Failure;

const USAGE: &str = "\
usage: cargo xtask <verb>

  tidy   check layout, wording, crate floors and the names in the docs
  ci     fmt, clippy, tidy and rustdoc, stopping at the first failure";

fn main() -> ExitCode {
    match run_verb(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn run_verb(args: &[String]) -> Result<(), Failure> {
    let [verb] = args else {
        return Err(Failure::Usage(USAGE));
    };
    match verb.as_str() {
        "tidy" => tidy::run(&process::workspace_root()?),
        "ci" => ci::run(&process::workspace_root()?),
        "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Failure::Usage(USAGE)),
    }
}
