"""A progress bar, drawn by the thread that waits, and only where somebody sees it."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from tidegate._options import options

if TYPE_CHECKING:
    from tidegate._tidegate import Job

#: Seconds before a bar is shown, and between two drawings of it.
_AFTER = 1.0
_EVERY = 0.2
_WIDTH = 30


class Bar:
    """A bar for one statement, gone when the statement ends."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._start = time.monotonic()
        self._next = self._start + _AFTER
        self._is_shown = False
        self.tick = self._draw if _is_welcome() else None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def _draw(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        told = self._job.progress()
        seconds = f"{now - self._start:.1f} s"
        if told is None or told["share"] is None:
            line = f"running, {seconds}"
        else:
            done = int(told["share"] * _WIDTH)
            bar = "█" * done + "░" * (_WIDTH - done)
            line = f"{bar} {told['share']:.0%}, {seconds}"
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()
        self._is_shown = True


def _is_welcome() -> bool:
    if options.progress is not None:
        return options.progress
    if os.environ.get("TERM") == "dumb":
        return False
    return sys.stderr is not None and (sys.stderr.isatty() or _is_notebook())


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    current = shell.get_ipython()
    return type(current).__name__ == "ZMQInteractiveShell"
