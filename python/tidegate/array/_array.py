"""The array: a frame of indices, an expression for the value, and which part of each dimension is meant."""

from __future__ import annotations

import itertools
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from tidegate._errors import ResourcesExhaustedError
from tidegate._expr import Expr, col, fn, lit, when
from tidegate._options import options

if TYPE_CHECKING:
    from tidegate._connection import Connection
    from tidegate._frame import DataFrame

#: What the indices of the dimensions are called.
INDICES = "ijklmnop"

_COUNT = itertools.count()
Axis = Union[int, Sequence[int], None]


@dataclass(frozen=True)
class Dimension:
    """One dimension: every ``step``-th index from ``start`` on, ``length`` of them, of ``full`` in the frame.

    ``column`` is ``None`` for one that was put in, which has the length 1.
    """

    column: str | None
    start: int
    step: int
    length: int
    full: int

    @classmethod
    def whole(cls, column: str, length: int) -> Dimension:
        """All indices of a column."""
        return cls(column, 0, 1, length, length)

    def sliced(self, part: slice) -> Dimension:
        """Take a slice of the indices."""
        indices = range(self.length)[part]
        start = self.start + indices.start * self.step
        return replace(self, start=start, step=self.step * indices.step, length=len(indices))

    def conditions(self) -> list[Expr]:
        """Say which of the frame's indices these are, in comparisons that sources take."""
        if self.column is None:
            return []
        if self.length == 0:
            return [lit(False)]
        ends = (self.start, self.start + (self.length - 1) * self.step)
        low, high, every = min(ends), max(ends), abs(self.step)
        index = col(self.column)
        found = []
        if every > 1 and self.length > 1:
            found.append(_remainder(index, every) == low % every)
        if low == high and self.full > 1:
            return [index == low]
        if low > 0:
            found.append(index >= low)
        if high < self.full - 1:
            found.append(index <= high)
        return found

    def index(self) -> Expr:
        """The index of a row in this dimension, from 0."""
        if self.column is None:
            return lit(0)
        index = col(self.column)
        if self.start:
            index = index - self.start
        return index if self.step == 1 else Expr(("bin", "quotient", index._node, lit(self.step)._node))


class Deferred:
    """A frame that is made when it is first wanted: an array of NumPy's that only goes back to NumPy needs none."""

    def __init__(self, con: Connection, make: Callable[[], DataFrame]) -> None:
        self.con = con
        self._make = make
        self._frame: DataFrame | None = None

    def frame(self) -> DataFrame:
        if self._frame is None:
            self._frame = self._make()
        return self._frame


class Array:
    """A lazy array. Made by functions of :mod:`tidegate.array`; it never changes."""

    __slots__ = (
        "_chunks", "_dimensions", "_dtype", "_fixed", "_is_masked", "_made", "_source", "_value", "__weakref__",
    )
    __array_priority__ = 100.0

    def __init__(
        self,
        base: DataFrame | Deferred,
        dimensions: tuple[Dimension, ...],
        value: Expr,
        dtype: np.dtype[Any],
        chunks: tuple[int, ...] | None = None,
        fixed: tuple[tuple[str, int], ...] = (),
        is_masked: bool = False,
        source: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self._made = base
        # The values, where NumPy has them already.
        self._source = source
        self._dimensions = dimensions
        self._value = value
        self._dtype = dtype
        self._chunks = chunks
        self._fixed = fixed
        self._is_masked = is_masked

    def _with(self, value: Expr, dtype: np.dtype[Any]) -> Array:
        return Array(self._made, self._dimensions, value, dtype, self._chunks, self._fixed, self._is_masked)

    @property
    def _base(self) -> DataFrame:
        return self._made.frame() if isinstance(self._made, Deferred) else self._made

    @property
    def _con(self) -> Connection:
        return self._made.con if isinstance(self._made, Deferred) else self._made._con

    # --- what it is ---

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions."""
        if self._is_masked:
            raise TypeError("the shape of x[mask] is known only when it is computed: reduce it, or compute() it")
        return tuple(dimension.length for dimension in self._dimensions)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return 1 if self._is_masked else len(self._dimensions)

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """The bytes of all values in NumPy."""
        return self.size * self._dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The lengths of the source's chunks; ``None`` if the engine chooses them."""
        return self._chunks

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        shape = "unknown" if self._is_masked else self.shape
        return f"<tidegate.Array shape={shape} dtype={self._dtype} (lazy: compute() runs it)>"

    def __iter__(self) -> Any:
        raise TypeError("a lazy array is not iterated over: compute() it first")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a lazy array is no NumPy array: compute() makes one of it")

    def _scalar(self) -> Any:
        if self._is_masked or self._dimensions:
            raise TypeError("only an array without dimensions is one value: reduce it first")
        return self.compute()

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __bool__(self) -> bool:
        return bool(self._scalar())

    __hash__ = None  # type: ignore[assignment]

    # --- running ---

    def _rows(self) -> DataFrame:
        """The frame's rows that belong to the array."""
        rows = self._base
        conditions = [condition for dimension in self._dimensions for condition in dimension.conditions()]
        conditions += [col(column) == index for column, index in self._fixed]
        return rows.filter(*conditions) if conditions else rows

    def to_frame(self) -> DataFrame:
        """Return the array as a frame: a column for each index, called ``i``, ``j``, ``k``, …, and ``x``."""
        indices = [dimension.index().alias(name) for dimension, name in zip(self._dimensions, INDICES)]
        return self._rows().select(*indices, self._value.alias("x"))

    def compute(self) -> Any:
        """Compute the values: a NumPy array, or a NumPy scalar of an array without dimensions.

        Raises:
            ResourcesExhaustedError: if they take more than ``tidegate.options.result_limit`` bytes.
        """
        if self._is_masked:
            order = [dimension.index() for dimension in self._dimensions]
            rows = self._rows().select(*[at.alias(f"at{n}") for n, at in enumerate(order)], self._value.alias("x"))
            names = [f"at{n}" for n in range(len(order))]
            return self._values(rows.sort(*names).select("x"))
        if self.nbytes > options.result_limit:
            raise ResourcesExhaustedError(
                f"an array of {self.nbytes:,} bytes is more than tidegate.options.result_limit = "
                f"{options.result_limit:,}: reduce or slice it, write it with to_frame().write_parquet(), or raise "
                "the limit"
            )
        if self._source is not None:
            return np.array(self._source) if self._dimensions else self._source
        if not self._dimensions:
            found = self._values(self._rows().select(self._value.alias("x")))
            return found[0]
        table = self._rows().select(self._place().alias("place"), self._value.alias("x")).to_arrow()
        result = np.empty(self.size, dtype=self._dtype)
        result[table.column("place").to_numpy()] = self._numpy(table.column("x"))
        return result.reshape(self.shape)

    to_numpy = compute

    def _place(self) -> Expr:
        """Where a value is among all, the last index being the fastest."""
        place = lit(0)
        for axis, dimension in enumerate(self._dimensions):
            at = dimension.index()
            place = place * dimension.length + at if axis else at
        return place

    def _values(self, frame: DataFrame) -> np.ndarray[Any, Any]:
        return self._numpy(frame.to_arrow().column("x"))

    def _numpy(self, column: Any) -> np.ndarray[Any, Any]:
        values = column.to_numpy()
        # NULL is what SQL has of no values, where NumPy has NaN.
        return np.asarray(values, dtype=self._dtype if values.dtype != object else "float64").astype(self._dtype)

    def explain(self, *, analyze: bool = False) -> str:
        """Return the plan as text."""
        return self.to_frame().explain(analyze=analyze)

    def persist(self, on: str = "host") -> Array:
        """Compute the values and keep them: in memory (``host``), or on ``device`` as well."""
        con = self._con
        name = f"tidegate_array_{next(_COUNT)}"
        con.register(name, self.to_frame().collect())
        if on != "host":
            con.cache(name, on=on)
        dimensions = tuple(
            Dimension.whole(INDICES[axis], dimension.length) for axis, dimension in enumerate(self._dimensions)
        )
        kept = Array(con.table(name), dimensions, col("x"), self._dtype, self._chunks, (), self._is_masked)
        weakref.finalize(kept, _forget, con, name, on != "host")
        return kept

    # --- parts ---

    def __getitem__(self, key: Any) -> Array:
        """Take a part: integers, slices with any step, ``None``, ``...``, or a mask of the array's own shape."""
        if isinstance(key, Array):
            return self._masked(key)
        if self._is_masked:
            raise TypeError("x[mask] has no indices: compute() it, or slice before the mask")
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(isinstance(item, (list, np.ndarray, Array)) for item in keys):
            raise TypeError("indexing by lists and arrays is not there: use slices, or a mask of the array's shape")
        taken = sum(item is not None and item is not Ellipsis for item in keys)
        if taken > self.ndim:
            raise IndexError(f"{taken} indices for an array of {self.ndim} dimensions")
        rest = [slice(None)] * (self.ndim - taken)
        if Ellipsis in [item for item in keys if item is None or item is Ellipsis]:
            at = next(n for n, item in enumerate(keys) if item is Ellipsis)
            keys[at : at + 1] = rest
        else:
            keys += rest
        own = iter(self._dimensions)
        dimensions, fixed = [], list(self._fixed)
        for item in keys:
            if item is None:
                dimensions.append(Dimension(None, 0, 1, 1, 1))
                continue
            dimension = next(own)
            if isinstance(item, slice):
                dimensions.append(dimension.sliced(item))
                continue
            try:
                index = operator.index(item)
            except TypeError:
                raise TypeError(f"{item!r} is no index: use integers, slices, None, ... or a mask") from None
            if not -dimension.length <= index < dimension.length:
                raise IndexError(f"index {index} is out of bounds for a dimension of the length {dimension.length}")
            if dimension.column is not None:
                fixed.append((dimension.column, dimension.start + index % dimension.length * dimension.step))
        source = self._source
        if source is not None:
            source = source[tuple(item if item is None or isinstance(item, slice) else int(item) for item in keys)]
        return Array(self._made, tuple(dimensions), self._value, self._dtype, None, tuple(fixed), source=source)

    def _masked(self, mask: Array) -> Array:
        if mask._dtype != np.dtype(bool):
            raise TypeError(f"a mask is an array of truth values, and not of {mask._dtype}")
        if mask.shape != self.shape:
            raise IndexError(f"the mask has the shape {mask.shape}, and the array {self.shape}")
        one, other = together(self, mask)
        return Array(
            one._base.filter(other._value), one._dimensions, one._value, one._dtype, None, one._fixed, is_masked=True
        )

    @property
    def T(self) -> Array:
        """The array with its dimensions in the opposite order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> Array:
        """Put the dimensions in another order; the opposite one unless it is named."""
        if self._is_masked:
            raise TypeError("x[mask] has one dimension: there is nothing to transpose")
        named = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = [axis % self.ndim for axis in named] if named else list(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"the axes {tuple(named)} are not those of an array of {self.ndim} dimensions")
        dimensions = tuple(self._dimensions[axis] for axis in order)
        chunks = None if self._chunks is None else tuple(self._chunks[axis] for axis in order)
        source = None if self._source is None else self._source.transpose(order)
        return Array(self._made, dimensions, self._value, self._dtype, chunks, self._fixed, source=source)

    def reshape(self, *shape: Any) -> Array:
        """Give the values, in their order, other dimensions; one of which may be -1."""
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        lengths = _lengths(tuple(operator.index(length) for length in given), self.shape)
        if lengths == self.shape:
            return self
        if [length for length in lengths if length != 1] == [length for length in self.shape if length != 1]:
            return self._stretched(lengths)
        place, columns, every = self._place(), [], 1
        for axis in reversed(range(len(lengths))):
            index = Expr(("bin", "quotient", place._node, lit(every)._node)) if every > 1 else place
            columns.append((index if axis == 0 else _remainder(index, lengths[axis])).alias(INDICES[axis]))
            every *= max(lengths[axis], 1)
        base = self._rows().select(*columns[::-1], self._value.alias("x"))
        dimensions = tuple(Dimension.whole(INDICES[axis], length) for axis, length in enumerate(lengths))
        return Array(base, dimensions, col("x"), self._dtype)

    def _stretched(self, lengths: tuple[int, ...]) -> Array:
        """Take away dimensions of the length 1, and put others in."""
        kept = iter([dimension for dimension in self._dimensions if dimension.length != 1])
        dimensions = [Dimension(None, 0, 1, 1, 1) if length == 1 else next(kept) for length in lengths]
        left = [dimension for dimension in self._dimensions if dimension.length == 1]
        fixed = [(dimension.column, dimension.start) for dimension in left if dimension.column is not None]
        return Array(self._made, tuple(dimensions), self._value, self._dtype, None, (*self._fixed, *fixed))

    def ravel(self) -> Array:
        """Give the values, in their order, one dimension."""
        return self.reshape(-1)

    def dot(self, other: Any) -> Any:
        """Multiply with a vector or matrix: ``self @ other``."""
        return self @ other

    def astype(self, dtype: Any) -> Array:
        """Change the type of the values: ``float64``, ``float32``, ``int64`` or ``bool``."""
        wanted = np.dtype(dtype)
        if wanted.name not in ("float64", "float32", "int64", "bool"):
            raise TypeError(f"dtype {wanted} is not there: arrays are of float64, float32, int64 or bool")
        if wanted == self._dtype:
            return self
        value = self._value
        if wanted.kind == "b":
            return self._with(value != 0, wanted)
        if wanted.kind == "i" and self._dtype.kind == "f":
            value = fn.trunc(value)
        return self._with(value.cast(wanted.name), wanted)

    # --- reductions ---

    def _reduce(
        self, build: Callable[[Expr], Expr], dtype: np.dtype[Any], axis: Axis, keepdims: bool, empty: Any = None
    ) -> Array:
        """Aggregate over axes.

        Args:
            build: makes the aggregate of a value.
            dtype: what it is.
            empty: what it is of no values; ``None`` for NaN.
        """
        axes = self._axes(axis)
        rows = self._rows()
        left = [(n, dimension) for n, dimension in enumerate(self._dimensions) if n not in axes]
        over = self._value
        result = build(over)
        if empty is not None:
            result = result.fill_null(empty)
        result = result.cast(_engine(dtype))
        if left and any(self._dimensions[n].length == 0 for n in axes):
            raise ValueError("a reduction over an axis of the length 0 keeps no other axis")
        groups = [dimension.index().alias(INDICES[place]) for place, (_, dimension) in enumerate(left)]
        base = rows.group_by(*groups).agg(result.alias("x")) if groups else rows.select(result.alias("x"))
        dimensions = [Dimension.whole(INDICES[place], dimension.length) for place, (_, dimension) in enumerate(left)]
        if keepdims:
            kept = iter(dimensions)
            one = Dimension(None, 0, 1, 1, 1)
            dimensions = [one if n in axes else next(kept) for n in range(len(self._dimensions))]
        return Array(base, tuple(dimensions), col("x"), dtype)

    def _axes(self, axis: Axis) -> set[int]:
        if self._is_masked:
            if axis not in (None, 0, (0,)):
                raise TypeError("x[mask] has one dimension: it is reduced as a whole")
            return set(range(len(self._dimensions)))
        named = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        for item in named:
            if not -self.ndim <= item < self.ndim:
                raise ValueError(f"axis {item} is out of bounds for an array of {self.ndim} dimensions")
        return {item % self.ndim for item in named}

    def _number(self) -> Array:
        """The array with truth values as integers."""
        return self.astype("int64") if self._dtype.kind == "b" else self

    def sum(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Sum the values; 0 of none."""
        own = self._number()
        return own._reduce(Expr.sum, own._dtype, axis, keepdims, empty=0)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Return the mean; NaN of no values."""
        own = self._number()
        return own._reduce(Expr.mean, own._float(), axis, keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Return the least value; NaN if one of them is NaN."""

        if self._dtype.kind == "b":
            return self.all(axis, keepdims=keepdims)

        def least(value: Expr) -> Expr:
            if self._dtype.kind != "f":
                return value.min()
            # NaN is the greatest value to the engine.
            return when(value.max().is_nan()).then(value.max()).otherwise(value.min())

        return self._reduce(least, self._dtype, axis, keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Return the greatest value; NaN if one of them is NaN."""
        if self._dtype.kind == "b":
            return self.any(axis, keepdims=keepdims)
        return self._reduce(Expr.max, self._dtype, axis, keepdims)

    def var(self, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Array:
        """Return the variance."""
        own = self._number()

        def spread(value: Expr) -> Expr:
            if ddof in (0, 1):
                return value.var(ddof)
            return value.var(0) * value.count() / (value.count() - ddof)

        return own._reduce(spread, own._float(), axis, keepdims)

    def std(self, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Array:
        """Return the standard deviation."""
        spread = self.var(axis, ddof=ddof, keepdims=keepdims)
        return spread._with(spread._value.sqrt(), spread._dtype)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Tell whether a value is not 0."""
        return self.astype(bool)._reduce(Expr.any, np.dtype(bool), axis, keepdims, empty=False)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Tell whether no value is 0."""
        return self.astype(bool)._reduce(Expr.all, np.dtype(bool), axis, keepdims, empty=True)

    def _float(self) -> np.dtype[Any]:
        return self._dtype if self._dtype.kind == "f" else np.dtype("float64")

    # --- element by element ---

    def round(self, decimals: int = 0) -> Array:
        """Round to so many decimals, halves away from zero."""
        return self._with(self._value.round(decimals).cast(_engine(self._dtype)), self._dtype)

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """Limit the values to a range."""
        result = self
        if min is not None:
            result = np.maximum(result, min)
        if max is not None:
            result = np.minimum(result, max)
        return result

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from tidegate.array import _ufuncs

        return _ufuncs.call(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from tidegate.array import _ufuncs

        return _ufuncs.call_function(function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if hasattr(np.ndarray, name):
            raise TypeError(f"Array.{name} is not there: compute() first, or see tidegate's guide for what is")
        raise AttributeError(f"an array has no attribute {name!r}")

    def __add__(self, other: Any) -> Any:
        return np.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return np.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return np.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return np.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return np.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return np.true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return np.true_divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return np.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return np.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return np.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return np.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return np.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return np.power(other, self)

    def __and__(self, other: Any) -> Any:
        return np.bitwise_and(self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return np.bitwise_or(self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return np.bitwise_xor(self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return np.invert(self)

    def __neg__(self) -> Any:
        return np.negative(self)

    def __pos__(self) -> Array:
        return self

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __eq__(self, other: object) -> Any:
        return np.equal(self, other)  # type: ignore[call-overload]

    def __ne__(self, other: object) -> Any:
        return np.not_equal(self, other)  # type: ignore[call-overload]

    def __lt__(self, other: Any) -> Any:
        return np.less(self, other)

    def __le__(self, other: Any) -> Any:
        return np.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return np.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return np.greater_equal(self, other)

    def __matmul__(self, other: Any) -> Any:
        return np.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)


def where(condition: Array, one: Any, other: Any) -> Array:
    """Choose the values of one array where a condition is true, and of another elsewhere."""
    from tidegate.array import _ufuncs

    return _ufuncs.where(condition, one, other)


def together(*arrays: Array) -> list[Array]:
    """Put arrays over one frame, broadcast to one shape; only those of other frames are joined."""
    if any(array._is_masked for array in arrays):
        first = arrays[0]
        if all(_is_alike(first, array) and array._is_masked for array in arrays):
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
        and one._is_masked == other._is_masked
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


def _lengths(given: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of as many values as there are, one of which may be -1."""
    size, known = math.prod(old), math.prod(length for length in given if length != -1)
    found = given
    if given.count(-1) == 1 and known:
        found = tuple(size // known if length == -1 else length for length in given)
    if math.prod(found) != size or min(found, default=0) < 0:
        raise ValueError(f"cannot reshape an array of the shape {old} into {given}")
    if len(found) > len(INDICES):
        raise TypeError(f"an array has up to {len(INDICES)} dimensions, and {given} are more")
    return found


def _remainder(index: Expr, every: int) -> Expr:
    return Expr(("bin", "rem", index._node, lit(every)._node))


def _engine(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)


def _forget(con: Any, name: str, is_cached: bool) -> None:
    if is_cached:
        con.uncache(name)
    con.unregister(name)
