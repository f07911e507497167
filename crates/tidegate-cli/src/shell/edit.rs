//! A statement in the user's own editor.

use std::io::Write;
use std::process::Command;

use crate::environment;

/// Opens the editor on a text and returns what was saved.
///
/// # Errors
/// Why the editor could not be run, or that it failed; then nothing is to be done.
pub(crate) fn edit(text: &str) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot edit: {error}");
    let mut file = tempfile::Builder::new()
        .prefix("tidegate-")
        .suffix(".sql")
        .tempfile()
        .map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)?;
    let words = environment::editor();
    let mut words = words.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .map_err(|error| format!("cannot start the editor {program}: {error}; set EDITOR"))?;
    if !status.success() {
        return Err(format!(
            "the editor {program} failed: {status}; nothing is run"
        ));
    }
    std::fs::read_to_string(file.path()).map_err(cannot)
}
