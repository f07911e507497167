"""What depends on the order of values: the place of the least, medians, sums up to each, and sorted values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate._expr import Expr, col, fn, lit, when
from tidegate.array._array import INDICES, Array, Axis, Dimension, axes_of
from tidegate.array._shapes import arrays_of, stack

_WHOLE = np.dtype("int64")
#: Expressions by which rows are sorted, and whether each descends.
_Order = list[tuple[Expr, bool]]


def _one(item: Any) -> Array:
    return arrays_of([item])[0]


def _place_of(a: Any, axis: int | None, keepdims: bool, name: str, order: Callable[[Expr], _Order]) -> Array:
    """Return the index of the first value in an order."""
    array = _one(a)
    axes = axes_of(axis, array.ndim)
    if axis is not None and len(axes) != 1:
        raise TypeError(f"{name}() is over one axis, or over all")
    if any(array.shape[n] == 0 for n in axes):
        raise ValueError(f"attempt to get {name} of an empty sequence")
    place = array._place() if axis is None else array._dimensions[axes[0]].index()

    def first(value: Expr) -> Expr:
        sorts = [*order(value), (place, False)]
        return Expr(("fn", "first_value", (place._node,), False, tuple((by._node, down, down) for by, down in sorts), None))

    return array._reduce(first, _WHOLE, None if axis is None else axes[0], keepdims)


def argmin(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Return the first index of the least value in an axis, or among all values; NaN counts as the least."""
    is_float = _one(a).dtype.kind == "f"
    return _place_of(
        a, axis, keepdims, "argmin", lambda value: [*([(value.is_nan(), True)] if is_float else []), (value, False)]
    )


def argmax(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Return the first index of the greatest value in an axis, or among all values; NaN counts as the greatest."""
    # So it is to the engine.
    return _place_of(a, axis, keepdims, "argmax", lambda value: [(value, True)])


def quantile(a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Array:
    """Return the value below which a share of the values lies, between two of them by interpolation.

    Args:
        q: a share from 0 to 1, or a list of them, which are the first axis of the result.

    Returns:
        Floats; NaN where one of the values is NaN, and of no values.
    """
    if method != "linear":
        raise TypeError(f"method={method!r} is not there: quantiles are between two values, 'linear'")
    shares = np.asarray(q, dtype="float64")
    if shares.ndim > 1 or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("quantiles are of shares from 0 to 1, and percentiles of 0 to 100: one, or a list of them")
    array = _one(a)
    own = array.astype("float64" if shares.ndim else array._float())

    def build(share: float) -> Callable[[Expr], Expr]:
        # NaN is the greatest value to the engine.
        return lambda value: when(value.max().is_nan()).then(value.max()).otherwise(value.quantile(share))

    found = [own._reduce(build(float(share)), own.dtype, axis, keepdims) for share in np.atleast_1d(shares)]
    return stack(found) if shares.ndim else found[0]


def percentile(a: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Array:
    """Return the value below which so many percent of the values lie, as :func:`quantile` does."""
    return quantile(a, np.asarray(q, dtype="float64") / 100.0, axis, method=method, keepdims=keepdims)


def median(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the median; NaN if one of the values is NaN, and of no values."""
    array = _one(a)
    own = array.astype(array._float())

    def middle(value: Expr) -> Expr:
        return when(value.max().is_nan()).then(value.max()).otherwise(value.median())

    return own._reduce(middle, own.dtype, axis, keepdims)


def without_nan(a: Any) -> Array:
    """Put NULL in the place of NaN, which every aggregate leaves out."""
    array = _one(a)
    if array.dtype.kind != "f":
        return array
    return array._with(when(array._value.is_nan()).then(lit(None)).otherwise(array._value), array.dtype)


def _ranked(a: Array, axis: int | None, build: Callable[[Array, list[str], str], Any]) -> Array:
    """Make an array of one frame with the indices ``i``, ``j``, … and the values.

    Args:
        build: makes expressions of the index along the axis and of the value, of the array, the names of the
            other indices and that of the axis.
    """
    own = a.ravel() if axis is None else a
    (along,) = axes_of(-1 if axis is None else axis, own.ndim)
    names = list(INDICES[: own.ndim])
    indices = [dimension.index().alias(name) for dimension, name in zip(own._dimensions, names)]
    rows = own._rows().select(*indices, own._value.alias("x"))
    index, value, dtype = build(own, [name for n, name in enumerate(names) if n != along], names[along])
    found = rows.select(*[index.alias(name) if n == along else col(name) for n, name in enumerate(names)], value.alias("x"))
    dimensions = tuple(Dimension.whole(name, length) for name, length in zip(names, own.shape))
    return Array(found, dimensions, col("x"), dtype)


def _rank(others: list[str], along: str) -> Expr:
    """The place of a value among those of its axis, equal ones in their order, NaN last."""
    return fn.row_number().over(*others, order_by=[col("x"), col(along)]).cast("int64") - 1


def sort(a: Any, axis: int | None = -1) -> Array:
    """Sort an axis, or all values; NaN comes last."""
    return _ranked(_one(a), axis, lambda own, others, along: (_rank(others, along), col("x"), own.dtype))


def argsort(a: Any, axis: int | None = -1) -> Array:
    """Return the indices that would sort an axis, or all values; equal ones in their order, NaN last."""
    return _ranked(_one(a), axis, lambda own, others, along: (_rank(others, along), col(along), _WHOLE))


def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Array:
    """Return the sums up to each value of an axis, or of all values in one dimension."""

    def build(own: Array, others: list[str], along: str) -> Any:
        running = col("x").sum().over(*others, order_by=col(along), rows=(None, 0))
        return col(along), running.cast(own.dtype.name), own.dtype

    return _ranked(_one(a)._known(dtype), axis, build)


def unique(ar: Any) -> Array:
    """Return the different values in their order; NaN is one of them.

    Their number is known only when they are computed, as that of ``x[mask]`` is.
    """
    array = _one(ar)
    found = array._rows().select(array._value.alias("x")).distinct()
    place = fn.row_number().over(order_by=col("x")).cast("int64") - 1
    length = int(np.prod([dimension.length for dimension in array._dimensions], dtype=object))
    dimensions = (Dimension.whole("i", length),)
    return Array(found.select(place.alias("i"), "x"), dimensions, col("x"), array.dtype, masked=1)
