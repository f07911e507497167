//! Times kernels over resident columns on a GPU, with their answers checked: `--help` says how.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_device_benches::start(env::args_os().collect())
}
