//! The project's automation: `cargo xtask <verb>`.
//!
//! Each verb is one module: `tidy` checks the rules that no compiler knows, `ci` runs every check
//! but the tests, `bundle` packs what a GPU host without a toolchain needs. `process` runs the
//! commands that they need, `failure` says what went wrong.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod bundle;
mod ci;
mod failure;
mod process;
mod tidy;

use std::env;
use std::process::ExitCode;

use failure::Failure;

const USAGE: &str = "\
usage: cargo xtask <verb> [option]

  tidy   check layout, wording, crate floors and the names in the docs
  ci     fmt, clippy, tidy and rustdoc, stopping at the first failure
  bundle [--nvrtc FOLDER]
         pack the command, the SQL and driver tests and the device benches for a host that cannot build;
         with the NVRTC in FOLDER, if the host has none";

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
    let Some((verb, options)) = args.split_first() else {
        return Err(Failure::Usage(USAGE));
    };
    match verb.as_str() {
        "tidy" if options.is_empty() => tidy::run(&process::workspace_root()?),
        "ci" if options.is_empty() => ci::run(&process::workspace_root()?),
        "bundle" => {
            let options = bundle::Options::parse(options).ok_or(Failure::Usage(USAGE))?;
            bundle::run(&process::workspace_root()?, &options)
        }
        "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Failure::Usage(USAGE)),
    }
}
