//! The error that leaves the library, sorted by who must act.

mod existence;
mod place;
mod plainly;
mod raised;
mod reworded;
mod upstream;
mod wording;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use tokio::task::JoinError;

pub use place::SqlPlace;
pub(crate) use plainly::without_path;
pub(crate) use raised::in_one_text;
pub(crate) use upstream::{Mistake, span};
pub(crate) use wording::in_sql;

/// Who must act on an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The statement is wrong, or its data makes it fail.
    Sql,
    /// The statement names a table, a schema, a file or the like that there is not.
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
    /// An executor of a cluster was lost while it ran the statement: it can run again.
    Lost,
    /// Another statement changed the same table meanwhile, and this one changed nothing: it can run again.
    Conflict,
    /// A defect of this library.
    Internal,
}

/// An error with who must act, what happened, and its cause; of a statement, also where in its text, and
/// what to write instead.
///
/// `{}` writes it on one line, `{:#}` with the line of the statement and a caret under the place:
///
/// ```text
/// column 'nmae' not found
///   1 | SELECT nmae FROM people
///     |        ^^^^
/// help: did you mean name?
/// ```
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    place: Option<Arc<SqlPlace>>,
    help: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// DataFusion's error that the message is about, where it is in other words.
    upstream: Option<Arc<DataFusionError>>,
}

impl Error {
    /// Makes an error without a cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            place: None,
            help: None,
            source: None,
            upstream: None,
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
            place: None,
            help: None,
            source: Some(Arc::new(source)),
            upstream: None,
        }
    }

    /// Describes a panic of the engine, which is a defect unless an array was too large for Arrow; `message` is what
    /// is said of a defect.
    pub(crate) fn of_panic(said: &str, message: String) -> Self {
        match reworded::too_large(said) {
            Some(limit) => Self::new(ErrorKind::ResourcesExhausted, limit),
            None => Self::new(ErrorKind::Internal, message),
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
            place: None,
            help: None,
            source: None,
            upstream: None,
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

    /// Returns what is wrong, without the place and the way out.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns where in its statement the mistake is, if that is known.
    pub fn place(&self) -> Option<&SqlPlace> {
        self.place.as_deref()
    }

    /// Returns the way out, if one is known beside what the message says.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Returns DataFusion's error that this one is about.
    pub(crate) fn upstream(&self) -> Option<&DataFusionError> {
        self.upstream.as_deref()
    }

    /// Says something else of the same kind and cause.
    pub(crate) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// Adds where in its statement the mistake is.
    pub(crate) fn at(self, place: Option<SqlPlace>) -> Self {
        Self {
            place: place.map(Arc::new),
            ..self
        }
    }

    /// Adds the way out.
    pub(crate) fn with_help(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if f.alternate() {
            if let Some(place) = &self.place {
                write!(f, "\n{place}")?;
            }
            return match &self.help {
                Some(help) => write!(f, "\nhelp: {help}"),
                None => Ok(()),
            };
        }
        match (&self.help, &self.place) {
            (Some(help), _) => write!(f, ": {help}"),
            (None, Some(place)) => {
                write!(f, " at line {}, column {}", place.line(), place.column())
            }
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
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
        if find_own(&error).is_some() && described.source.is_some() {
            return described;
        }
        let says_all = Mistake::of(&error).is_some() || reworded::reworded(&error).is_some();
        let error = Arc::new(error);
        match says_all {
            true => Self {
                upstream: Some(error),
                ..described
            },
            false => Self {
                source: Some(Arc::clone(&error) as _),
                upstream: Some(error),
                ..described
            },
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Lists an error and what it came from, the innermost cause last.
pub fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Finds an error of ours that travelled through DataFusion.
fn find_own(error: &DataFusionError) -> Option<&Error> {
    for current in causes(error) {
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
    }
    None
}

fn kind_of(error: &DataFusionError) -> ErrorKind {
    if let Some((kind, _)) = reworded::reworded(error) {
        return kind;
    }
    match error.find_root() {
        // DataFusion calls arguments of wrong types a defect of its own.
        DataFusionError::Internal(_) if Mistake::of(error).is_some() => ErrorKind::Sql,
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
        DataFusionError::ObjectStore(cause)
            if matches!(**cause, object_store::Error::NotFound { .. }) =>
        {
            ErrorKind::NotFound
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
    if let Some((_, message)) = reworded::reworded(error) {
        return message;
    }
    if let Some(said) = panic_of_task(error) {
        return format!("the query hit a bug in the engine: {said}");
    }
    if let Some(raised) = raised::what_was_raised(error) {
        return raised;
    }
    if let Some(mistake) = Mistake::of(error) {
        return mistake.message();
    }
    let message = wording::plain(error);
    match kind_of(error) {
        ErrorKind::ResourcesExhausted => reworded::with_way_out(message),
        _ => message,
    }
}

/// Returns what the panic of a task said that DataFusion waited for.
fn panic_of_task(error: &DataFusionError) -> Option<String> {
    for current in causes(error) {
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
    }
    None
}

#[cfg(test)]
mod tests;
