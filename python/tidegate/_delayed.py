"""Calls that are put off: a graph of Python functions, computed when a value is asked for. ``_calls`` makes them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from tidegate._jobs import Future

if TYPE_CHECKING:
    from tidegate._calls import CallFuture
    from tidegate._connection import Connection


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
        from tidegate._calls import compute

        return compute(self, con or tidegate.default_connection())

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


def _is_future(item: Any) -> bool:
    # Without that module, which takes long to import, there is no future of a call.
    calls = sys.modules.get("tidegate._calls")
    return isinstance(item, Future) or (calls is not None and isinstance(item, calls.CallFuture))


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
    if function is not None and not callable(function):
        raise TypeError(f"delayed() takes a function, and not a {type(function).__name__}")
    needs = _Needs(dict(slots or {}), memory, retries, priority)

    def of(function: Callable[..., Any]) -> Callable[..., Delayed]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Delayed:
            return Delayed(function, args, kwargs, needs)

        return call

    return of if function is None else of(function)


def _found(item: Any) -> Iterable[Delayed | CallFuture | Future]:
    if isinstance(item, Delayed) or _is_future(item):
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
    if _is_future(item):
        return item.result()
    if type(item) in (list, tuple):
        return type(item)(_filled(inner, values) for inner in item)
    if type(item) is dict:
        return {name: _filled(inner, values) for name, inner in item.items()}
    return item
