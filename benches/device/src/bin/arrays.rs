//! Measures random arrays on the host and on a GPU: `--help` says how.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_device_benches::start_arrays(env::args_os().collect())
}
