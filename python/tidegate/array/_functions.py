"""NumPy's functions over lazy arrays that are not element by element: which there are, and those made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate._expr import lit, when
from tidegate.array import _orders, _shapes, _ufuncs
from tidegate.array._array import Array, Axis, axes_of
from tidegate.array._shapes import arrays_of, part_of

_np: Any = np


def _one(item: Any) -> Array:
    return arrays_of([item])[0]


def size(a: Any, axis: Axis = None) -> int:
    """Return the number of values, of all or along an axis."""
    array = _one(a)
    return int(np.prod([array.shape[n] for n in axes_of(axis, array.ndim)], dtype=object))


def outer(a: Any, b: Any) -> Any:
    """Multiply each value of one array with each of another."""
    one, other = arrays_of([a, b])
    return _np.multiply(one.ravel()[:, None], other.ravel())


def diff(a: Any, n: int = 1, axis: int = -1) -> Array:
    """Return the differences of neighbours in an axis, so many times over."""
    found = _one(a)
    if n < 0:
        raise ValueError(f"n={n}: differences are taken 0 times or more")
    (along,) = axes_of(axis, found.ndim)
    for _ in range(n):
        after, before = part_of(found, along, slice(1, None)), part_of(found, along, slice(None, -1))
        found = _np.not_equal(after, before) if found.dtype.kind == "b" else _np.subtract(after, before)
    return found


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Tell which values differ by no more than ``atol + rtol * abs(b)``."""
    is_near = _np.abs(_np.subtract(a, b)) <= atol + rtol * _np.abs(b)
    found = (is_near & _np.isfinite(b)) | _np.equal(a, b)
    return found | (_np.isnan(a) & _np.isnan(b)) if equal_nan else found


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Tell whether all values differ by no more than ``atol + rtol * abs(b)``."""
    return isclose(a, b, rtol, atol, equal_nan).all()


def array_equal(a1: Any, a2: Any) -> Any:
    """Tell whether two arrays have the same shape and values."""
    one, other = arrays_of([a1, a2])
    return _np.equal(one, other).all() if one.shape == other.shape else False


def isin(element: Any, test_elements: Any, *, invert: bool = False) -> Array:
    """Tell which values are among some that NumPy has; NaN is not."""
    array = _one(element)
    if isinstance(test_elements, Array):
        raise TypeError("isin() takes the values that are looked for from NumPy: compute() them")
    values = np.asarray(test_elements).ravel()
    if values.dtype.kind not in "fiub":
        raise TypeError(f"arrays have numbers or truth values, and not {values.dtype}")
    dtype = np.result_type(array.dtype, values.dtype)
    wanted = np.unique(values.astype(dtype))
    literals = [lit(value).cast(dtype.name) for value in wanted.tolist() if value == value]
    test = array.astype(dtype)._value.is_in(literals)
    return array._with(~test if invert else test, np.dtype(bool))


def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Put numbers in the places of NaN and infinities: 0, and the largest and least of the type, unless given."""
    array = _one(x)
    if array.dtype.kind != "f":
        return array
    value, limits = array._value, np.finfo(array.dtype)
    high = float(limits.max) if posinf is None else float(posinf)
    low = float(limits.min) if neginf is None else float(neginf)
    found = when(value.is_nan()).then(float(nan)).when(value == float("inf")).then(high)
    found = found.when(value == float("-inf")).then(low)
    return array._with(found.otherwise(value).cast(array.dtype.name), array.dtype)


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        raise TypeError("numpy.where of a condition alone is not there: x[mask] has the values")
    return _ufuncs.where(condition, *choices)


def _without_nan(name: str) -> Callable[..., Any]:
    return lambda a, *args, **kwargs: getattr(_orders.without_nan(a), name)(*args, **kwargs)


#: The functions by their names in NumPy.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": size,
    "where": _where,
    "count_nonzero": lambda a, *args, **kwargs: a.astype(bool).sum(*args, **kwargs),
    "dot": lambda a, b: _ufuncs.matmul(a, b),
    "nanmedian": lambda a, *args, **kwargs: _orders.median(_orders.without_nan(a), *args, **kwargs),
    "nanquantile": lambda a, *args, **kwargs: _orders.quantile(_orders.without_nan(a), *args, **kwargs),
    "nanpercentile": lambda a, *args, **kwargs: _orders.percentile(_orders.without_nan(a), *args, **kwargs),
}
FUNCTIONS |= {f"nan{name}": _without_nan(name) for name in ("sum", "prod", "mean", "min", "max", "var", "std")}
FUNCTIONS |= {
    function.__name__: function
    for function in (
        outer, diff, isclose, allclose, array_equal, isin, nan_to_num,
        _orders.quantile, _orders.percentile, _orders.median, _orders.sort, _orders.unique,
        _shapes.concatenate, _shapes.stack, _shapes.vstack, _shapes.hstack, _shapes.expand_dims, _shapes.moveaxis,
        _shapes.transpose, _shapes.flip, _shapes.diag, _shapes.tril, _shapes.triu, _shapes.full_like,
        _shapes.zeros_like, _shapes.ones_like,
    )
}  # fmt: skip
