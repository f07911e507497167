"""Functions that put arrays together, and take their values in another order or only some of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from tidegate._expr import col, when
from tidegate.array._array import INDICES, Array, Axis, Dimension, axes_of
from tidegate.array._create import eye, filled, from_array, full
from tidegate.array._join import together


def arrays_of(items: Iterable[Any]) -> list[Array]:
    """Make lazy arrays of all, in the session of those that are lazy already."""
    given = list(items)
    con = next((item._con for item in given if isinstance(item, Array)), None)
    return [item if isinstance(item, Array) else from_array(item, con=con) for item in given]


def _one(item: Any) -> Array:
    return arrays_of([item])[0]


def part_of(a: Array, axis: int, part: Any) -> Array:
    """Take a part of one axis, and all of the others."""
    return a[(*[slice(None)] * axis, part)]


def concatenate(arrays: Iterable[Any], axis: int | None = 0) -> Array:
    """Put arrays one after the other, along an axis that there is.

    Args:
        arrays: lazy ones, or anything that ``from_array`` takes; their lengths differ in that axis alone.
        axis: ``None`` for all values in one dimension.

    Raises:
        ValueError: for no array, and for shapes that do not go together.
    """
    known = arrays_of(arrays)
    if not known:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        known = [array.ravel() for array in known]
    (along,) = axes_of(0 if axis is None else axis, known[0].ndim)
    shapes = [array.shape for array in known]
    if len({shape[:along] + (0,) + shape[along + 1 :] for shape in shapes}) > 1:
        raise ValueError(f"the shapes {', '.join(map(str, shapes))} must match but for the axis {along}")
    dtype = np.result_type(*(array.dtype for array in known))
    found, first = None, 0
    for array in known:
        indices = [dimension.index().cast("int64") for dimension in array._dimensions]
        indices[along] = indices[along] + first
        named = [index.alias(name) for index, name in zip(indices, INDICES)]
        rows = array._rows().select(*named, array.astype(dtype)._value.alias("x"))
        found = rows if found is None else found.union(rows)
        first += array.shape[along]
    assert found is not None
    lengths = [first if n == along else length for n, length in enumerate(shapes[0])]
    dimensions = tuple(Dimension.whole(name, length) for name, length in zip(INDICES, lengths))
    return Array(found, dimensions, col("x"), dtype)


def stack(arrays: Iterable[Any], axis: int = 0) -> Array:
    """Put arrays of one shape one after the other, along a new axis."""
    known = arrays_of(arrays)
    if len({array.shape for array in known}) != 1:
        raise ValueError("stack() takes one or more arrays of one shape")
    return concatenate([expand_dims(array, axis) for array in known], axis)


def vstack(tup: Iterable[Any]) -> Array:
    """Put arrays one below the other; those of one dimension are rows."""
    return concatenate([array if array.ndim > 1 else array.reshape(1, -1) for array in arrays_of(tup)])


def hstack(tup: Iterable[Any]) -> Array:
    """Put arrays side by side: along the second axis, or the only one."""
    known = [array if array.ndim else array.ravel() for array in arrays_of(tup)]
    return concatenate(known, min(1, known[0].ndim - 1) if known else 0)


def expand_dims(a: Any, axis: Axis) -> Array:
    """Put dimensions of the length 1 in, at these places among those of the result."""
    array = _one(a)
    number = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = axes_of(0 if axis is None else axis, array.ndim + number)
    return array[tuple(None if n in places else slice(None) for n in range(array.ndim + number))]


def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Move dimensions to other places; the others keep their order."""
    array = _one(a)
    old, new = axes_of(source, array.ndim), axes_of(destination, array.ndim)
    if len(old) != len(new):
        raise ValueError("moveaxis() takes as many axes in source as in destination")
    order = [n for n in range(array.ndim) if n not in old]
    for place, axis in sorted(zip(new, old)):
        order.insert(place, axis)
    return array.transpose(order)


def transpose(a: Any, axes: Any = None) -> Array:
    """Put the dimensions in another order; the opposite one unless it is named."""
    return _one(a).transpose(*([] if axes is None else [axes]))


def flip(m: Any, axis: Axis = None) -> Array:
    """Turn the order of the values around, in these axes or in all."""
    array = _one(m)
    axes = axes_of(axis, array.ndim)
    return array[tuple(slice(None, None, -1) if n in axes else slice(None) for n in range(array.ndim))]


def diag(v: Any, k: int = 0) -> Array:
    """Take a diagonal of a matrix, or make a matrix of one with zeros elsewhere."""
    array, above = _one(v), operator.index(k)
    if array.ndim == 2:
        rows, columns = array.shape
        row, column = (dimension.index() for dimension in array._dimensions)
        place = row if above >= 0 else column
        found = array._rows().filter(column - row == above).select(place.alias("i"), array._value.alias("x"))
        length = max(0, min(rows + min(above, 0), columns - max(above, 0)))
        return Array(found, (Dimension.whole("i", length),), col("x"), array.dtype)
    if array.ndim != 1:
        raise ValueError("diag() takes a vector or a matrix")
    if above < 0:
        return diag(array, -above).T
    size = array.shape[0] + above
    rest = full((above,), 0, array.dtype, con=array._con)
    tall = concatenate([array, rest]) if above else array
    return _chosen(eye(size, k=above, dtype=bool, con=array._con), tall[:, None])


def _chosen(mask: Array, array: Array) -> Array:
    """The values of an array where a mask is true, and zeros elsewhere."""
    where, values = together(mask, array)
    return values._with(when(where._value).then(values._value).otherwise(filled(values, 0, values.dtype)._value), values.dtype)


def _triangle(m: Any, is_in: Any) -> Array:
    array = _one(m)
    if array.ndim < 2:
        raise ValueError("a triangle is one of a matrix, or of several")
    row, column = (dimension.index() for dimension in array._dimensions[-2:])
    zero = filled(array, 0, array.dtype)._value
    return array._with(when(is_in(column - row)).then(array._value).otherwise(zero), array.dtype)


def tril(m: Any, k: int = 0) -> Array:
    """Keep the values on the diagonal ``k`` and below, with zeros elsewhere."""
    return _triangle(m, lambda above: above <= operator.index(k))


def triu(m: Any, k: int = 0) -> Array:
    """Keep the values on the diagonal ``k`` and above, with zeros elsewhere."""
    return _triangle(m, lambda above: above >= operator.index(k))


def full_like(a: Any, fill_value: int | float | bool, dtype: Any = None, *, shape: Any = None) -> Array:
    """Make an array of one value, with the shape and type of another unless others are given."""
    array = _one(a)
    wanted = array.dtype if dtype is None else dtype
    return filled(array, fill_value, wanted) if shape is None else full(shape, fill_value, wanted, con=array._con)


def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Array:
    """Make an array of zeros, with the shape and type of another unless others are given."""
    return full_like(a, 0, dtype, shape=shape)


def ones_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Array:
    """Make an array of ones, with the shape and type of another unless others are given."""
    return full_like(a, 1, dtype, shape=shape)
