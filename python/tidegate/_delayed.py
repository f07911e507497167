"""Calls that are put off: a graph of Python functions, computed when a value is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from concurrent.futures import Future as Running
from typing import Any


class Delayed:
    """A call that has not happened. Passed to other delayed calls it is an argument of theirs."""

    __slots__ = ("_args", "_function", "_kwargs")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def compute(self, workers: int | None = None) -> Any:
        """Make the call, after those whose values it takes. Calls that do not depend on each other run beside
        each other; each runs once.

        Lazy frames among the arguments are passed as they are.

        Args:
            workers: the most calls at a time.
        """
        return _compute(self, workers)

    def _inputs(self) -> Iterable[Delayed]:
        for item in (*self._args, *self._kwargs.values()):
            yield from _found(item)

    def _call(self, values: dict[int, Any]) -> Any:
        args = [_filled(item, values) for item in self._args]
        kwargs = {name: _filled(item, values) for name, item in self._kwargs.items()}
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tidegate.Delayed {getattr(self._function, '__name__', 'call')}>"


def delayed(function: Callable[..., Any]) -> Callable[..., Delayed]:
    """Make calls of a function wait until their value is asked for: ``delayed(f)(a, b).compute()``."""

    def call(*args: Any, **kwargs: Any) -> Delayed:
        return Delayed(function, args, kwargs)

    call.__name__ = getattr(function, "__name__", "call")
    call.__doc__ = function.__doc__
    return call


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


def _compute(last: Delayed, workers: int | None) -> Any:
    waiting = _in_order(last)
    values: dict[int, Any] = {}
    running: dict[Running[Any], Delayed] = {}
    is_nested = threading.current_thread().name.startswith("tidegate-delayed")
    if is_nested or len(waiting) == 1:
        for call in waiting:
            values[id(call)] = call._call(values)
        return values[id(last)]
    with ThreadPoolExecutor(workers, thread_name_prefix="tidegate-delayed") as pool:
        try:
            while waiting or running:
                ready = [call for call in waiting if all(id(inner) in values for inner in call._inputs())]
                for call in ready:
                    running[pool.submit(call._call, values)] = call
                started = {id(call) for call in ready}
                waiting = [call for call in waiting if id(call) not in started]
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for task in done:
                    values[id(running.pop(task))] = task.result()
        except BaseException:
            for task in running:
                task.cancel()
            raise
    return values[id(last)]
