//! Errors as gRPC statuses: the code says whether trying again can help.

use std::error::Error as StdError;

use tidegate::{Error, ErrorKind};
use tonic::{Code, Status};

/// Characters of a message. It travels in a header, and clients refuse large ones.
const MESSAGE_MAX: usize = 2_000;

/// Turns an error into a status.
pub(crate) fn status(error: impl Into<Error>) -> Status {
    let error = error.into();
    let code = match error.kind() {
        ErrorKind::Sql => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::NotSupported => Code::Unimplemented,
        ErrorKind::Denied => Code::PermissionDenied,
        ErrorKind::ResourcesExhausted => Code::ResourceExhausted,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::TimedOut => Code::DeadlineExceeded,
        ErrorKind::Io => Code::FailedPrecondition,
        ErrorKind::Lost => Code::Unavailable,
        ErrorKind::Conflict => Code::Aborted,
        ErrorKind::Device | ErrorKind::Internal => Code::Internal,
    };
    Status::new(code, shortened(&format!("{error:#}")))
}

/// Says that a message of a client is wrong.
pub(crate) fn invalid(what: &str, error: &dyn StdError) -> Status {
    Status::invalid_argument(shortened(&format!("{what}: {error}")))
}

/// Says that something is not done here, by its name.
pub(crate) fn unimplemented(what: &str) -> Status {
    Status::unimplemented(format!("{what} is not supported by this server"))
}

/// Says that a defect was met.
pub(crate) fn defect(what: &str, error: &dyn StdError) -> Status {
    Status::internal(shortened(&format!("{what}: {error}; please report it")))
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Error, ErrorKind};
    use tonic::Code;

    use super::status;

    #[test]
    fn messages_fit_into_a_header() {
        let long = status(Error::new(ErrorKind::Sql, "é".repeat(10_000)));
        assert_eq!(long.code(), Code::InvalidArgument);
        assert!(long.message().len() <= 2 * 2_000 + 3);
        let short = status(Error::new(ErrorKind::Denied, "no"));
        assert_eq!(
            (short.code(), short.message()),
            (Code::PermissionDenied, "no")
        );
    }
}
