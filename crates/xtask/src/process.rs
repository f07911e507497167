//! Commands, run from the workspace root.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Asks cargo for the folder of the workspace that holds the current folder.
pub(crate) fn workspace_root() -> Result<PathBuf, Failure> {
    let args = ["locate-project", "--workspace", "--message-format", "plain"];
    let manifest = capture(Path::new("."), "cargo", &args)?;
    Ok(Path::new(manifest.trim_end())
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default())
}

/// Runs a command in `dir` and returns what it printed; its stderr goes to the user.
pub(crate) fn capture(dir: &Path, program: &str, args: &[&str]) -> Result<String, Failure> {
    let command = command_line(program, args);
    let output = outer_command(program)
        .args(args)
        .current_dir(dir)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|source| Failure::Start {
            command: command.clone(),
            source,
        })?;
    if !output.status.success() {
        return Err(Failure::Command(command));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure::Encoding(command))
}

/// Runs a command in `dir` with the user's own stdout and stderr.
pub(crate) fn pass_through(
    dir: &Path,
    program: &str,
    args: &[&str],
    envs: &[(&str, &str)],
) -> Result<(), Failure> {
    let command = command_line(program, args);
    let status = outer_command(program)
        .args(args)
        .envs(envs.iter().copied())
        .current_dir(dir)
        .status()
        .map_err(|source| Failure::Start {
            command: command.clone(),
            source,
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Command(command))
    }
}

/// Starts a command without what `cargo run` tells of this package: some build scripts look at it, and all that
/// depends on them would be built anew by each `cargo test` that follows a `cargo xtask`, and the other way round.
fn outer_command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Writes a command the way a user would type it.
pub(crate) fn command_line(program: &str, args: &[&str]) -> String {
    let mut line = program.to_owned();
    for arg in args {
        line.push(' ');
        line.push_str(arg);
    }
    line
}
