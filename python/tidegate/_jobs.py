"""Statements that run while Python does something else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from tidegate._table import Table

if TYPE_CHECKING:
    from tidegate._tidegate import Job


class Future:
    """The rows of a statement that runs. Made by ``Connection.submit``."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def done(self) -> bool:
        """Return whether the statement has ended."""
        return self._job.done()

    def cancel(self) -> None:
        """Stop the statement; ``result`` then raises ``CancelledError``."""
        self._job.cancel()

    def progress(self) -> dict[str, Any] | None:
        """Tell how far the statement has come: ``share`` from 0 to 1, ``seconds``, ``rows_read``, …; ``None``
        if that is not known."""
        return self._job.progress()

    def result(self, timeout: float | None = None) -> Table:
        """Wait for the rows.

        Args:
            timeout: the most seconds to wait.

        Raises:
            TimeoutError: if they are not there by then; the statement runs on.
        """
        rows = self._job.wait(timeout, None, False)
        if rows is None:
            raise TimeoutError(f"the statement has not ended within {timeout:g} s")
        return Table(rows)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end, and return what the statement failed with."""
        try:
            self.result(timeout)
        except TimeoutError:
            raise
        except Exception as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[Future], object]) -> None:
        """Call a function with the future when the statement ends, from a thread of the engine."""
        self._job.add_done_callback(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, Table]:
        return self._result().__await__()

    async def _result(self) -> Table:
        import asyncio

        from tidegate._frame import _tell

        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._job.add_done_callback(lambda: _tell(loop, ended))
        await ended.wait()
        return self.result()

    def __repr__(self) -> str:
        return f"<tidegate.Future {'done' if self.done() else 'running'}>"
