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
from tidegate.array._array import Array
from tidegate.array._create import arange, empty, eye, from_array, full, linspace, ones, zeros
from tidegate.array._functions import allclose, array_equal, diff, isclose, isin, nan_to_num, outer
from tidegate.array._orders import (
    argmax,
    argmin,
    argsort,
    cumsum,
    median,
    percentile,
    quantile,
    sort,
    unique,
)
from tidegate.array._shapes import (
    concatenate,
    diag,
    expand_dims,
    flip,
    full_like,
    hstack,
    moveaxis,
    ones_like,
    stack,
    transpose,
    tril,
    triu,
    vstack,
    zeros_like,
)
from tidegate.array._ufuncs import where

__all__ = [
    "Array",
    "allclose",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "array_equal",
    "concatenate",
    "cumsum",
    "diag",
    "diff",
    "empty",
    "expand_dims",
    "eye",
    "flip",
    "from_array",
    "full",
    "full_like",
    "hstack",
    "isclose",
    "isin",
    "linalg",
    "linspace",
    "median",
    "moveaxis",
    "nan_to_num",
    "ones",
    "ones_like",
    "outer",
    "percentile",
    "quantile",
    "random",
    "sort",
    "stack",
    "transpose",
    "tril",
    "triu",
    "unique",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]
