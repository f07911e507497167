"""Linear algebra of matrices with many rows, or many columns, and few of the other.

The engine computes blocks of rows, one after the other, and NumPy factors each; the triangular factors of blocks are
stacked and factored again: Demmel, Grigori, Hoemmen, Langou, "Communication-optimal parallel and sequential QR and
LU factorizations" (2012). The products of columns, which have the square of the condition number, are used for the
vectors of a singular value decomposition alone, and only if they turn out to be exact enough.
Everything here is computed when it is called, except norms that are no singular values. Values that are NaN or infinite
are a ``LinAlgError`` where singular values are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from tidegate._errors import ResourcesExhaustedError
from tidegate._options import options
from tidegate.array._array import Array, Axis, axes_of
from tidegate.array._create import from_array

__all__ = ["lstsq", "norm", "qr", "svd", "svd_compressed"]

_Matrix = np.ndarray[Any, np.dtype[Any]]
#: Bytes of a block; it has at least as many rows as columns.
_BLOCK_BYTES = 64 << 20
#: The norm of what the products of columns that are taken for nearly orthonormal differ by from the identity.
_NEARLY_ORTHONORMAL = 0.1


def qr(x: Array, mode: str = "reduced") -> Any:
    """Factor a matrix into ``Q``, whose columns are orthonormal, and ``R``, which is upper triangular.

    Args:
        x: a matrix.
        mode: ``"reduced"`` for ``(Q, R)``; ``"r"`` for ``R`` alone, of a matrix with any number of rows.
    """
    _check(x)
    if mode == "r":
        return _lazy(_triangle(x), x)
    if mode != "reduced":
        raise ValueError(f"mode={mode!r}: it is 'reduced' or 'r'")
    parts, ends, r = _factors(_held(x))
    q = parts[0] if len(parts) == 1 else np.vstack([part @ end for part, end in zip(parts, ends)])
    return _lazy(q, x), _lazy(r, x)


def svd(x: Array, *, compute_uv: bool = True) -> Any:
    """Factor a matrix into ``(U, s, Vh)``: ``x = (U * s) @ Vh``, as ``numpy.linalg.svd(x, full_matrices=False)``.

    Args:
        x: a matrix, of which the shorter side is short.
        compute_uv: whether more than ``s`` is wanted, which alone may be had of any number of rows.
    """
    _check(x)
    if x.shape[0] < x.shape[1]:
        found = svd(x.T, compute_uv=compute_uv)
        return (found[2].T, found[1], found[0].T) if compute_uv else found
    if not compute_uv:
        return _lazy(np.linalg.svd(_finite(_triangle(x)), compute_uv=False), x)
    blocks = [_finite(block) for block in _held(x)]
    parts, ends, r = _factors_by_products(blocks) or _factors(blocks)
    u, s, vh = np.linalg.svd(r, full_matrices=False)
    left = np.vstack([part @ (end @ u) for part, end in zip(parts, ends)])
    return _lazy(left, x), _lazy(s, x), _lazy(vh, x)


def svd_compressed(
    x: Array, k: int, *, n_power_iter: int = 0, n_oversamples: int = 10, seed: int | None = None
) -> tuple[Array, Array, Array]:
    """Approximate the ``k`` largest singular values and their vectors, by a random projection of the rows.

    It is Halko, Martinsson, Tropp, "Finding structure with randomness" (2011), with the power iterations of its
    algorithm 4.4. It reads the matrix ``2 + 2 * n_power_iter`` times, and takes memory for ``k + n_oversamples``
    columns and rows.

    Args:
        x: a matrix of any size.
        k: how many.
        n_power_iter: iterations, which make values that fall slowly more exact.
        n_oversamples: dimensions of the projection beyond ``k``.
        seed: makes the projection, and with it the result, the same each time.
    """
    _check(x)
    rows, columns = x.shape
    shorter = min(rows, columns)
    if not 1 <= k <= shorter:
        raise ValueError(f"k={k}: a matrix of the shape {x.shape} has 1 to {shorter} singular values")
    if n_power_iter < 0 or n_oversamples < 0:
        raise ValueError("n_power_iter and n_oversamples are not negative")
    width = min(k + n_oversamples, shorter)
    right = np.random.default_rng(seed).standard_normal((columns, width)).astype(_float(x))
    left = _orthonormal(_times(x, right))
    for _ in range(n_power_iter):
        left = _orthonormal(_times(x, _orthonormal(_transposed_times(x, left))))
    u, s, vh = np.linalg.svd(_finite(_transposed_times(x, left).T), full_matrices=False)
    return _lazy(left @ u[:, :k], x), _lazy(s[:k], x), _lazy(vh[:k], x)


def lstsq(a: Array, b: Any, rcond: float | None = None) -> tuple[Array, Array, int, Array]:
    """Solve ``a @ x = b`` by least squares, as ``numpy.linalg.lstsq``: ``(x, residuals, rank, s)``.

    Args:
        a: a matrix, of any number of rows.
        b: a vector or a matrix with as many rows.
        rcond: singular values below this part of the largest one are taken for 0; ``None`` for NumPy's limit.
    """
    _check(a)
    right = b if isinstance(b, Array) else from_array(b, con=a._con)
    if right.ndim not in (1, 2) or right.shape[0] != a.shape[0]:
        raise ValueError(f"b has the shape {right.shape}, and a has {a.shape}")
    rows, columns = a.shape
    wide = right if right.ndim == 2 else right[:, None]
    dtype = np.result_type(_float(a), _float(wide))
    r = np.zeros((0, columns + wide.shape[1]), dtype)
    for one, other in zip(_blocks(a, r.shape[1]), _blocks(wide, r.shape[1])):
        r = _folded(r, np.hstack([one, other]))
    _finite(r)
    limit = float(np.finfo(dtype).eps) * max(rows, columns) if rcond is None else rcond
    found, _, rank, s = np.linalg.lstsq(r[:columns, :columns], r[:columns, columns:], rcond=limit)
    left = np.zeros(0, dtype)
    if rank == columns and rows > columns:
        left = (r[columns:, columns:] ** 2).sum(axis=0)
    solution = found if right.ndim == 2 else found[:, 0]
    return _lazy(solution, a), _lazy(left, a), int(rank), _lazy(s, a)


def norm(x: Array, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return a norm of a vector or matrix, as ``numpy.linalg.norm``; lazily but for ``2``, ``-2`` and ``"nuc"`` of a
    matrix, which are made of its singular values."""
    own = x if x.dtype.kind == "f" else x.astype("float64")
    if axis is None and ord is None:
        return _root((own * own).sum(keepdims=keepdims))
    axes = axes_of(axis, own.ndim)
    if len(axes) == 1:
        return _vector_norm(own, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError(f"a norm is over 1 or 2 axes, and not {len(axes)}")
    return _matrix_norm(own, ord, (axes[0], axes[1]), keepdims)


def _vector_norm(x: Array, ord: Any, axis: int, keepdims: bool) -> Array:
    size: Any = abs(x)
    if ord in (None, 2):
        return _root((x * x).sum(axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise ValueError(f"ord={ord!r} is no norm of a vector")
    found: Array
    if ord == np.inf:
        found = size.max(axis, keepdims=keepdims)
    elif ord == -np.inf:
        found = size.min(axis, keepdims=keepdims)
    elif ord == 0:
        found = (x != 0).astype("float64").sum(axis, keepdims=keepdims)
    elif ord == 1:
        found = size.sum(axis, keepdims=keepdims)
    else:
        found = (size ** float(ord)).sum(axis, keepdims=keepdims) ** (1.0 / ord)
    return found


def _matrix_norm(x: Array, ord: Any, axes: tuple[int, int], keepdims: bool) -> Array:
    rows, columns = axes
    if ord in (None, "fro", "f"):
        return _root((x * x).sum(axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        over, then = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = abs(x).sum(over, keepdims=True)
        extreme = sums.max(then, keepdims=True) if ord > 0 else sums.min(then, keepdims=True)
        found: Array = extreme.sum(axes, keepdims=keepdims)
        return found
    if ord in (2, -2, "nuc"):
        if x.ndim != 2:
            raise TypeError(f"ord={ord!r} of a stack of matrices is not there: take one of them")
        values = svd(x, compute_uv=False)
        one: Array = values.sum() if ord == "nuc" else values.max() if ord == 2 else values.min()
        return one[None, None] if keepdims else one
    raise ValueError(f"ord={ord!r} is no norm of a matrix")


def _root(x: Array) -> Array:
    found: Any = np.sqrt(x)
    return cast("Array", found)


def _check(x: Array) -> None:
    if not isinstance(x, Array):
        raise TypeError("a lazy array is wanted: numpy.linalg has this for NumPy's")
    if len(x.shape) != 2:
        raise np.linalg.LinAlgError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
    if 0 in x.shape:
        raise np.linalg.LinAlgError(f"a matrix of the shape {x.shape} has no values")
    square = min(x.shape) ** 2 * _float(x).itemsize
    if square > options.result_limit:
        raise ResourcesExhaustedError(
            f"a triangle of {min(x.shape):,} columns takes {square:,} bytes, and tidegate.options.result_limit is "
            f"{options.result_limit:,}: svd_compressed has the largest singular values"
        )


def _float(x: Array) -> np.dtype[Any]:
    return x.dtype if x.dtype.kind == "f" else np.dtype("float64")


def _lazy(values: _Matrix, like: Array) -> Array:
    return from_array(values, con=like._con)


def _blocks(x: Array, rows_min: int) -> Iterator[_Matrix]:
    """Compute blocks of whole rows, in order, of chunks where they fit."""
    rows, columns = x.shape
    dtype = _float(x)
    step = max(_BLOCK_BYTES // (columns * dtype.itemsize), rows_min, 1)
    if x.chunks is not None and x.chunks[0] < step:
        step -= step % x.chunks[0]
    for first in range(0, rows, step):
        yield np.asarray(x[first : first + step].compute(), dtype)


def _folded(r: _Matrix, block: _Matrix) -> _Matrix:
    """Return the triangle of the rows that one stands for, and of a block."""
    return np.asarray(np.linalg.qr(np.vstack([r, block]), mode="r"))


def _triangle(x: Array) -> _Matrix:
    r = np.zeros((0, x.shape[1]), _float(x))
    for block in _blocks(x, x.shape[1]):
        r = _folded(r, block)
    return r


def _held(x: Array) -> list[_Matrix]:
    """Compute all blocks of a matrix whose orthonormal factor is wanted, which has as many values."""
    if x.nbytes > options.result_limit:
        raise ResourcesExhaustedError(
            f"Q of {x.nbytes:,} bytes is more than tidegate.options.result_limit = {options.result_limit:,}: "
            "qr(x, mode='r') and svd(x, compute_uv=False) take any number of rows"
        )
    return list(_blocks(x, x.shape[1]))


#: ``Q_i``, ``E_i`` and ``R``: block ``i`` of a matrix is ``Q_i @ E_i @ R``, and the ``Q_i @ E_i`` together are orthonormal.
_Factors = tuple[list[_Matrix], list[_Matrix], _Matrix]


def _factors(blocks: list[_Matrix]) -> _Factors:
    parts, triangles = [], []
    for block in blocks:
        q, r = np.linalg.qr(block)
        parts.append(q)
        triangles.append(r)
    if len(parts) == 1:
        return parts, [np.eye(len(triangles[0]), dtype=triangles[0].dtype)], triangles[0]
    q, r = np.linalg.qr(np.vstack(triangles))
    ends = np.cumsum([len(triangle) for triangle in triangles])[:-1]
    return parts, np.split(q, ends), r


def _factors_by_products(blocks: list[_Matrix]) -> _Factors | None:
    """Factor by two Cholesky factorizations, which take matrix products alone; ``None`` if the condition number is too
    large for that.

    It is CholeskyQR2: Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm"
    (2015). After the first factorization the columns are near to orthonormal or it has failed; after the second they
    are orthonormal.
    """
    with np.errstate(all="ignore"):
        try:
            first = np.linalg.cholesky(_products(blocks)).T
            inverse = np.linalg.inv(first)
            parts = [block @ inverse for block in blocks]
            products = _products(parts)
            if not np.linalg.norm(products - np.eye(len(products))) < _NEARLY_ORTHONORMAL:
                return None
            second = np.linalg.cholesky(products).T
        except np.linalg.LinAlgError:
            return None
    return parts, [np.linalg.inv(second)] * len(parts), second @ first


def _products(blocks: list[_Matrix]) -> _Matrix:
    products: _Matrix = sum((block.T @ block for block in blocks[1:]), blocks[0].T @ blocks[0])
    return products


def _finite(x: _Matrix) -> _Matrix:
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("the matrix has values that are NaN or infinite")
    return x


def _orthonormal(x: _Matrix) -> _Matrix:
    q: _Matrix = np.linalg.qr(x)[0]
    return q


def _times(x: Array, right: _Matrix) -> _Matrix:
    return np.vstack([_finite(block) @ right for block in _blocks(x, 1)])


def _transposed_times(x: Array, left: _Matrix) -> _Matrix:
    found = np.zeros((x.shape[1], left.shape[1]), left.dtype)
    first = 0
    for block in _blocks(x, 1):
        found += block.T @ left[first : first + len(block)]
        first += len(block)
    return found
