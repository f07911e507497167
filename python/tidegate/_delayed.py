"""Calls that are put off: a graph of Python functions, computed when a value is asked for, or beside what Python does."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from tidegate._jobs import Future

if TYPE_CHECKING:
    from tidegate import _tidegate
    from tidegate._connection import Connection

#: Whether this thread makes a call.
_THREAD = threading.local()
#: Seconds after which whoever waits for a call looks whether Ctrl-C was pressed.
_LOOK = 0.1


@dataclass(frozen=True)
class _Needs:
    """What each call of a function takes while it runs."""

    slots: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    retries: int = 0
    priority: int = 0


class Delayed:
    """A call that has not happened. Passed to other delayed calls it is an argument of theirs."""

    __slots__ = ("_args", "_function", "_kwargs", "_needs")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], needs: _Needs
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._needs = needs

    def compute(self, con: Connection | None = None) -> Any:
        """Make the call, after those whose values it takes. Calls that do not depend on each other run beside
        each other, as tasks of a session; each runs once.

        Lazy frames among the arguments are passed as they are.

        Args:
            con: whose slots and memory the calls take; the default connection if there is none.
        """
        import tidegate

        return _compute(self, con or tidegate.default_connection())

    def _name(self) -> str:
        return str(getattr(self._function, "__name__", "call"))

    def _inputs(self) -> Iterable[Delayed]:
        return (item for item in self._found() if isinstance(item, Delayed))

    def _futures(self) -> Iterable[CallFuture | Future]:
        return (item for item in self._found() if not isinstance(item, Delayed))

    def _found(self) -> Iterable[Delayed | CallFuture | Future]:
        for item in (*self._args, *self._kwargs.values()):
            yield from _found(item)

    def _call(self, values: dict[int, Any]) -> Any:
        args = [_filled(item, values) for item in self._args]
        kwargs = {name: _filled(item, values) for name, item in self._kwargs.items()}
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tidegate.Delayed {self._name()}>"


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


@overload
def delayed(function: Callable[..., Any]) -> Callable[..., Delayed]: ...


@overload
def delayed(
    *, slots: Mapping[str, int] | None = None, memory: int = 0, retries: int = 0, priority: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Delayed]]: ...


def delayed(
    function: Callable[..., Any] | None = None,
    *,
    slots: Mapping[str, int] | None = None,
    memory: int = 0,
    retries: int = 0,
    priority: int = 0,
) -> Any:
    """Make calls of a function wait until their value is asked for: ``delayed(f)(a, b).compute()``.

    Args:
        function: what is called.
        slots: what a call takes while it runs, by name: one of ``cpu``, of which there are as many as cores, unless
            it says ``{"cpu": 0}``; of ``device`` there are as many as devices.
        memory: bytes that are reserved while a call runs, of the memory that statements share.
        retries: how often a call that raised is made again.
        priority: calls of a higher one run first.
    """
    needs = _Needs(dict(slots or {}), memory, retries, priority)

    def of(function: Callable[..., Any]) -> Callable[..., Delayed]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Delayed:
            return Delayed(function, args, kwargs, needs)

        return call

    return of if function is None else of(function)


def _found(item: Any) -> Iterable[Delayed | CallFuture | Future]:
    if isinstance(item, (Delayed, CallFuture, Future)):
        yield item
    elif isinstance(item, (list, tuple)):
        for inner in item:
            yield from _found(inner)
    elif isinstance(item, dict):
        for inner in item.values():
            yield from _found(inner)


def _filled(item: Any, values: dict[int, Any]) -> Any:
    if isinstance(item, Delayed):
        return values[id(item)]
    if isinstance(item, (CallFuture, Future)):
        return item.result()
    if type(item) in (list, tuple):
        return type(item)(_filled(inner, values) for inner in item)
    if type(item) is dict:
        return {name: _filled(inner, values) for name, inner in item.items()}
    return item


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


def _compute(last: Delayed, con: Connection) -> Any:
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
        graph.advance()
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
        for future in {id(future): future for call in self._waiting for future in call._futures()}.values():
            future.add_done_callback(lambda _: self.advance())

    def run_here(self) -> None:
        """Make the calls one after the other, in this thread."""
        try:
            for call in self._waiting:
                self._values[id(call)] = call._call(self._values)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(self._values[id(self._last)])

    def advance(self) -> None:
        """Begin the calls whose arguments are there."""
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
                    self.advance()

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
