"""Exceptions, by who must act."""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """What the engine refuses or fails at.

    ``kind`` says who must act, ``help`` the way out where one is known, and ``place`` the line and column of
    the statement, both counted from 1.
    """

    kind: ClassVar[str] = "internal"
    help: str | None = None
    place: tuple[int, int] | None = None


class SqlError(Error):
    """The statement or frame is wrong, or its data makes it fail."""

    kind = "sql"


class NotFoundError(Error, FileNotFoundError):
    """A table, schema, function or file is not there."""

    kind = "not_found"


class AlreadyExistsError(Error):
    """A table or schema is there already."""

    kind = "already_exists"


class NotSupportedError(Error):
    """The engine does not have this feature."""

    kind = "not_supported"


class DeniedError(Error):
    """The session may not do this."""

    kind = "denied"


class ResourcesExhaustedError(Error):
    """A limit was reached; the message names the setting."""

    kind = "resources_exhausted"


class CancelledError(Error):
    """The statement was cancelled."""

    kind = "cancelled"


class TimedOutError(Error):
    """The statement reached a time limit."""

    kind = "timed_out"


class IoError(Error, OSError):
    """A file, a store or a server could not be read or written."""

    kind = "io"


class DeviceError(Error):
    """A device failed, or a placement that was asked for could not be had."""

    kind = "device"


class LostError(Error):
    """An executor of a cluster was lost while it ran the statement: it can run again."""

    kind = "lost"


class ConflictError(Error):
    """Another statement changed the same table meanwhile, and this one changed nothing: it can run again."""

    kind = "conflict"


class InternalError(Error):
    """A defect of the engine."""

    kind = "internal"


_BY_KIND: dict[str, type[Error]] = {
    error.kind: error
    for error in (
        SqlError,
        NotFoundError,
        AlreadyExistsError,
        NotSupportedError,
        DeniedError,
        ResourcesExhaustedError,
        CancelledError,
        TimedOutError,
        IoError,
        DeviceError,
        LostError,
        ConflictError,
        InternalError,
    )
}


def make(kind: str, message: str, help: str | None, place: tuple[int, int] | None) -> Error:
    """Make the exception of a kind; the native module calls this."""
    error = _BY_KIND[kind](message)
    error.help = help
    error.place = place
    return error
