//! The error that leaves the library, sorted by who must act.

mod existence;
mod raised;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use tokio::task::JoinError;

pub(crate) use raised::in_one_text;

/// Who must act on an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The statement is wrong, or its data makes it fail.
    Sql,
    /// The statement names a table, a schema or the like that there is not.
    NotFound,
    /// The statement makes a table, a schema or the like that there is already.
    AlreadyExists,
    /// The statement asks for a feature that this library does not have.
    NotSupported,
    /// The session may not do this; whoever runs the server decides.
    Denied,
    /// A limit was reached; the message names the setting.
    ResourcesExhausted,
    /// The statement was cancelled.
    Cancelled,
    /// The statement reached a time limit; the message names the setting.
    TimedOut,
    /// A file or store could not be read or written.
    Io,
    /// A device failed, or a placement that was asked for could not be had.
    Device,
    /// A defect of this library.
    Internal,
}

/// An error with who must act, what happened, and its cause.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Makes an error without a cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Makes an error with a cause; the message should not repeat the cause's.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            message: message.into(),
            source: Some(Arc::new(source)),
        }
    }

    /// Describes an error that goes on its way.
    pub(crate) fn from_ref(error: &DataFusionError) -> Self {
        if let Some(own) = find_own(error) {
            return own.clone();
        }
        Self {
            kind: kind_of(error),
            message: describe(error),
            source: None,
        }
    }

    /// Returns the error of ours that is the cause of one of DataFusion's.
    pub(crate) fn own(error: &DataFusionError) -> Option<&Self> {
        find_own(error)
    }

    /// Returns who must act.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        // Its text says all; what was raised below has other words for it.
        if let Some(message) = raised::what_was_raised(&error) {
            return Self::new(ErrorKind::Sql, message);
        }
        let described = Self::from_ref(&error);
        let syntax = match error.find_root() {
            DataFusionError::SQL(syntax, _) => Some(syntax.as_ref().clone()),
            _ => None,
        };
        let cause: Arc<dyn StdError + Send + Sync> = match syntax {
            Some(syntax) => Arc::new(syntax),
            None => Arc::new(error),
        };
        Self {
            source: described.source.clone().or(Some(cause)),
            ..described
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Finds an error of ours that travelled through DataFusion.
fn find_own(error: &DataFusionError) -> Option<&Error> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(own) = current.downcast_ref::<Error>() {
            return Some(own);
        }
        if let Some(shared) = current.downcast_ref::<Arc<DataFusionError>>() {
            return find_own(shared);
        }
        // An I/O error names the cause of what it carries as its own, and not what it carries.
        if let Some(io) = current.downcast_ref::<std::io::Error>()
            && let Some(own) = io.get_ref().and_then(|inner| inner.downcast_ref::<Error>())
        {
            return Some(own);
        }
        cause = current.source();
    }
    None
}

fn kind_of(error: &DataFusionError) -> ErrorKind {
    match error.find_root() {
        DataFusionError::ArrowError(cause, _) => match cause.as_ref() {
            ArrowError::IoError(..) => ErrorKind::Io,
            ArrowError::NotYetImplemented(_) => ErrorKind::NotSupported,
            _ => ErrorKind::Sql,
        },
        DataFusionError::ObjectStore(cause)
            if matches!(**cause, object_store::Error::PermissionDenied { .. }) =>
        {
            ErrorKind::Denied
        }
        DataFusionError::ParquetError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::IoError(_) => ErrorKind::Io,
        DataFusionError::NotImplemented(_) => ErrorKind::NotSupported,
        DataFusionError::ResourcesExhausted(_) => ErrorKind::ResourcesExhausted,
        DataFusionError::Internal(_) | DataFusionError::Substrait(_) => ErrorKind::Internal,
        DataFusionError::ExecutionJoin(cause) if cause.is_cancelled() => ErrorKind::Cancelled,
        DataFusionError::ExecutionJoin(_) => ErrorKind::Internal,
        _ if panic_of_task(error).is_some() => ErrorKind::Internal,
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => {
            existence::kind_of(message).unwrap_or(ErrorKind::Sql)
        }
        _ => ErrorKind::Sql,
    }
}

fn describe(error: &DataFusionError) -> String {
    if let DataFusionError::SQL(syntax, _) = error.find_root() {
        let message = syntax.to_string();
        let expected = message.strip_prefix("sql parser error: ");
        return format!("syntax error: {}", expected.unwrap_or(&message));
    }
    if let Some(said) = panic_of_task(error) {
        return format!("the query hit a bug in the engine: {said}");
    }
    if let Some(raised) = raised::what_was_raised(error) {
        return raised;
    }
    let mut message = strip_nesting(&error.strip_backtrace());
    if kind_of(error) == ErrorKind::ResourcesExhausted && !message.contains("tidegate.") {
        message.push_str(
            "; raise tidegate.memory_limit, or lower datafusion.execution.target_partitions",
        );
    }
    message
}

/// Returns what the panic of a task said that DataFusion waited for.
fn panic_of_task(error: &DataFusionError) -> Option<String> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(join) = current.downcast_ref::<JoinError>() {
            let text = join.to_string();
            let said = text.split_once(" panicked").map(|(_, said)| said);
            let said = said.map(|said| said.trim_start_matches(" with message "));
            return join
                .is_panic()
                .then(|| said.unwrap_or_default().trim_matches('"').to_string());
        }
        if let Some(shared) = current.downcast_ref::<Arc<DataFusionError>>() {
            return panic_of_task(shared);
        }
        cause = current.source();
    }
    None
}

/// Drops the prefixes with which DataFusion nests its errors and everything after a backtrace.
fn strip_nesting(message: &str) -> String {
    const NESTING: [&str; 12] = [
        "Error during planning: ",
        "SQL error: ",
        "Execution error: ",
        "Arrow error: ",
        "External error: ",
        "Schema error: ",
        "Optimizer rule 'simplify_expressions' failed",
        "caused by",
        "Parquet error: ",
        "Invalid or Unsupported Configuration: ",
        "Object Store error: ",
        "Resources exhausted: ",
    ];
    let mut rest = message
        .split("\n\nbacktrace")
        .next()
        .unwrap_or(message)
        .trim();
    while let Some(inner) = NESTING.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = inner.trim_start();
    }
    rest.to_string()
}

#[cfg(test)]
mod tests;
