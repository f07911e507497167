"""Steps of lazy frames that are made of other steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _expr, _typed, _types
from tidegate._errors import SqlError

if TYPE_CHECKING:
    from tidegate._connection import Connection
    from tidegate._expr import Expr, IntoExpr
    from tidegate._frame import DataFrame
    from tidegate._groups import GroupBy
    from tidegate._tidegate import _Node as Node

#: Which of the rows that are alike unique() keeps.
_KEEP = ("any", "first", "last", "none")
#: Shares that describe() tells.
_SHARES = {"25%": 0.25, "50%": 0.5, "75%": 0.75}


class Verbs:
    """Steps of lazy frames that are made of other steps."""

    __slots__ = ()

    if TYPE_CHECKING:
        # What the steps are made of: a frame has it.
        _con: Connection

        @property
        def _is_ordered(self) -> bool:
            raise NotImplementedError

        @property
        def columns(self) -> list[str]:
            raise NotImplementedError

        @property
        def schema(self) -> dict[str, str]:
            raise NotImplementedError

        def _limited(self, offset: int, n: int | None) -> DataFrame:
            raise NotImplementedError

        def _check(self, names: Iterable[str]) -> None:
            raise NotImplementedError

        def _type_of(self, node: Node) -> str:
            raise NotImplementedError

        def _free(self, name: str, others: Iterable[str] = ()) -> str:
            raise NotImplementedError

        def select(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
            raise NotImplementedError

        def with_columns(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
            raise NotImplementedError

        def filter(self, *conditions: Expr, **equal: Any) -> DataFrame:
            raise NotImplementedError

        def group_by(self, *exprs: IntoExpr, maintain_order: bool = False, **named: IntoExpr) -> GroupBy:
            raise NotImplementedError

        def sort(
            self,
            *by: IntoExpr,
            descending: bool | Sequence[bool] = False,
            nulls_last: bool | Sequence[bool] = False,
        ) -> DataFrame:
            raise NotImplementedError

        def limit(self, n: int = 5, offset: int = 0) -> DataFrame:
            raise NotImplementedError

        def distinct(self, *subset: str | Sequence[str]) -> DataFrame:
            raise NotImplementedError

        def pipe(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        def count(self) -> int:
            raise NotImplementedError

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)

    # --- rows ---

    def slice(self, offset: int, length: int | None = None) -> DataFrame:
        """Keep so many rows after an offset, or all of them; which ones these are, only ``sort`` says.

        Args:
            offset: rows to skip. A negative one counts from the end: the frame is run once to count its rows.
        """
        if length is not None and length < 0:
            raise ValueError(f"slice(length={length}): it is not negative")
        if offset < 0:
            count = self.count()
            start = max(0, count + offset)
            length = count - start if length is None else max(0, min(count, count + offset + length) - start)
            offset = start
        return self._limited(offset, length)

    def tail(self, n: int = 5) -> DataFrame:
        """Keep the last rows, so many; which ones these are, only ``sort`` says. The frame is run once to count its rows."""
        return self.slice(-n, n) if n else self.limit(0)

    def with_row_index(self, name: str = "index", offset: int = 0) -> DataFrame:
        """Add a first column that counts the rows, from an offset on; in which order, only ``sort`` says."""
        if name in self.columns:
            raise SqlError(f"with_row_index() makes the column '{name}', which is there: pass name=")
        number = _expr.function("row_number").over().cast("int64") + (offset - 1)
        return self.select(number.alias(name), _expr.all_columns())

    def unique(
        self, subset: str | Sequence[str] | None = None, *, keep: str = "any", maintain_order: bool = False
    ) -> DataFrame:
        """Keep one row of those that are alike, in all columns or in these.

        Args:
            keep: which row: ``any`` one, the ``first`` or the ``last`` of rows that are in memory or sorted, or ``none`` of
                those that are more than one.
            maintain_order: whether rows that are in memory or sorted keep their order.
        """
        if keep not in _KEEP:
            raise ValueError(f"keep={keep!r}: it is one of {', '.join(map(repr, _KEEP))}")
        names = list(self.columns) if subset is None else _expr.flat([subset])
        self._check(names)
        if keep == "any" and not maintain_order:
            return self.distinct(*(() if subset is None else names))
        if not self._is_ordered and (keep in ("first", "last") or maintain_order):
            given = f"keep={keep!r}, maintain_order={maintain_order}"
            raise ValueError(f"unique({given}): the rows have no order; sort() gives them one")
        columns, row, place = self.columns, self._free("row"), self._free("place")
        if keep == "none":
            alike = _expr.count_rows().over(*names)
            return self.with_columns(alike.alias(place)).filter(_expr.col(place).eq(1)).drop(place)
        numbered = self.with_row_index(row)
        order = _expr.function("row_number").over(*names, order_by=row, descending=keep == "last")
        return numbered.with_columns(order.alias(place)).filter(_expr.col(place).eq(1)).select(*columns)

    def top_k(self, k: int, *, by: IntoExpr | Sequence[IntoExpr], reverse: bool = False) -> DataFrame:
        """Keep the rows with the greatest values, the greatest first; NULLs come last.

        Args:
            by: the columns.
            reverse: whether it is the least values.
        """
        return self.sort(*_expr.flat([by]), descending=not reverse, nulls_last=True).limit(k)

    def bottom_k(self, k: int, *, by: IntoExpr | Sequence[IntoExpr]) -> DataFrame:
        """Keep the rows with the least values, the least first; NULLs come last."""
        return self.top_k(k, by=by, reverse=True)

    def drop_nulls(self, *columns: str | Sequence[str], subset: str | Sequence[str] | None = None) -> DataFrame:
        """Keep the rows that have no NULL, in any column or in these."""
        names = _expr.flat([*columns, *([] if subset is None else [subset])]) or self.columns
        return self.filter(*[_expr.col(name).is_not_null() for name in names])

    def drop_nans(self, *columns: str | Sequence[str], subset: str | Sequence[str] | None = None) -> DataFrame:
        """Keep the rows that have no NaN, in any column of floats or in these."""
        floats = [name for name, of in self.schema.items() if _typed.is_float(of)]
        names = _expr.flat([*columns, *([] if subset is None else [subset])]) or floats
        return self.filter(*[_expr.col(name).is_not_nan().fill_null(True) for name in names])

    # --- values ---

    def cast(self, dtypes: Any, *, strict: bool = True) -> DataFrame:
        """Change the types of columns. A value that has no counterpart is an error, or NULL with ``strict=False``.

        Args:
            dtypes: a type for every column, or a dict of columns and types.
        """
        wanted = dtypes if isinstance(dtypes, Mapping) else dict.fromkeys(self.columns, _types.data_type(dtypes))
        self._check(wanted)
        return self.with_columns(*[_expr.col(name).cast(of, strict=strict) for name, of in wanted.items()])

    def fill_null(self, value: Any = None, strategy: str | None = None) -> DataFrame:
        """Put a value in the place of NULL in every column that it fits: numbers in columns of numbers, text in those of
        text. An expression is for every column.

        Args:
            strategy: instead of a value, as for :meth:`tidegate.Expr.fill_null`.
        """
        if isinstance(value, _expr.Expr) or strategy in ("min", "max", "forward"):
            names = self.columns
        else:
            kind = "Int64" if value is None else self._type_of(_expr.lit(value)._node)
            names = [name for name, of in self.schema.items() if _typed.family(of) in (_typed.family(kind), "Null")]
        return self.with_columns(*[_expr.col(name).fill_null(value, strategy) for name in names])

    def fill_nan(self, value: Any) -> DataFrame:
        """Put a value in the place of NaN in every column of floats."""
        floats = [name for name, of in self.schema.items() if _typed.is_float(of)]
        return self.with_columns(*[_expr.col(name).fill_nan(value) for name in floats])

    # --- columns ---

    def unnest(self, *columns: str | Sequence[str]) -> DataFrame:
        """Put the fields of structs in their place, each a column."""
        names = _expr.flat(columns)
        self._check(names)
        made: list[Expr] = []
        for name in self.columns:
            fields = _typed.fields(self._type_of(("col", name))) if name in names else None
            if name in names and fields is None:
                raise SqlError(f"unnest() takes columns of structs, and '{name}' is of the type {self.schema[name]}")
            made += [_expr.col(name)] if fields is None else [_expr.col(name).struct.field(field) for field in fields]
        return self.select(*made)

    def unpivot(
        self,
        on: str | Sequence[str] | None = None,
        *,
        index: str | Sequence[str] | None = None,
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> DataFrame:
        """Make a row of each value of several columns: what the column is called, and the value. The rows have no order.

        Args:
            on: the columns; all that are not in ``index`` if there are none.
            index: columns that are repeated beside each value.
        """
        kept = [] if index is None else _expr.flat([index])
        names = [name for name in self.columns if name not in kept] if on is None else _expr.flat([on])
        if not names:
            raise ValueError("unpivot() has no columns to make rows of: name them by on=")
        parts = [
            self.select(*kept, _expr.lit(name).alias(variable_name), _expr.col(name).alias(value_name)) for name in names
        ]
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.union(part)
        return frame

    def pivot(
        self,
        on: str,
        *,
        index: str | Sequence[str] | None = None,
        values: str | None = None,
        aggregate_function: str | None = None,
        on_columns: Sequence[Any] | None = None,
    ) -> DataFrame:
        """Make a column of each value of a column; a row of each value of ``index``.

        Args:
            on: the column of whose values columns are made.
            index: the columns of the rows; all others if there are none.
            values: the column of the values; the one that is neither ``on`` nor in ``index`` if it is one.
            aggregate_function: what is made of several values: ``min``, ``max``, ``sum``, ``mean``, ``median``, ``first``,
                ``last`` or ``len``; several are an error without it.
            on_columns: the values of ``on``. Without it the frame is run once to find them, and they are sorted.
        """
        if index is None and values is None:
            raise ValueError("pivot() needs index= or values=")
        kept = [] if index is None else _expr.flat([index])
        others = [name for name in self.columns if name not in (on, values, *kept)]
        if values is None and len(others) != 1:
            raise ValueError(f"pivot() needs values=: the other columns are {', '.join(others) or 'none'}")
        value = others[0] if values is None else values
        kept = kept or others
        self._check([on, value, *kept])
        found = on_columns
        if found is None:
            found = [row[0] for row in self.select(on).distinct().sort(on, nulls_last=True).rows()]
        aggregates = []
        for item in found:
            cells = _expr.col(value).filter(_expr.col(on).eq_missing(item))
            made = getattr(cells, aggregate_function)() if aggregate_function else cells.first()
            aggregates.append(made.alias("null" if item is None else _shown(item)))
        if aggregate_function is None:
            most = self.group_by(*kept, on).len(self._free("len")).select(_expr.col(self._free("len")).max()).item()
            if (most or 0) > 1:
                raise SqlError(f"pivot() finds {most} values for one place: say what is made of them by aggregate_function=")
        return self.group_by(*kept).agg(*aggregates)

    # --- all rows ---

    def _every(self, name: str, *args: Any) -> DataFrame:
        """Make an aggregate of each column of numbers; NULL of the others."""
        made = []
        for column, of in self.schema.items():
            fits = _typed.is_number(of) or of == "Boolean"
            made.append(getattr(_expr.col(column), name)(*args) if fits else _expr.lit(None).min().alias(column))
        return self.select(*made)

    def sum(self) -> DataFrame:
        """Sum every column of numbers or truth values; of others it is NULL."""
        return self._every("sum")

    def mean(self) -> DataFrame:
        """Return the mean of every column of numbers or truth values; of others it is NULL."""
        return self._every("mean")

    def median(self) -> DataFrame:
        """Return the median of every column of numbers or truth values; of others it is NULL."""
        return self._every("median")

    def std(self, ddof: int = 1) -> DataFrame:
        """Return the standard deviation of every column of numbers or truth values; of others it is NULL."""
        return self._every("std", ddof)

    def var(self, ddof: int = 1) -> DataFrame:
        """Return the variance of every column of numbers or truth values; of others it is NULL."""
        return self._every("var", ddof)

    def quantile(self, share: float) -> DataFrame:
        """Return the value of every column of numbers below which this share lies; of others it is NULL."""
        return self._every("quantile", share)

    def min(self) -> DataFrame:
        """Return the least value of every column."""
        return self.select(_expr.all_columns().min())

    def max(self) -> DataFrame:
        """Return the greatest value of every column."""
        return self.select(_expr.all_columns().max())

    def null_count(self) -> DataFrame:
        """Count the NULLs of every column."""
        return self.select(_expr.all_columns().null_count())

    def describe(self) -> DataFrame:
        """Run the frame and tell of each column ``count``, ``null_count``, ``mean``, ``std``, ``min``, the quartiles and
        ``max``: numbers for columns of numbers and truth values, texts for others. Quartiles are by interpolation."""
        told: dict[str, Sequence[Any]] = {"statistic": ["count", "null_count", "mean", "std", "min", *_SHARES, "max"]}
        made: list[Expr] = []
        for at, (name, of) in enumerate(self.schema.items()):
            column = _expr.col(name)
            fits = _typed.is_number(of) or of == "Boolean"
            value = column.cast("int64") if of == "Boolean" else column
            shares = [value.quantile(share) if fits else None for share in _SHARES.values()]
            ends = [value.min(), value.max()] if fits or not _typed.is_nested(of) else [None, None]
            spread = [value.mean(), value.std()] if fits else [None, None]
            every = [column.count(), column.null_count(), *spread, ends[0], *shares, ends[1]]
            filled = [_expr.lit(None).min() if expr is None else expr for expr in every]
            made += [expr.alias(f"{at} {n}") for n, expr in enumerate(filled)]
        row = list(self.select(*made).rows()[0]) if made else []
        size = len(told["statistic"])
        for at, (name, of) in enumerate(self.schema.items()):
            cells = row[at * size : (at + 1) * size]
            turn = float if _typed.is_number(of) or of == "Boolean" else str
            told[name] = [None if cell is None else turn(cell) for cell in cells]
        return self._con.from_dict(told)


def _shown(value: Any) -> str:
    """Write a value as the name of a column."""
    return str(value).lower() if isinstance(value, bool) else str(value)
