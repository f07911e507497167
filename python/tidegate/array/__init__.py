"""Chunked arrays with NumPy's protocols, over the engine's own plans.

An array is a frame with a column for the index in each dimension and one expression for the value; nothing is
computed before ``compute()``. What is not here is a ``TypeError`` that names it, never a silent copy into NumPy.

    >>> import tidegate.array as ta
    >>> rng = ta.random.default_rng(42)
    >>> x = rng.normal(10, 1, size=(1000, 1000), chunks=(100, 100))
    >>> (x + 1)[::2, ::2].sum().compute()  # doctest: +SKIP
"""

from __future__ import annotations

from tidegate.array import linalg, random
from tidegate.array._array import Array, where
from tidegate.array._create import arange, from_array, full, ones, zeros

__all__ = ["Array", "arange", "from_array", "full", "linalg", "ones", "random", "where", "zeros"]
