"""Calls of Python functions as tasks of a session: each begins when the values that it takes are there.

A module of its own, imported when it is first needed: ``concurrent.futures`` takes a fifth of the package's import.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from tidegate._delayed import Delayed

if TYPE_CHECKING:
    from tidegate import _tidegate
    from tidegate._connection import Connection

#: Whether this thread makes a call.
_THREAD = threading.local()
#: Seconds after which whoever waits for a call looks whether Ctrl-C was pressed.
_LOOK = 0.1


class CallFuture(concurrent.futures.Future[Any]):
    """The value of a call that was submitted. Made by ``Connection.submit``.

    It is a future of ``concurrent.futures``: ``wait``, ``as_completed`` and ``asyncio.wrap_future`` take it, and it can be
    awaited. Passed to ``submit`` or to a delayed call it is an argument of theirs. A call that is cancelled while it runs
    runs on, and its value is dropped.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__()
        self._stop = stop

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        # Those who wait for it are told.
        self.set_running_or_notify_cancel()
        self._stop()
        return True

    def running(self) -> bool:
        return not self.done()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        return asyncio.wrap_future(self).__await__()


def compute(last: Delayed, con: Connection) -> Any:
    future = submitted(last, con)
    try:
        # A signal that another thread was sent wakes nobody.
        while not future.done():
            concurrent.futures.wait([future], timeout=_LOOK)
        return future.result()
    except BaseException:
        future.cancel()
        raise


def submitted(last: Delayed, con: Connection) -> CallFuture:
    """Begin a call, and those whose values it takes."""
    graph = _Graph(last, con)
    if getattr(_THREAD, "is_call", False):
        # A call of a call would wait for slots that the outer one has.
        graph.run_here()
    else:
        graph.begin()
    return graph.future


class _Graph:
    """Calls on their way."""

    def __init__(self, last: Delayed, con: Connection) -> None:
        self.future = CallFuture(self._stop)
        self._last = last
        self._con = con
        self._lock = threading.RLock()
        self._values: dict[int, Any] = {}
        self._waiting = _in_order(last)
        self._running: dict[int, _tidegate.Call] = {}

    def run_here(self) -> None:
        """Make the calls one after the other, in this thread."""
        try:
            for call in self._waiting:
                self._values[id(call)] = call._call(self._values)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(self._values[id(self._last)])

    def begin(self) -> None:
        """Begin the calls whose arguments are there, and the others when theirs are."""
        for future in {id(future): future for call in self._waiting for future in call._futures()}.values():
            future.add_done_callback(lambda _: self._advance())
        self._advance()

    def _advance(self) -> None:
        with self._lock:
            ready = [call for call in self._waiting if self._is_ready(call)]
            self._waiting = [call for call in self._waiting if call not in ready]
            try:
                for call in ready:
                    self._begin(call)
            except BaseException as error:
                self._fail(error)

    def _is_ready(self, call: Delayed) -> bool:
        return all(id(inner) in self._values for inner in call._inputs()) and all(
            future.done() for future in call._futures()
        )

    def _begin(self, call: Delayed) -> None:
        def body() -> Any:
            _THREAD.is_call = True
            try:
                return call._call(self._values)
            finally:
                _THREAD.is_call = False

        def done(value: Any, error: BaseException | None) -> None:
            with self._lock:
                self._running.pop(id(call), None)
                if error is not None:
                    self._fail(error)
                    return
                self._values[id(call)] = value
                if call is self._last:
                    self._settle(lambda: self.future.set_result(value))
                else:
                    self._advance()

        needs = call._needs
        task = self._con._session.submit_call(
            call._name(), body, done, (dict(needs.slots), needs.memory, needs.retries, needs.priority)
        )
        if id(call) not in self._values:
            self._running[id(call)] = task

    def _fail(self, error: BaseException) -> None:
        self._stop()
        self._settle(lambda: self.future.set_exception(error))

    def _stop(self) -> None:
        with self._lock:
            self._waiting = []
            running, self._running = self._running, {}
        for task in running.values():
            task.cancel()

    def _settle(self, settle: Callable[[], None]) -> None:
        try:
            settle()
        except concurrent.futures.InvalidStateError:
            # It was cancelled, or another call failed.
            pass


def _in_order(last: Delayed) -> list[Delayed]:
    """List the calls so that each comes after those that it takes."""
    order: list[Delayed] = []
    seen: set[int] = set()
    stack: list[tuple[Delayed, bool]] = [(last, False)]
    while stack:
        call, is_ready = stack.pop()
        if is_ready:
            order.append(call)
        elif id(call) not in seen:
            seen.add(id(call))
            stack.append((call, True))
            stack.extend((inner, False) for inner in call._inputs())
    return order
