"""Arrays of a rule, or of values that are there."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from tidegate._expr import col, lit, when
from tidegate.array._array import INDICES, Array, Deferred, Dimension, known_dtype

if TYPE_CHECKING:
    from tidegate._connection import Connection
    from tidegate._frame import DataFrame

Shape = Union[int, Sequence[int]]
Chunks = Union[int, Sequence[int], None]


def from_sql(call: str, shape: Shape, chunks: Chunks, con: Connection | None, **options: Any) -> Array:
    """Make an array of a table function of arrays; ``{shape}`` in the call is its shape."""
    import tidegate

    lengths = _integers(shape)
    if not lengths:
        return from_sql(call, 1, chunks, con, **options)[0]
    if len(lengths) > len(INDICES):
        raise ValueError(f"an array has up to {len(INDICES)} dimensions, and the shape is {lengths}")
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
    pieces = _integers(chunks)
    if np.ndim(chunks) == 0:
        pieces *= len(lengths)
    if len(pieces) != len(lengths):
        raise ValueError(f"chunks={chunks} has other dimensions than the shape {lengths}")
    return tuple(min(piece, max(length, 1)) for piece, length in zip(pieces, lengths))


def _integers(given: Any) -> tuple[int, ...]:
    """Return the integers of a sequence, or one alone, of Python's or of NumPy's."""
    many = given if np.ndim(given) else (given,)
    return tuple(operator.index(item) for item in many)


def _dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype({"Boolean": "bool"}.get(name, name.lower()))


def arange(
    start: int | float,
    stop: int | float | None = None,
    step: int | float = 1,
    dtype: Any = None,
    *,
    chunks: Chunks = None,
    con: Connection | None = None,
) -> Array:
    """Make ``start``, ``start + step``, … to below ``stop``, as ``numpy.arange`` does, of this type if one is given."""
    if stop is None:
        start, stop = 0, start
    is_whole = all(hasattr(item, "__index__") for item in (start, stop, step))
    if step == 0:
        raise ValueError("arange() has no step of 0")
    length = len(range(start, stop, step)) if is_whole else max(0, int(np.ceil((stop - start) / step)))  # type: ignore[arg-type]
    positions = from_sql(f"arange({length})", length, chunks, con)
    found = positions._with(col("i") * step + start, np.dtype("int64" if is_whole else "float64"))
    return found if dtype is None else found.astype(dtype)


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    *,
    chunks: Chunks = None,
    con: Connection | None = None,
) -> Array:
    """Make ``num`` numbers that lie evenly from ``start`` to ``stop``, which is the last unless ``endpoint=False``."""
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"num={num}: it is not negative")
    parts = count - 1 if endpoint else count
    step = (float(stop) - float(start)) / max(parts, 1)
    value = col("i") * step + float(start)
    if endpoint and count > 1:
        value = when(col("i") == count - 1).then(float(stop)).otherwise(value)
    found = from_sql(f"arange({count})", count, chunks, con)._with(value, np.dtype("float64"))
    return found if dtype is None else found.astype(dtype)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    chunks: Chunks = None,
    con: Connection | None = None,
) -> Array:
    """Make a matrix of ``N`` rows and ``M`` columns, with ones on the diagonal ``k`` and zeros elsewhere."""
    positions = from_sql("ones({shape})", (N, N if M is None else M), chunks, con)
    is_one = col("j") - col("i") == operator.index(k)
    return positions._with(is_one, np.dtype(bool)).astype(dtype)


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


#: NumPy's has any values; those of zeros are as good.
empty = zeros


def full(
    shape: Shape,
    fill_value: int | float | bool,
    dtype: Any = None,
    *,
    chunks: Chunks = None,
    con: Connection | None = None,
) -> Array:
    """Make an array of one value."""
    return filled(from_sql("ones({shape})", shape, chunks, con), fill_value, dtype)


def filled(like: Array, fill_value: int | float | bool, dtype: Any) -> Array:
    """Make an array of one value, of this type or the value's, over the frame of another array."""
    wanted = known_dtype(np.asarray(fill_value).dtype if dtype is None else dtype)
    # An integer is not a float on its way, which would round it.
    value = lit({"b": bool, "i": int, "f": float}[wanted.kind](fill_value))
    return like._with(value.cast(wanted.name), wanted)


def from_array(values: Any, chunks: Chunks = None, *, con: Connection | None = None) -> Array:
    """Make an array of a NumPy array, whose values are shared where they lie in order; integers of other
    widths become ``int64``.

    Args:
        values: anything that ``numpy.asarray`` takes, of numbers or truth values, with 1 to 8 dimensions.
        chunks: kept as the array's ``chunks``.

    Raises:
        TypeError: for other values, and for masked arrays that have masked values, of which there are none here.
    """
    import pyarrow

    import tidegate

    if isinstance(values, Array):
        return values
    if np.ma.is_masked(values):
        raise TypeError("arrays have no masked values: use values.filled(numpy.nan), or the mask as an array of its own")
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
