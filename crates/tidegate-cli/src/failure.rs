//! Why a statement gave no result, or not all of it.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use arrow::error::ArrowError;
use tidegate::ErrorKind;

use crate::panics;
use crate::signals::Signal;

/// Why a statement gave no result, or not all of it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The statement, its data or its limits.
    Query(tidegate::Error),
    /// A value has no form in the output format.
    Encode(ArrowError),
    /// The output format does not suit.
    Format(String),
    /// The result could not be written.
    Output(io::Error),
    /// Nobody reads the results any more.
    OutputClosed,
    /// The user stopped it.
    Stopped(Signal),
    /// A defect.
    Panic(String),
}

impl Failure {
    /// Sorts an error of standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(error),
        }
    }

    /// Tells why a task ended early.
    pub(crate) fn join(error: &tokio::task::JoinError) -> Self {
        match error.is_panic() {
            true => Self::Panic(panics::take()),
            false => Self::Stopped(Signal::Interrupt),
        }
    }
}

impl From<tidegate::Error> for Failure {
    fn from(error: tidegate::Error) -> Self {
        Self::Query(error)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Encode(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(error) if error.kind() == ErrorKind::Internal => {
                write!(f, "internal error: {}; please report it", chain(error))
            }
            Self::Query(error) => f.write_str(&explained(error)),
            Self::Encode(error) => {
                write!(f, "the result cannot be written in this format: {error}")
            }
            Self::Format(message) => f.write_str(message),
            Self::Output(error) => write!(f, "the result cannot be written: {error}"),
            Self::OutputClosed => f.write_str("the output is closed"),
            Self::Stopped(_) => f.write_str("cancelled"),
            Self::Panic(message) => write!(f, "internal error: {message}; please report it"),
        }
    }
}

/// Writes an error with its place and its way out, if they are known; then its causes say no more. That of a
/// server has both in its text.
fn explained(error: &tidegate::Error) -> String {
    let text = format!("{error:#}");
    match text.contains('\n') {
        true => text,
        false => chain(error),
    }
}

/// Writes an error and its causes on one line, less the causes that only repeat what was said.
fn chain(error: &dyn StdError) -> String {
    let mut text = one_line(&error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = one_line(&error.to_string());
        let unlabelled = said
            .split_once(": ")
            .map_or(said.as_str(), |(_, said)| said);
        if !text.contains(unlabelled) && !said.contains(beginning(&text)) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// Returns as much of an error's text as tells it from another one.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(40)]
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
