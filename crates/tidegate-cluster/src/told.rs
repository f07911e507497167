//! How errors travel between processes: who must act, where it happened, and the message, in the text of
//! one of DataFusion's, which each hop leaves as it is.

use std::error::Error as _;

use datafusion::error::DataFusionError;
use serde::{Deserialize, Serialize};
use tidegate::{Error, ErrorKind};
use tonic::{Code, Status};
use url::Url;

/// What begins such a text.
const MARK: &str = "[tidegate.told]";

/// Characters of a message: it travels in a header.
const MESSAGE_MAX: usize = 2_000;

/// The kinds of errors by the names that travel.
const KINDS: [(ErrorKind, &str); 13] = [
    (ErrorKind::Sql, "sql"),
    (ErrorKind::NotFound, "not found"),
    (ErrorKind::AlreadyExists, "already exists"),
    (ErrorKind::NotSupported, "not supported"),
    (ErrorKind::Denied, "denied"),
    (ErrorKind::ResourcesExhausted, "resources exhausted"),
    (ErrorKind::Cancelled, "cancelled"),
    (ErrorKind::TimedOut, "timed out"),
    (ErrorKind::Io, "io"),
    (ErrorKind::Device, "device"),
    (ErrorKind::Internal, "internal"),
    (ErrorKind::Lost, "lost"),
    (ErrorKind::Conflict, "conflict"),
];

/// An error that happened in another process, or on the way to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    kind: String,
    /// The executor's name; its URL if it was lost.
    pub(crate) executor: String,
    pub(crate) message: String,
    /// The executor has no room for what the statement spills, or cannot write it.
    #[serde(default)]
    pub(crate) cannot_spill: bool,
}

impl Told {
    /// Describes an error of an executor; one that came from another executor stays what it is.
    pub(crate) fn of(executor: &str, error: &DataFusionError) -> Self {
        if let Some(told) = Self::find(error) {
            return told;
        }
        let (kind, message) = tidegate::spread::described(error);
        Self {
            cannot_spill: tidegate::spread::cannot_spill(error),
            ..Self::new(kind, executor, &message)
        }
    }

    pub(crate) fn new(kind: ErrorKind, executor: &str, message: &str) -> Self {
        let name = KINDS.iter().find(|(known, _)| *known == kind);
        Self {
            kind: name.map_or("internal", |(_, name)| name).into(),
            executor: executor.into(),
            message: message.chars().take(MESSAGE_MAX).collect(),
            cannot_spill: false,
        }
    }

    /// Describes a call that failed: a peer that is gone is lost, one that refuses is not.
    pub(crate) fn of_status(url: &Url, status: &Status) -> Self {
        let lost = status.code() == Code::Unavailable || status.source().is_some();
        let kind = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Denied,
            Code::Cancelled if !lost => ErrorKind::Cancelled,
            Code::OutOfRange | Code::ResourceExhausted if !lost => ErrorKind::ResourcesExhausted,
            _ if lost => ErrorKind::Lost,
            _ => ErrorKind::Internal,
        };
        let message = match status.source() {
            Some(source) => format!("{}: {source}", status.message()),
            None => status.message().to_string(),
        };
        Self::new(kind, url.as_str(), &message)
    }

    /// Finds what an error says of an executor.
    pub(crate) fn find(error: &DataFusionError) -> Option<Self> {
        let text = error.to_string();
        let (_, rest) = text.split_once(MARK)?;
        let mut told = serde_json::Deserializer::from_str(rest).into_iter();
        told.next()?.ok()
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        let kind = KINDS.iter().find(|(_, name)| *name == self.kind);
        kind.map_or(ErrorKind::Internal, |(kind, _)| *kind)
    }

    /// Tells whether the executor is lost to the statement.
    pub(crate) fn is_lost(&self) -> bool {
        self.cannot_spill || self.kind() == ErrorKind::Lost
    }

    /// Writes the error as it travels.
    pub(crate) fn to_error(&self) -> DataFusionError {
        let json = serde_json::to_string(self).unwrap_or_default();
        DataFusionError::Execution(format!("{MARK}{json}"))
    }

    /// Returns the error as the client sees it; what only the statement can mend is in the words of one
    /// process.
    pub(crate) fn into_shown(self) -> DataFusionError {
        let kind = self.kind();
        let is_of_statement = matches!(
            kind,
            ErrorKind::Sql | ErrorKind::NotFound | ErrorKind::NotSupported
        );
        let message = match is_of_statement || kind == ErrorKind::Cancelled {
            true => self.message,
            false => format!("executor {}: {}", self.executor, self.message),
        };
        Error::new(kind, message).into()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::error::DataFusionError;
    use tidegate::{Error, ErrorKind};
    use tonic::Status;
    use url::Url;

    use super::{KINDS, Told};

    #[test]
    fn an_error_keeps_its_kind_over_hops() {
        for (kind, _) in KINDS {
            let own: DataFusionError = Error::new(kind, "a \"quoted\" word").into();
            let told = Told::of("e1", &own);
            let hop = told.to_error().context("on the way");
            let again = Told::of("e2", &hop);
            assert_eq!(again, told);
            assert_eq!(again.kind(), kind);
            let shown = Error::from(again.into_shown());
            assert_eq!(shown.kind(), kind);
            assert!(shown.message().contains("a \"quoted\" word"), "{shown}");
        }
    }

    #[test]
    fn a_refusal_is_no_loss() {
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        let refused = Told::of_status(&url, &Status::unauthenticated("no"));
        assert_eq!(refused.kind(), ErrorKind::Denied);
        let gone = Told::of_status(&url, &Status::unavailable("gone"));
        assert!(gone.is_lost());
        let own = Told::of_status(&url, &Status::internal("a defect"));
        assert_eq!(own.kind(), ErrorKind::Internal);
    }
}
