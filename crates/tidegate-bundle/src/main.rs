//! The command, the SQL tests and the benches in one binary, for a GPU host that cannot build.
//!
//! `cargo xtask bundle` packs it with the `.slt` files and the script `run`. The first word says
//! which program it is; the rest is for that program, as if it had been called by its own name. A
//! link to it that is called `tidegate` is the command.

#![expect(
    clippy::print_stderr,
    reason = "a mistake in the command line is told before a program is chosen"
)]

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidegate_sql_tests::{differential, faults, runner};

const USAGE: &str = "\
usage: tidegate-bundle <program> [arguments]

  cli            the command tidegate
  sql-tests      the SQL tests, as libtest runs tests; --root FOLDER comes first and names
                 where the .slt files are, which is `slt` beside this binary by default
  differential   random queries, compared with DataFusion
  faults         a device that fails by plan under queries; words: how many seconds of random faults,
                 and simulate
  device-bench   kernels over resident columns, timed
  sql-bench      statements over a table in the column cache, timed
  places-bench   queries that host and device share, or that find little memory, timed
  arrays-bench   random arrays on the host and on a GPU: their bits compared, and timed
  walkthroughs   the walkthroughs of the guide, with their answers checked; words: their names,
                 full, and require-device";

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    if Path::new(&name)
        .file_name()
        .is_some_and(|name| name == "tidegate")
    {
        return tidegate_cli::start(call("tidegate", arguments));
    }
    let program = arguments.next().unwrap_or_default();
    match program.to_str() {
        Some("cli") => tidegate_cli::start(call("tidegate", arguments)),
        Some("sql-tests") => told(sql_tests(arguments.collect())),
        Some("differential") => told(differential()),
        Some("faults") => told(fail(arguments)),
        Some("device-bench") => tidegate_device_benches::start(call("device-bench", arguments)),
        Some("walkthroughs") => told(walk(arguments)),
        Some("places-bench") => tidegate_benches::places::start(call("places-bench", arguments)),
        Some("arrays-bench") => {
            tidegate_device_benches::start_arrays(call("arrays-bench", arguments))
        }
        Some("sql-bench") => tidegate_benches::statements::start(call("sql-bench", arguments)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Makes a command line: a program's name and what follows it.
fn call(program: &str, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = vec![program.into()];
    words.extend(arguments);
    words
}

fn told(status: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    status.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn sql_tests(mut arguments: Vec<OsString>) -> Result<ExitCode, Box<dyn Error>> {
    let root = match arguments.first().is_some_and(|word| word == "--root") {
        true => {
            let words: Vec<_> = arguments.drain(..2.min(arguments.len())).collect();
            words
                .get(1)
                .map(PathBuf::from)
                .ok_or("--root needs a folder")?
        }
        false => beside_binary("slt")?,
    };
    runner::main(call("sql-tests", arguments), &root)
}

fn walk(arguments: impl Iterator<Item = OsString>) -> Result<ExitCode, Box<dyn Error>> {
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(tidegate_benches::walk(words))?;
    Ok(ExitCode::SUCCESS)
}

fn fail(arguments: impl Iterator<Item = OsString>) -> Result<ExitCode, Box<dyn Error>> {
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(faults::start(words));
    ended.map_err(|failure| -> Box<dyn Error> { failure })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of what lies in the folder of this binary.
fn beside_binary(name: &str) -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(name))
}

/// Panics if an answer differs, as the test that it is does.
fn differential() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(differential::lanes_answer_as_datafusion_does());
    Ok(ExitCode::SUCCESS)
}
