"""Arrays over one frame: those of other frames are joined by their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegate._expr import col
from tidegate.array._array import INDICES, Array, Dimension

if TYPE_CHECKING:
    from tidegate._frame import DataFrame


def together(*arrays: Array) -> list[Array]:
    """Put arrays over one frame, broadcast to one shape; only those of other frames are joined."""
    if any(array._masked for array in arrays):
        first = arrays[0]
        if all(_is_alike(first, array) for array in arrays):
            return list(arrays)
        raise TypeError("x[mask] has no indices to match with those of another array: mask the result instead")
    np.broadcast_shapes(*(array.shape for array in arrays))
    result = [arrays[0]]
    for array in arrays[1:]:
        if _is_alike(result[0], array):
            result.append(array)
            continue
        base, dimensions = _joined(result, array)
        both = enumerate([*result, array])
        result = [Array(base, dimensions, col(f"x{n}"), item._dtype) for n, item in both]
    return result


def _is_alike(one: Array, other: Array) -> bool:
    return (
        one._made is other._made
        and one._dimensions == other._dimensions
        and one._fixed == other._fixed
        and one._masked == other._masked
    )


def _joined(ones: list[Array], other: Array) -> tuple[DataFrame, tuple[Dimension, ...]]:
    """Join arrays of one frame with one of another by the indices of the dimensions that both have in full."""
    lengths = np.broadcast_shapes(ones[0].shape, other.shape)
    ndim = len(lengths)

    def has(array: Array, axis: int) -> bool:
        own = axis - (ndim - array.ndim)
        return own >= 0 and array._dimensions[own].length == lengths[axis]

    def rows(arrays: list[Array], side: str, first: int) -> DataFrame:
        offset = ndim - arrays[0].ndim
        indices = [
            dimension.index().cast("int64").alias(f"{side}{axis + offset}")
            for axis, dimension in enumerate(arrays[0]._dimensions)
        ]
        values = [array._value.alias(f"x{first + n}") for n, array in enumerate(arrays)]
        return arrays[0]._rows().select(*indices, *values)

    left, right = rows(ones, "a", 0), rows([other], "b", len(ones))
    keys = [axis for axis in range(ndim) if has(ones[0], axis) and has(other, axis)]
    if keys:
        own, theirs = [f"a{axis}" for axis in keys], [f"b{axis}" for axis in keys]
        both = left.join(right, left_on=own, right_on=theirs, coalesce=False)
    else:
        both = left.join(right, how="cross")
    sides = [("a" if has(ones[0], axis) else "b") + str(axis) for axis in range(ndim)]
    indices = [col(side).alias(INDICES[axis]) for axis, side in enumerate(sides)]
    values = [col(f"x{n}") for n in range(len(ones) + 1)]
    dimensions = tuple(Dimension.whole(INDICES[axis], length) for axis, length in enumerate(lengths))
    return both.select(*indices, *values), dimensions
