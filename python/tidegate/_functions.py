"""Python functions over batches of Arrow arrays."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

from tidegate import _expr, _tidegate, _types
from tidegate._expr import Expr, IntoExpr

# A thread of the engine must not be in a function when Python ends.
atexit.register(_tidegate.end_functions)


class Udf:
    """A scalar function whose body is Python. Called with expressions it is one."""

    def __init__(
        self,
        body: Callable[..., Any],
        returns: Any,
        *,
        name: str | None = None,
        volatile: bool = False,
    ) -> None:
        self.__name__: str = name or str(getattr(body, "__name__", "function"))
        self.__doc__ = body.__doc__
        self._body = body
        self._returns = _types.data_type(returns)
        self._is_volatile = volatile

        def call(arrays: list[Any], length: int) -> Any:
            return _array(body(*arrays), length)

        self._function = _tidegate.Function(self.__name__, self._returns, call, volatile)

    def named(self, name: str) -> Udf:
        """Return the function under another name."""
        return Udf(self._body, self._returns, name=name, volatile=self._is_volatile)

    def __call__(self, *args: IntoExpr) -> Expr:
        """Call the function in an expression; a string is a column's name."""
        nodes = tuple(_expr._column(arg)._node for arg in args)
        return Expr(("udf", self._function, nodes))

    def __repr__(self) -> str:
        return f"<tidegate.udf {self.__name__}>"


def udf(
    returns: Any, *, name: str | None = None, volatile: bool = False
) -> Callable[[Callable[..., Any]], Udf]:
    """Make a function over batches: it gets a ``pyarrow.Array`` for each argument, and returns an Arrow array, a
    NumPy array or a list of as many values.

    It runs on the host, on threads of the engine, one call at a time under Python's lock.

    Args:
        returns: the type of its values.
        name: what plans and messages call it.
        volatile: whether the same arguments may give other values.
    """
    # What is no type is told here, and not where the function is.
    _tidegate.Function("function", _types.data_type(returns), lambda arrays, length: None, volatile)
    return lambda body: Udf(body, returns, name=name, volatile=volatile)


def _array(values: Any, length: int) -> Any:
    """Turn what a function returned into something that exports one Arrow array."""
    if hasattr(values, "__arrow_c_array__"):
        return values
    import pyarrow

    if isinstance(values, pyarrow.Scalar):
        return pyarrow.repeat(values, length)
    if isinstance(values, pyarrow.ChunkedArray):
        chunks = values
    elif hasattr(values, "__arrow_c_stream__"):
        chunks = pyarrow.chunked_array(values)
    elif hasattr(values, "__len__") and not isinstance(values, (str, bytes)):
        return pyarrow.array(values)
    else:
        return pyarrow.repeat(pyarrow.scalar(values), length)
    combined = chunks.combine_chunks()
    # Older versions return chunks, of which there is one.
    return combined.chunk(0) if isinstance(combined, pyarrow.ChunkedArray) else combined


def batch_body(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make what the native module calls of a function over batches."""

    def call(batch: Any) -> Any:
        given = function(batch)
        if hasattr(given, "__arrow_c_array__"):
            return given
        import pyarrow

        table = pyarrow.table(given)
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=table.schema)

    return call
