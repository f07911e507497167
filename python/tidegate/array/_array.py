"""The array: a frame of indices, an expression for the value, and which part of each dimension is meant."""

from __future__ import annotations

import itertools
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Union, cast

import numpy as np

from tidegate._errors import ResourcesExhaustedError
from tidegate._expr import Expr, col, fn, lit, when
from tidegate._options import options
from tidegate.array._operators import Operators

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

    ``column`` is ``None`` for one that was put in, which has the length 1, or 0 after a slice.
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
        if self.length == 0:
            return [lit(False)]
        if self.column is None:
            return []
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


class Array(Operators):
    """A lazy array. Made by functions of :mod:`tidegate.array`; it never changes."""

    __slots__ = (
        "_chunks", "_dimensions", "_dtype", "_fixed", "_made", "_masked", "_source", "_value", "__weakref__",
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
        masked: int = 0,
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
        # How many of the first dimensions a mask made one of, whose length is not known.
        self._masked = masked

    def _with(self, value: Expr, dtype: np.dtype[Any]) -> Array:
        return Array(self._made, self._dimensions, value, dtype, self._chunks, self._fixed, self._masked)

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
        if self._masked:
            raise TypeError("the shape of x[mask] is known only when it is computed: reduce it, or compute() it")
        return tuple(dimension.length for dimension in self._dimensions)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._dimensions) - max(self._masked - 1, 0)

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
        shape = "unknown" if self._masked else self.shape
        return f"<tidegate.Array shape={shape} dtype={self._dtype} (lazy: compute() runs it)>"

    def __iter__(self) -> Any:
        raise TypeError("a lazy array is not iterated over: compute() it first")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a lazy array is no NumPy array: compute() makes one of it")

    def _scalar(self) -> Any:
        if self._dimensions:
            raise TypeError("only an array without dimensions is one value: reduce it first")
        return self.compute()

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __bool__(self) -> bool:
        return bool(self._scalar())

    def item(self) -> Any:
        """Compute the only value, as a number or truth value of Python."""
        return self.compute().item()

    def tolist(self) -> Any:
        """Compute the values, as lists of Python's numbers, or as one number."""
        return self.compute().tolist()

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
        if self._masked:
            order = [dimension.index() for dimension in self._dimensions]
            rows = self._rows().select(*[at.alias(f"at{n}") for n, at in enumerate(order)], self._value.alias("x"))
            names = [f"at{n}" for n in range(len(order))]
            rest = [dimension.length for dimension in self._dimensions[self._masked :]]
            return self._values(rows.sort(*names).select("x")).reshape(-1 if all(rest) else 0, *rest)
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
        if column.null_count and self._dtype.kind != "f":
            raise ValueError(f"a reduction of no values has no identity, and {self._dtype} no NaN")
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
        kept = Array(con.table(name), dimensions, col("x"), self._dtype, self._chunks, (), self._masked)
        weakref.finalize(kept, _forget, con, name, on != "host")
        return kept

    # --- parts ---

    def __getitem__(self, key: Any) -> Array:
        """Take a part: integers, slices with any step, ``None``, ``...``, or a mask of the array's first dimensions.

        What a mask leaves of them is one dimension, whose length is known only when it is computed.

        Raises:
            IndexError: for an index out of bounds, too many of them, and a mask of another shape.
            TypeError: for lists, arrays and anything else that is none of these.
        """
        if isinstance(key, Array) or (isinstance(key, np.ndarray) and key.dtype == np.dtype(bool)):
            return self._chosen(key)
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(isinstance(item, (list, np.ndarray, Array)) for item in keys):
            raise TypeError("indexing by lists and arrays is not there: use slices, or a mask of the first dimensions")
        taken = sum(item is not None and item is not Ellipsis for item in keys)
        if taken > self.ndim:
            raise IndexError(f"{taken} indices for an array of {self.ndim} dimensions")
        rest = [slice(None)] * (self.ndim - taken)
        if Ellipsis in [item for item in keys if item is None or item is Ellipsis]:
            at = next(n for n, item in enumerate(keys) if item is Ellipsis)
            keys[at : at + 1] = rest
        else:
            keys += rest
        dimensions, fixed = list(self._dimensions[: self._masked]), list(self._fixed)
        own = iter(self._dimensions[self._masked :])
        if self._masked and keys.pop(0) != slice(None):
            raise TypeError("the first dimension of x[mask] has no indices: compute() it, or slice before the mask")
        for item in keys:
            if item is None:
                dimensions.append(Dimension(None, 0, 1, 1, 1))
                continue
            dimension = next(own)
            if isinstance(item, slice):
                dimensions.append(dimension.sliced(item))
                continue
            index = _whole(item, "is no index: use integers, slices, None, ... or a mask")
            if not -dimension.length <= index < dimension.length:
                raise IndexError(f"index {index} is out of bounds for a dimension of the length {dimension.length}")
            if dimension.column is not None:
                fixed.append((dimension.column, dimension.start + index % dimension.length * dimension.step))
        source = self._source
        if source is not None:
            source = source[tuple(item if item is None or isinstance(item, slice) else int(item) for item in keys)]
        return Array(
            self._made, tuple(dimensions), self._value, self._dtype, None, tuple(fixed), self._masked, source
        )

    def _chosen(self, mask: Any) -> Array:
        from tidegate.array._create import from_array
        from tidegate.array._join import together

        known = mask if isinstance(mask, Array) else from_array(mask, con=self._con)
        if known._dtype != np.dtype(bool):
            raise TypeError(f"a mask is an array of truth values, and not of {known._dtype}")
        if not known.ndim or known.shape != self.shape[: known.ndim]:
            raise IndexError(f"the mask has the shape {known.shape}, and the array {self.shape}")
        one, other = together(self, known[(..., *[None] * (self.ndim - known.ndim))])
        rows = one._base.filter(other._value)
        return Array(rows, one._dimensions, one._value, one._dtype, None, one._fixed, known.ndim)

    @property
    def T(self) -> Array:
        """The array with its dimensions in the opposite order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> Array:
        """Put the dimensions in another order; the opposite one unless it is named."""
        if self._masked:
            raise TypeError("x[mask] is not transposed: compute() it, or transpose before the mask")
        named = tuple(axes[0]) if len(axes) == 1 and np.ndim(axes[0]) else axes
        order = axes_of(named, self.ndim) if named else list(range(self.ndim))[::-1]
        if len(order) != self.ndim:
            raise ValueError(f"the axes {named} are not those of an array of {self.ndim} dimensions")
        dimensions = tuple(self._dimensions[axis] for axis in order)
        chunks = None if self._chunks is None else tuple(self._chunks[axis] for axis in order)
        source = None if self._source is None else self._source.transpose(order)
        return Array(self._made, dimensions, self._value, self._dtype, chunks, self._fixed, source=source)

    def reshape(self, *shape: Any) -> Array:
        """Give the values, in their order, other dimensions; one of which may be -1."""
        given = shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape
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

    def flatten(self) -> Array:
        """Give the values, in their order, one dimension."""
        return self.reshape(-1)

    def squeeze(self, axis: Axis = None) -> Array:
        """Take dimensions of the length 1 away: all of them, or these."""
        axes = [n for n, length in enumerate(self.shape) if length == 1] if axis is None else axes_of(axis, self.ndim)
        if any(self.shape[n] != 1 for n in axes):
            raise ValueError(f"of the shape {self.shape} only dimensions of the length 1 are taken away, and not {axis}")
        return self[tuple(0 if n in axes else slice(None) for n in range(self.ndim))]

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Exchange two dimensions."""
        order = list(range(self.ndim))
        (one,), (other,) = axes_of(axis1, self.ndim), axes_of(axis2, self.ndim)
        order[one], order[other] = other, one
        return self.transpose(order)

    def copy(self) -> Array:
        """Return the array, which never changes."""
        return self

    def dot(self, other: Any) -> Any:
        """Multiply with a vector or matrix: ``self @ other``."""
        return self @ other

    def astype(self, dtype: Any) -> Array:
        """Change the type of the values: ``float64``, ``float32``, ``int64`` or ``bool``."""
        wanted = known_dtype(dtype)
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
        axes = set(axes_of(axis, self.ndim))
        by_axis = self._by_axis()
        left = [dimension for n, own in enumerate(by_axis) if n not in axes for dimension in own]
        none = float("nan") if empty is None and dtype.kind == "f" else empty
        result = build(self._value)
        if none is not None:
            result = result.fill_null(none)
        groups = [dimension.index().alias(name) for dimension, name in zip(left, INDICES)]
        found = result.cast(_engine(dtype)).alias("x")
        base = self._rows().group_by(*groups).agg(found) if groups else self._rows().select(found)
        dimensions = [Dimension.whole(name, dimension.length) for dimension, name in zip(left, INDICES)]
        may_be_none = (self._masked and 0 in axes) or any(own[0].length == 0 for n, own in enumerate(by_axis) if n in axes)
        if groups and may_be_none:
            base = self._every(base, dimensions, none, dtype)
        if keepdims:
            kept = iter(dimensions)
            one = Dimension(None, 0, 1, 1, 1)
            parts = [[one] if n in axes else [next(kept) for _ in own] for n, own in enumerate(by_axis)]
            dimensions = [dimension for part in parts for dimension in part]
        return Array(base, tuple(dimensions), col("x"), dtype, masked=0 if 0 in axes else self._masked)

    def _by_axis(self) -> list[tuple[Dimension, ...]]:
        """The dimensions that each axis is made of: several are one where a mask made them one."""
        joined = [self._dimensions[: self._masked]] if self._masked else []
        return joined + [(dimension,) for dimension in self._dimensions[self._masked :]]

    def _every(self, found: DataFrame, dimensions: list[Dimension], none: Any, dtype: np.dtype[Any]) -> DataFrame:
        """Add rows to groups, of which one of no values has none: of every index, with what that is."""
        from tidegate.array._create import from_sql

        lengths = [dimension.length for dimension in dimensions]
        names = [str(dimension.column) for dimension in dimensions]
        every = from_sql("ones({shape})", lengths, None, self._con)._base
        keys = [col(name).cast("int64").alias(f"of_{name}") for name in names]
        both = every.select(*names).join(
            found.select(*keys, "x"), left_on=names, right_on=[f"of_{name}" for name in names], how="left", coalesce=False
        )
        value = col("x") if none is None else col("x").fill_null(lit(none).cast(_engine(dtype)))
        return both.select(*names, value.alias("x"))

    def _number(self) -> Array:
        """The array with truth values as integers."""
        return self.astype("int64") if self._dtype.kind == "b" else self

    def _known(self, dtype: Any) -> Array:
        """The array that is summed: of this type, if one is wanted, with truth values as integers."""
        return self._number() if dtype is None else self.astype(dtype)._number()

    def sum(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
        """Sum the values, of this type if one is given; 0 of none."""
        own = self._known(dtype)
        found = own._reduce(Expr.sum, own._dtype, axis, keepdims, empty=0)
        return found if dtype is None else found.astype(dtype)

    def prod(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
        """Multiply the values, of this type if one is given; 1 of none.

        Raises:
            TypeError: for integers, whose products the engine would round.
        """
        own = self._known(dtype)
        if own._dtype.kind != "f":
            raise TypeError("products of integers would be rounded: use prod(dtype='float64')")
        return own._reduce(fn.product, own._dtype, axis, keepdims, empty=1.0)

    def mean(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
        """Return the mean, of values of this type if one is given; NaN of no values."""
        own = self._known(dtype)
        found = own._reduce(Expr.mean, own._float(), axis, keepdims)
        return found if dtype is None else found.astype(dtype)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Return the least value; NaN if one of them is NaN, or if a mask leaves no floats.

        Raises:
            ValueError: for an axis without values; when it is computed, if a mask leaves no integers.
        """
        self._has_some("minimum", axis)
        if self._dtype.kind == "b":
            return self.all(axis, keepdims=keepdims)

        def least(value: Expr) -> Expr:
            if self._dtype.kind != "f":
                return value.min()
            # NaN is the greatest value to the engine.
            return when(value.max().is_nan()).then(value.max()).otherwise(value.min())

        return self._reduce(least, self._dtype, axis, keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Return the greatest value; NaN if one of them is NaN, or if a mask leaves no floats.

        Raises:
            ValueError: for an axis without values; when it is computed, if a mask leaves no integers.
        """
        self._has_some("maximum", axis)
        if self._dtype.kind == "b":
            return self.any(axis, keepdims=keepdims)
        return self._reduce(Expr.max, self._dtype, axis, keepdims)

    def _has_some(self, name: str, axis: Axis) -> None:
        if self._masked:
            return
        axes = axes_of(axis, self.ndim)
        left = [length for n, length in enumerate(self.shape) if n not in axes]
        if self.size == 0 and math.prod(left) != 0:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        """Return the first index of the least value in an axis, or among all values; NaN counts as the least."""
        from tidegate.array import _orders

        return _orders.argmin(self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        """Return the first index of the greatest value in an axis, or among all values; NaN counts as the greatest."""
        from tidegate.array import _orders

        return _orders.argmax(self, axis, keepdims=keepdims)

    def argsort(self, axis: int | None = -1) -> Array:
        """Return the indices that would sort an axis, or all values; equal ones in their order, NaN last."""
        from tidegate.array import _orders

        return _orders.argsort(self, axis)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Array:
        """Return the sums up to each value of an axis, or of all values in one dimension."""
        from tidegate.array import _orders

        return _orders.cumsum(self, axis, dtype)

    def var(self, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Array:
        """Return the variance; NaN or infinite of no more than ``ddof`` values."""
        own = self._number()

        def spread(value: Expr) -> Expr:
            if ddof in (0, 1):
                return value.var(ddof)
            freedom = value.count() - ddof
            return value.var(0) * value.count() / when(freedom > 0).then(freedom).otherwise(0)

        return own._reduce(spread, own._float(), axis, keepdims)

    def std(self, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Array:
        """Return the standard deviation; NaN or infinite of no more than ``ddof`` values."""
        spread: Any = np.sqrt(self.var(axis, ddof=ddof, keepdims=keepdims))
        return cast("Array", spread)

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
        """Round to so many decimals, halves away from zero, where NumPy rounds them to even; ``numpy.rint`` does so
        here too."""
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


def axes_of(axis: Any, ndim: int) -> list[int]:
    """Return the axes that are named, from 0; all of them for ``None``.

    Raises:
        ValueError: for one that there is not, and one that is named twice.
    """
    named = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    found = [_whole(item, "is no axis: use an integer, or a tuple of them") for item in named]
    for item in found:
        if not -ndim <= item < ndim:
            raise ValueError(f"axis {item} is out of bounds for an array of {ndim} dimensions")
    axes = [item % ndim for item in found]
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def known_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type of values that is named, if arrays have it."""
    wanted: np.dtype[Any] = np.dtype(dtype)
    if wanted.name not in ("float64", "float32", "int64", "bool"):
        raise TypeError(f"dtype {wanted} is not there: arrays are of float64, float32, int64 or bool")
    return wanted


def _whole(item: Any, otherwise: str) -> int:
    """Return an integer of Python of one of its or of NumPy's; truth values are none."""
    try:
        if not isinstance(item, (bool, np.bool_)):
            return operator.index(item)
    except TypeError:
        pass
    raise TypeError(f"{item!r} {otherwise}")


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
