"""Random arrays: a value depends only on the seed and its position, never on chunks, threads or devices."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tidegate.array._array import Array
from tidegate.array._create import Chunks, Shape, from_sql

if TYPE_CHECKING:
    from tidegate._connection import Connection

#: The golden ratio's bits, by which seeds of one generator lie apart.
_STRIDE = 0x9E3779B97F4A7C15
_SEEDS = 2**63


class Generator:
    """Makes random arrays, each of another seed. The first has the generator's own, so that it is the array that
    SQL makes of that seed."""

    def __init__(self, seed: int, con: Connection | None = None) -> None:
        self._seed = seed
        self._drawn = 0
        self._con = con

    def _next(self) -> int:
        seed = (self._seed + self._drawn * _STRIDE) % _SEEDS
        self._drawn += 1
        return seed

    def _make(self, call: str, size: Shape, chunks: Chunks, dtype: str | None) -> Array:
        options = {} if dtype is None else {"dtype": f"'{_dtype(dtype)}'"}
        return from_sql(call, size, chunks, self._con, seed=self._next(), **options)

    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: Shape = 1, *, chunks: Chunks = None, dtype: str = "float64"
    ) -> Array:
        """Draw from the normal distribution of this mean and deviation."""
        return self._make(f"random_normal({{shape}}, {float(loc)!r}, {float(scale)!r})", size, chunks, dtype)

    def standard_normal(self, size: Shape = 1, *, chunks: Chunks = None, dtype: str = "float64") -> Array:
        """Draw from the normal distribution of mean 0 and deviation 1."""
        return self.normal(0.0, 1.0, size, chunks=chunks, dtype=dtype)

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Shape = 1, *, chunks: Chunks = None, dtype: str = "float64"
    ) -> Array:
        """Draw evenly from ``low`` to below ``high``."""
        return self._make(f"random_uniform({{shape}}, {float(low)!r}, {float(high)!r})", size, chunks, dtype)

    def random(self, size: Shape = 1, *, chunks: Chunks = None, dtype: str = "float64") -> Array:
        """Draw evenly from 0 to below 1."""
        return self.uniform(0.0, 1.0, size, chunks=chunks, dtype=dtype)

    def integers(self, low: int, high: int | None = None, size: Shape = 1, *, chunks: Chunks = None) -> Array:
        """Draw integers evenly from ``low`` to below ``high``; from 0 to below ``low`` without it."""
        if high is None:
            low, high = 0, low
        return self._make(f"random_integers({{shape}}, {int(low)}, {int(high)})", size, chunks, None)


def default_rng(seed: int | None = None, *, con: Connection | None = None) -> Generator:
    """Make a generator of this seed, from 0 to below 2**63; of one that nobody knows without it."""
    known = secrets.randbelow(_SEEDS) if seed is None else int(seed)
    if not 0 <= known < _SEEDS:
        raise ValueError(f"seed={seed}: it is from 0 to below 2**63")
    return Generator(known, con)


def _dtype(dtype: object) -> str:
    import numpy

    name = numpy.dtype(dtype).name  # type: ignore[call-overload]
    if name not in ("float32", "float64"):
        raise TypeError(f"dtype={name!r}: random arrays are of 'float64' or 'float32'")
    return str(name)
