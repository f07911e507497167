"""Lazy frames: a plan that runs when its rows are asked for."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import _expr, _nodes, _progress, _typed, _types
from tidegate._errors import Error, NotFoundError, SqlError
from tidegate._expr import Expr, IntoExpr
from tidegate._groups import GroupBy
from tidegate._table import SHOWN_ROWS, Fetched, Table, arrow_library, came_from_pandas, described, html_table, text_table
from tidegate._verbs import Verbs

if TYPE_CHECKING:
    import asyncio

    import pyarrow

    from tidegate._connection import Connection
    from tidegate._tidegate import Frame, Job, Rows
    from tidegate._tidegate import _Node as Node

__all__ = ["DataFrame", "GroupBy", "Table", "arrow_library"]

#: Seconds that the rows may take that a notebook is shown.
_SHOWN_SECONDS = 5.0

#: Compressions that have a level, with one.
_LEVELS = {"zstd": "zstd(3)", "gzip": "gzip(6)", "brotli": "brotli(1)"}
#: A column that numbers the rows while windows are computed.
ROW = "__row__"


class DataFrame(Verbs, Fetched):
    """A lazy frame: nothing runs before its rows are asked for, by ``collect()``, ``to_arrow()`` and the like.

    Frames are made by a :class:`Connection` and never change: each method returns another one.
    """

    __slots__ = ("_con", "_frame", "_numbering")

    def __init__(self, con: Connection, frame: Frame, numbering: Callable[[], DataFrame] | None = None) -> None:
        self._con = con
        self._frame = frame
        #: Makes the frame with a column that numbers its rows, if they have an order: that of data in memory, or of sort().
        self._numbering = numbering

    def _of(self, build: Callable[[], Frame], numbering: Callable[[], DataFrame] | None = None) -> DataFrame:
        return DataFrame(self._con, self._named(build), numbering)

    def _named(self, build: Callable[[], Any]) -> Any:
        """Add the names of functions that are like one that there is not."""
        try:
            return build()
        except NotFoundError as error:
            text = str(error)
            if text.startswith("function '"):
                name = text.split("'")[1]
                near = _nodes.suggestion(name, self._con.functions())
                raise NotFoundError(text + near) from None
            raise

    # --- what it is ---

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return self._frame.schema.names

    @property
    def dtypes(self) -> list[str]:
        """The columns' types, as Arrow calls them."""
        return self._frame.schema.types

    @property
    def schema(self) -> dict[str, str]:
        """The columns' names and types, as Arrow calls them."""
        schema = self._frame.schema
        return dict(zip(schema.names, schema.types))

    def __repr__(self) -> str:
        lines = [f"  {name}: {of}" for name, of in zip(self.columns, self.dtypes)]
        shown = lines[:50] + ([f"  … {len(lines) - 50} more"] if len(lines) > 50 else [])
        return "\n".join(["tidegate.DataFrame (lazy: collect() or to_arrow() runs it)", *shown])

    def _repr_html_(self) -> str:
        head = f"<pre>{html.escape(repr(self))}</pre>"
        try:
            rows = self._frame.limit(0, SHOWN_ROWS + 1).start()
            found = rows.wait(_SHOWN_SECONDS)
        except Error as error:
            return f"{head}<pre>{html.escape(str(error))}</pre>"
        if found is None:
            rows.cancel()
            return f"{head}<p>no rows within {_SHOWN_SECONDS:g} s</p>"
        return html_table(found)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name != "__bool__"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.columns:
            message = f"a frame's columns are no members: frame[{name!r}] is one, or col({name!r})"
            raise AttributeError(message, name=name, obj=self)
        raise _nodes.missing(self, "a frame", name, "con.sql(…) has all of SQL, where frames are tables")

    def __bool__(self) -> bool:
        raise TypeError("a lazy frame has no truth value: collect() it, or ask for its count()")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a lazy frame has no rows yet: iterate over its rows(), or over its columns")

    def __getitem__(self, item: str | list[str] | slice) -> Any:
        """Return an expression of a column, a frame of several columns, or one of a slice of the rows."""
        if isinstance(item, str):
            if item not in self.columns:
                raise KeyError(item)
            return _expr.col(item)
        if isinstance(item, slice):
            start, stop = item.start or 0, item.stop
            if item.step not in (None, 1) or start < 0 or (stop is not None and stop < 0):
                raise ValueError(f"a lazy frame has slices from its beginning, without steps, and not {item}: see slice()")
            return self.slice(start, None if stop is None else max(0, stop - start))
        if isinstance(item, (list, tuple)):
            return self.select(*item)
        raise TypeError(f"frame[…] takes a column's name, a list of them or a slice of rows, and not {item!r}")

    def lazy(self) -> DataFrame:
        """Return the frame, which is lazy already."""
        return self

    def collect_schema(self) -> dict[str, str]:
        """Return the columns' names and types, as Arrow calls them."""
        return self.schema

    # --- lazy ---

    def _type_of(self, node: Node) -> str:
        return self._frame.type_of(node)

    def _lowered(self, pairs: Sequence[tuple[str, Node]]) -> list[tuple[str, Node]]:
        """Write what depends on types anew."""
        names, types = self.columns, self.dtypes
        known = dict(zip(names, types)) if len(set(names)) == len(names) else {}

        def type_of(node: Node) -> str:
            # Columns are asked for often, and each question of the engine takes it a while.
            return known[node[1]] if node[0] == "col" and node[1] in known else self._type_of(node)

        def lowered(node: Node) -> Node:
            return _typed.lowered(_nodes.in_rows(node) if self._is_ordered else node, type_of, self._is_ordered)

        made: list[tuple[str, Node]] = self._named(lambda: [(name, lowered(node)) for name, node in pairs])
        return made

    def _pairs(
        self, exprs: Iterable[IntoExpr], named: dict[str, IntoExpr], columns: Sequence[str] | None = None
    ) -> list[tuple[str, Node]]:
        """Make names and nodes of expressions, as the native module takes them."""
        there = self.columns if columns is None else columns
        pairs = list(_expr.expand(exprs, there))
        for name, item in named.items():
            made = list(_expr.expand([_named_value(name, item)], there))
            if len(made) > 1:
                raise SqlError(
                    f"{name}= is the name of one column, and {item!r} has {len(made)}: name.suffix() names them apart"
                )
            pairs += [(name, node) for _, node in made]
        return self._lowered(pairs)

    @property
    def _is_ordered(self) -> bool:
        return self._numbering is not None

    def _made(self, exprs: Iterable[IntoExpr]) -> list[Node]:
        return [node for _, node in self._pairs(exprs, {})]

    def _aliased(self, exprs: Iterable[IntoExpr], named: dict[str, IntoExpr]) -> list[Node]:
        return [("alias", node, name) for name, node in self._pairs(exprs, named)]

    def _in_order(
        self, pairs: list[tuple[str, Node]], build: Callable[[Frame, list[tuple[str, Node]]], Frame]
    ) -> DataFrame:
        """Build a frame whose rows stay in their order if they have one, which windows would change."""
        number = self._numbering
        if number is None:
            return self._of(lambda: build(self._frame, pairs))
        ordered = [(name, _nodes.in_order_of(node, ("col", ROW))) for name, node in pairs]

        def numbering() -> DataFrame:
            numbered = number()
            return numbered._of(lambda: build(numbered._frame, [*ordered, (ROW, ("col", ROW))]))

        if not any(_nodes.has(node, "over") for _, node in ordered):
            return self._of(lambda: build(self._frame, pairs), numbering)
        # The numbers are below the windows: what numbers rows in a window's place numbers them in any order.
        found = numbering()
        made = found.sort(ROW).select(*[name for name in found.columns if name != ROW])
        return DataFrame(self._con, made._frame, numbering)

    def _free(self, name: str, others: Iterable[str] = ()) -> str:
        """Find a name that no column has."""
        taken = {*self.columns, *others}
        while name in taken:
            name = f"_{name}"
        return name

    def select(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
        """Select columns and expressions; a string is a column's name.

        Aggregates alone make one row; beside other columns each is the same for every row.
        """
        pairs = self._pairs(exprs, named)
        return self._in_order(
            pairs, lambda frame, pairs: frame.select([("alias", node, name) for name, node in pairs])
        )

    def with_columns(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
        """Add columns, or replace those of the same name. An aggregate is over all rows. A list is a value, the same for
        every row.

        Raises:
            SqlError: if two expressions have one name.
        """
        pairs = self._pairs(exprs, named)
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise SqlError(f"with_columns() makes the column '{name}' twice: name one of them apart with alias()")
            seen.add(name)
        return self._in_order(pairs, lambda frame, pairs: frame.with_columns(pairs))

    def drop(self, *names: str | Sequence[str], strict: bool = True) -> DataFrame:
        """Leave columns out.

        Args:
            strict: whether a column that is not there is an error.
        """
        without = _expr.flat(names)
        if strict:
            self._check(without)
        return self.select(*[name for name in self.columns if name not in without])

    def rename(self, names: dict[str, str]) -> DataFrame:
        """Rename columns, given old and new names."""
        self._check(names)
        return self.select(*[_expr.col(name).alias(names.get(name, name)) for name in self.columns])

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.columns:
                self._frame.type_of(("col", name))

    def filter(self, *conditions: Expr, **equal: Any) -> DataFrame:
        """Keep the rows for which every condition is true; NULL is not true.

        Args:
            equal: columns and the values that they must have.
        """
        every = [*_expr.flat(conditions), *(_expr.col(name) == value for name, value in equal.items())]
        for condition in every:
            if not isinstance(condition, Expr):
                raise TypeError(f"filter() takes expressions such as col('x') > 1, and not {condition!r}")
        return self._filtered(self._made(every))

    def _filtered(self, nodes: Sequence[Node]) -> DataFrame:
        def build() -> Frame:
            frame = self._frame
            for node in nodes:
                frame = frame.filter(node)
            return frame

        return self._of(build, self._renumbered(lambda numbered: numbered._filtered(nodes)))

    def _renumbered(self, step: Callable[[DataFrame], DataFrame]) -> Callable[[], DataFrame] | None:
        """Number the rows below a step that keeps their order."""
        number = self._numbering
        return None if number is None else lambda: step(number())

    def group_by(self, *exprs: IntoExpr, maintain_order: bool = False, **named: IntoExpr) -> GroupBy:
        """Make groups of rows whose values are equal; ``agg`` follows. NULLs are one group.

        Args:
            maintain_order: must be ``False``: groups come in no order, and ``sort`` gives them one.
        """
        if maintain_order is not False:
            raise ValueError("group_by(maintain_order=True): rows have no order to be kept; sort the groups")
        return GroupBy(self, self._aliased(exprs, named))

    def join(
        self,
        other: DataFrame,
        on: str | Sequence[str] | None = None,
        how: str = "inner",
        *,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        suffix: str = "_right",
        coalesce: bool | None = None,
    ) -> DataFrame:
        """Join with another frame by columns whose values are equal; NULL equals nothing.

        Args:
            other: a frame, or data that ``Connection.from_arrow`` takes.
            on: the columns, where both frames call them the same.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi``, ``anti`` or ``cross``.
            left_on: the columns of this frame.
            right_on: the columns of the other one.
            suffix: what is added to the name of the other frame's column if this one has it, too.
            coalesce: whether the keys of both become one column; by default they do, but for ``full``.
        """
        if not isinstance(other, DataFrame):
            other = self._con.from_arrow(other)
        keys = [_keys(given) for given in ((on, on) if on is not None else (left_on, right_on))]
        left, right = keys
        if how == "cross" and (left or right):
            raise ValueError("a cross join has no keys")
        if how != "cross" and (not left or len(left) != len(right)):
            raise ValueError("join() needs on=, or as many columns in left_on= as in right_on=")
        return self._of(lambda: self._frame.join(other._frame, (left, right), how, suffix, coalesce))

    def union(self, other: DataFrame, *, by_name: bool = False, distinct: bool = False) -> DataFrame:
        """Add another frame's rows: columns by place, or by name, where missing ones are NULL.

        Args:
            other: a frame, or data that ``Connection.from_arrow`` takes.

        Raises:
            SqlError: if a column of text would meet one of numbers; numbers become the type that they have in common.
        """
        if not isinstance(other, DataFrame):
            other = self._con.from_arrow(other)
        left, right = self._alike(other, by_name)
        return left._of(lambda: left._frame.union(right._frame, by_name, distinct))

    def _alike(self, other: DataFrame, by_name: bool) -> tuple[DataFrame, DataFrame]:
        """Cast columns of numbers that meet to the type that they have in common."""
        if len(self.schema) < len(self.columns) or len(other.schema) < len(other.columns):
            return self, other
        there = other.columns
        names = [(name, name) for name in self.columns if name in there] if by_name else zip(self.columns, there)
        casts: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for left, right in names:
            types = self.schema[left], other.schema[right]
            if any(map(_typed.is_text, types)) and any(map(_typed.is_number, types)):
                raise SqlError(
                    f"union() of the column '{left}', of {types[0]}, with '{right}', of {types[1]}: cast() one of them"
                )
            to = _typed.common(self._type_of, types)
            for cast, name, of in zip(casts, (left, right), types):
                if to is not None and of != to:
                    cast[name] = to
        return self.cast(casts[0]) if casts[0] else self, other.cast(casts[1]) if casts[1] else other

    def sort(
        self,
        *by: IntoExpr,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | Sequence[bool] = False,
    ) -> DataFrame:
        """Sort the rows. NULLs come first unless ``nulls_last``, as in Polars and unlike in SQL."""
        nodes = self._made(by)
        if not nodes:
            raise TypeError("sort() takes the columns to sort by: sort('x'), or sort(*frame.columns) for all")
        descends = _each(descending, len(nodes), "descending")
        last = _each(nulls_last, len(nodes), "nulls_last")
        items = [(node, down, not late) for node, down, late in zip(nodes, descends, last)]

        def numbering() -> DataFrame:
            number = ("over", ("fn", "row_number", (), False, (), None), (), tuple(items), None)
            return self._of(lambda: self._frame.with_columns([(ROW, number)]))

        return self._of(lambda: self._frame.sort(items), numbering if self._con.url is None else None)

    def limit(self, n: int = 5, offset: int = 0) -> DataFrame:
        """Keep so many rows after those of an offset; which ones these are, only ``sort`` says."""
        if n < 0 or offset < 0:
            raise ValueError(f"limit(n={n}, offset={offset}): neither is negative; tail(), slice() count from the end")
        return self._limited(offset, n)

    def _limited(self, offset: int, n: int | None) -> DataFrame:
        def limited(frame: DataFrame) -> DataFrame:
            return frame._of(lambda: frame._frame.limit(offset, n))

        return self._of(
            lambda: self._frame.limit(offset, n), self._renumbered(lambda numbered: limited(numbered.sort(ROW)))
        )

    head = limit

    def distinct(self, *subset: str | Sequence[str]) -> DataFrame:
        """Keep one row of those that are alike, in all columns or in these; any one of them."""
        names = list(_expr.flat(subset)) or None
        return self._of(lambda: self._frame.distinct(names))

    def explode(self, *columns: str | Sequence[str]) -> DataFrame:
        """Make a row of each element of lists. A NULL list is one row; an empty list is none."""
        names = list(_expr.flat(columns))
        self._check(names)
        for name in names:
            of = self._type_of(("col", name))
            if not _typed.is_list(of):
                raise SqlError(f"explode() takes columns of lists, and '{name}' is of the type {of}")
        return self._of(lambda: self._frame.explode(names))

    def map_partitions(
        self, function: Callable[[Any], Any], schema: Any, *, name: str | None = None
    ) -> DataFrame:
        """Map each batch of rows by a Python function.

        Args:
            function: gets a ``pyarrow.RecordBatch`` and returns anything that exports an Arrow batch, a
                ``pyarrow.Table`` or a dict of columns. It runs on threads of the engine, one call at a time.
            schema: the columns that it returns: a dict of names and types, or an Arrow schema.
            name: what plans and messages call it.
        """
        from tidegate._functions import batch_body

        body = batch_body(function)
        shown = name or str(getattr(function, "__name__", "function"))
        return self._of(lambda: self._frame.map_partitions(body, _types.schema(schema), shown))

    def to_backend(self, backend: str) -> DataFrame:
        """Run the frame's regions on the ``host``, on ``device``, on devices or not at all (``strict``), or
        wherever they are done first (``auto``)."""
        return self._of(
            lambda: self._frame.to_backend(backend), self._renumbered(lambda numbered: numbered.to_backend(backend))
        )

    def pipe(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with the frame."""
        return function(self, *args, **kwargs)

    # --- running ---

    def _run(self, start: Callable[[], Job]) -> Rows:
        job = self._named(start)
        with _progress.Bar(job) as bar:
            rows: Rows | None = job.wait(None, bar.tick)
        assert rows is not None
        return rows

    def collect(self) -> Table:
        """Run the frame and keep its rows in memory, as an object that any Arrow library reads."""
        return Table(self._run(self._frame.start))

    def cache(self) -> DataFrame:
        """Run the frame now and keep its rows in memory; the frame that comes back reads them from there.

        ``Connection.cache`` keeps the columns of a table, also on a device.
        """
        return self._con.from_arrow(self.collect())

    async def collect_async(self) -> Table:
        """Run the frame beside other tasks of asyncio; cancelling the task stops it."""
        import asyncio

        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        job = self._named(self._frame.start)
        job.add_done_callback(lambda: _tell(loop, ended))
        try:
            await ended.wait()
        except asyncio.CancelledError:
            job.cancel()
            raise
        return Table(job.wait())

    def to_arrow_reader(self) -> pyarrow.RecordBatchReader:
        """Run the frame and return a ``pyarrow.RecordBatchReader``, which makes batches when asked."""
        pyarrow = arrow_library()
        batches = self._frame.open()

        def pulled() -> Iterator[Any]:
            while (rows := batches.next()) is not None:
                for batch in pyarrow.table(rows).to_batches():
                    yield batch.replace_schema_metadata(schema.metadata)

        schema = described(pyarrow.schema(batches.schema))
        return pyarrow.RecordBatchReader.from_batches(schema, pulled())

    def item(self) -> Any:
        """Run the frame and return the value of its one row and column."""
        table = self.to_arrow()
        if table.shape != (1, 1):
            raise ValueError(f"item() is for one value, and the frame has {table.shape[0]} rows and {table.shape[1]} columns")
        return table.column(0)[0].as_py()

    def fetchone(self) -> tuple[Any, ...] | None:
        """Run the frame and return its first row; ``None`` if it has none. ``execute`` keeps rows, of which each
        call returns the next."""
        return next(iter(self.limit(1).rows()), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Run the frame and return its first rows, so many at the most. ``execute`` keeps rows, of which each call
        returns the next."""
        return self.limit(size).rows()

    def count(self) -> int:
        """Run the frame and count its rows."""
        return int(self.select(_expr.count_rows()).item())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if came_from_pandas(self._frame.schema):
            stream: object = self.to_arrow_reader().__arrow_c_stream__(requested_schema)
            return stream
        return self._frame.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._frame.schema.__arrow_c_schema__()

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Run the frame and return it by the dataframe interchange protocol."""
        return self.collect().__dataframe__(nan_as_null, allow_copy)

    def show(self, n: int = 20) -> None:
        """Run the frame and print its first rows."""
        print(text_table(self._run(self._frame.limit(0, n).start), n))

    def explain(self, *, verbose: bool = False, analyze: bool = False) -> str:
        """Return the plan as text, with what runs on devices and why the rest does not.

        Args:
            verbose: with each step of the optimizer.
            analyze: after running it, with what each part took.
        """
        rows = self._run(lambda: self._frame.explain(verbose, analyze))
        parts = rows.cells(rows.num_rows, 10_000_000)
        return "\n".join(f"{part[0]}\n{part[1]}" if len(part) > 1 else str(part[0]) for part in parts)

    def _write(
        self, path: Any, format: str, options: dict[str, str], partition_by: Sequence[str]
    ) -> int:
        target, names = os.fspath(path), list(partition_by)
        folder = Path(target).parent
        if "://" not in target and not folder.is_dir():
            raise NotFoundError(f"the folder '{folder}' is not there, in which '{Path(target).name}' is to be written")
        rows = self._run(lambda: self._frame.write(target, format, options, names))
        return int(rows.cells(1, 40)[0][0] or 0)

    def write_parquet(
        self, path: Any, *, compression: str | None = None, partition_by: Sequence[str] = ()
    ) -> int:
        """Write the rows to a Parquet file, or to a folder if the path has no ending; returns their number.

        Args:
            compression: such as ``"zstd"``, ``"zstd(9)"``, ``"snappy"`` or ``"uncompressed"``.
            partition_by: columns of which each value gets a folder of its own.
        """
        codec = None if compression is None else _LEVELS.get(compression.lower(), compression)
        options = {} if codec is None else {"format.compression": codec}
        return self._write(path, "parquet", options, partition_by)

    def write_csv(self, path: Any, *, header: bool = True, separator: str = ",") -> int:
        """Write the rows to a CSV file; returns their number."""
        options = {"format.has_header": str(header).lower(), "format.delimiter": separator}
        return self._write(path, "csv", options, ())

    def write_json(self, path: Any) -> int:
        """Write the rows to a file with a JSON object on each line; returns their number."""
        return self._write(path, "json", {}, ())


def _named_value(name: str, item: Any) -> Any:
    """Make an expression of what a name was given: a list is a value."""
    if not isinstance(item, (str, bytes, Expr)) and (hasattr(item, "__arrow_c_stream__") or getattr(item, "shape", None)):
        raise TypeError(
            f"{name}= is a column of values ({type(item).__name__}), and the rows of a lazy frame are not there yet: make "
            "a frame of them by con.from_dict(), and join() it"
        )
    return _expr.lit(list(item)) if isinstance(item, (list, tuple)) else item


def _keys(given: Any) -> list[str]:
    """Take the names of a join's keys."""
    names = []
    for item in [] if given is None else _expr.flat([given]):
        if isinstance(item, Expr) and item._node[0] == "col":
            item = item._node[1]
        if not isinstance(item, str):
            raise TypeError(
                f"join() takes names of columns, and not {item!r}: make a column of it by with_columns() first"
            )
        names.append(item)
    return names


def _each(given: bool | Sequence[bool], number: int, what: str) -> Sequence[bool]:
    if isinstance(given, bool):
        return [given] * number
    if len(given) != number:
        raise ValueError(f"{what}= has {len(given)} values for {number} columns")
    return given


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Tell a loop that something has ended, unless the loop has, too."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(ended.set)
