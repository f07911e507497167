//! Runs the files under `slt/` once per lane: `tidegate_sql_tests::runner` says how.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use tidegate_sql_tests::runner;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt");
    runner::main(env::args_os().collect(), &root)
}
