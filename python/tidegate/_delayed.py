"""Calls that are put off: a graph of Python functions, computed when a value is asked for."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from tidegate import _tidegate
    from tidegate._connection import Connection

#: Whether this thread makes a call.
_THREAD = threading.local()


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
        for item in (*self._args, *self._kwargs.values()):
            yield from _found(item)

    def _call(self, values: dict[int, Any]) -> Any:
        args = [_filled(item, values) for item in self._args]
        kwargs = {name: _filled(item, values) for name, item in self._kwargs.items()}
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tidegate.Delayed {self._name()}>"


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


def _found(item: Any) -> Iterable[Delayed]:
    if isinstance(item, Delayed):
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
    waiting = _in_order(last)
    values: dict[int, Any] = {}
    if getattr(_THREAD, "is_call", False):
        # A call of a call would wait for slots that the outer one has.
        for call in waiting:
            values[id(call)] = call._call(values)
        return values[id(last)]
    ended: SimpleQueue[tuple[Delayed, Any, BaseException | None]] = SimpleQueue()
    running: dict[int, _tidegate.Call] = {}
    try:
        while id(last) not in values:
            ready = [call for call in waiting if all(id(inner) in values for inner in call._inputs())]
            waiting = [call for call in waiting if call not in ready]
            for call in ready:
                running[id(call)] = _submit(call, values, con, ended)
            call, value, error = ended.get()
            del running[id(call)]
            if error is not None:
                raise error
            values[id(call)] = value
    except BaseException:
        for task in running.values():
            task.cancel()
        raise
    return values[id(last)]


def _submit(call: Delayed, values: dict[int, Any], con: Connection, ended: SimpleQueue[Any]) -> _tidegate.Call:
    def body() -> Any:
        _THREAD.is_call = True
        try:
            return call._call(values)
        finally:
            _THREAD.is_call = False

    def done(value: Any, error: BaseException | None) -> None:
        ended.put((call, value, error))

    needs = call._needs
    return con._session.submit_call(
        call._name(), body, done, (dict(needs.slots), needs.memory, needs.retries, needs.priority)
    )
