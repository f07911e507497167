//! What servers say, by who must act.

use tidegate::ErrorKind;
use tonic::{Code, Status};

use super::said;

#[test]
fn statuses_become_errors() {
    for (code, message, kind, expect) in [
        (
            Code::InvalidArgument,
            "no table",
            ErrorKind::Sql,
            "no table",
        ),
        (Code::Unauthenticated, "no", ErrorKind::Denied, "no"),
        (
            Code::Unavailable,
            "queue",
            ErrorKind::Io,
            "the server is not available: queue",
        ),
        (
            Code::Unknown,
            "",
            ErrorKind::Io,
            "the connection to the server is gone",
        ),
        (Code::Internal, "a", ErrorKind::Io, "the server failed: a"),
        (Code::DeadlineExceeded, "30 s", ErrorKind::TimedOut, "30 s"),
    ] {
        let error = said(&Status::new(code, message));
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, expect));
    }
}
