//! What can go wrong in a verb, and the exit status that says so.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Says why a verb stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments name no verb; holds the usage text.
    Usage(&'static str),
    /// A command could not be started.
    Start { command: String, source: io::Error },
    /// A command ran and failed.
    Command(String),
    /// A command printed what is not UTF-8.
    Encoding(String),
    /// A file of the project could not be read.
    Read { path: PathBuf, source: io::Error },
    /// A file could not be written.
    Write { path: PathBuf, source: io::Error },
    /// An archive is above its limit.
    TooLarge { path: PathBuf, limit_mib: u64 },
    /// The answer of `cargo metadata` does not have the documented form.
    Metadata(serde_json::Error),
    /// `tidy` found this many breaches.
    Untidy(usize),
}

impl Failure {
    /// Returns 2 for a wrong call, 1 for a failed check.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(usage) => f.write_str(usage),
            Failure::Start { command, source } => write!(f, "cannot start `{command}`: {source}"),
            Failure::Command(command) => write!(f, "failed: {command}"),
            Failure::Encoding(command) => write!(f, "`{command}` printed what is not UTF-8"),
            Failure::Read { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            Failure::Write { path, source } => {
                write!(f, "cannot write {}: {source}", path.display())
            }
            Failure::TooLarge { path, limit_mib } => {
                write!(f, "{} is above {limit_mib} MiB", path.display())
            }
            Failure::Metadata(source) => write!(f, "cannot understand cargo metadata: {source}"),
            Failure::Untidy(1) => f.write_str("tidy: 1 finding"),
            Failure::Untidy(num_findings) => write!(f, "tidy: {num_findings} findings"),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::Start { source, .. }
            | Failure::Read { source, .. }
            | Failure::Write { source, .. } => Some(source),
            Failure::Metadata(source) => Some(source),
            _ => None,
        }
    }
}
