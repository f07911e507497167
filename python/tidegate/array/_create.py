"""Arrays of a rule, or of values that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from tidegate._expr import col, lit
from tidegate.array._array import INDICES, Array, Deferred, Dimension

if TYPE_CHECKING:
    from tidegate._connection import Connection
    from tidegate._frame import DataFrame

Shape = Union[int, Sequence[int]]
Chunks = Union[int, Sequence[int], None]


def from_sql(call: str, shape: Shape, chunks: Chunks, con: Connection | None, **options: Any) -> Array:
    """Make an array of a table function of arrays; ``{shape}`` in the call is its shape."""
    import tidegate

    lengths = (shape,) if isinstance(shape, int) else tuple(int(length) for length in shape)
    if not lengths or len(lengths) > len(INDICES):
        raise ValueError(f"an array has 1 to {len(INDICES)} dimensions, and the shape is {lengths}")
    named = dict(options)
    if chunks is not None:
        named["chunks"] = f"[{', '.join(map(str, _per_dimension(chunks, lengths)))}]"
    given = [call.format(shape=f"[{', '.join(map(str, lengths))}]")]
    given[0] = given[0].removesuffix(")")
    text = ", ".join([*given, *(f"{name} => {value}" for name, value in named.items())]) + ")"
    base = (con or tidegate.default_connection()).sql(f"SELECT * FROM {text}")
    dimensions = tuple(Dimension.whole(INDICES[axis], length) for axis, length in enumerate(lengths))
    pieces = None if chunks is None else _per_dimension(chunks, lengths)
    return Array(base, dimensions, col("x"), _dtype_of(base.schema["x"]), pieces)


def _per_dimension(chunks: int | Sequence[int], lengths: tuple[int, ...]) -> tuple[int, ...]:
    pieces = (chunks,) * len(lengths) if isinstance(chunks, int) else tuple(chunks)
    if len(pieces) != len(lengths):
        raise ValueError(f"chunks={chunks} has other dimensions than the shape {lengths}")
    return tuple(min(int(piece), max(length, 1)) for piece, length in zip(pieces, lengths))


def _dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype({"Boolean": "bool"}.get(name, name.lower()))


def arange(
    start: int | float,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    chunks: Chunks = None,
    con: Connection | None = None,
) -> Array:
    """Make ``start``, ``start + step``, … to below ``stop``, as ``numpy.arange`` does."""
    if stop is None:
        start, stop = 0, start
    length = max(0, int(np.ceil((stop - start) / step)))
    positions = from_sql("arange({0})".replace("{0}", str(length)), (length,), chunks, con)
    dtype = np.result_type(type(start), type(stop), type(step))
    value = col("i") * step + start
    return positions._with(value, np.dtype("float64" if dtype.kind == "f" else "int64"))


def ones(
    shape: Shape, dtype: Any = "float64", *, chunks: Chunks = None, con: Connection | None = None
) -> Array:
    """Make an array of ones."""
    return full(shape, 1, dtype, chunks=chunks, con=con)


def zeros(
    shape: Shape, dtype: Any = "float64", *, chunks: Chunks = None, con: Connection | None = None
) -> Array:
    """Make an array of zeros."""
    return full(shape, 0, dtype, chunks=chunks, con=con)


def full(
    shape: Shape,
    fill_value: int | float | bool,
    dtype: Any = None,
    *,
    chunks: Chunks = None,
    con: Connection | None = None,
) -> Array:
    """Make an array of one value."""
    wanted = np.dtype(dtype) if dtype is not None else np.asarray(fill_value).dtype
    positions = from_sql("ones({shape})", shape, chunks, con)
    return positions._with(lit(float(fill_value)), np.dtype("float64")).astype(wanted)


def from_array(values: Any, chunks: Chunks = None, *, con: Connection | None = None) -> Array:
    """Make an array of a NumPy array, whose values are shared where they lie in order; integers of other
    widths become ``int64``.

    Args:
        values: anything that ``numpy.asarray`` takes, of numbers or truth values, with 1 to 8 dimensions.
        chunks: kept as the array's ``chunks``.
    """
    import pyarrow

    import tidegate

    if isinstance(values, Array):
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"arrays have numbers or truth values, and not {array.dtype}")
    if array.ndim == 0 or array.ndim > len(INDICES):
        raise TypeError(f"an array has 1 to {len(INDICES)} dimensions, and this one has {array.ndim}")
    if array.dtype.kind in "iu":
        array = array.astype("int64", casting="safe", copy=False)
    elif array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype("float64")
    array = np.ascontiguousarray(array)
    own = con or tidegate.default_connection()

    def frame() -> DataFrame:
        columns: dict[str, Any] = {}
        for axis, length in enumerate(array.shape):
            shape = [1] * array.ndim
            shape[axis] = length
            index = np.arange(length, dtype="int64").reshape(shape)
            columns[INDICES[axis]] = np.broadcast_to(index, array.shape).ravel()
        columns["x"] = array.ravel()
        return own.from_arrow(pyarrow.table(columns))

    dimensions = tuple(Dimension.whole(INDICES[axis], length) for axis, length in enumerate(array.shape))
    pieces = None if chunks is None else _per_dimension(chunks, array.shape)
    return Array(Deferred(own, frame), dimensions, col("x"), array.dtype, pieces, source=array)
