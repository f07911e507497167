"""Lazy frames: a plan that runs when its rows are asked for."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _expr, _progress, _values
from tidegate._errors import Error, NotFoundError
from tidegate._expr import Expr, IntoExpr

if TYPE_CHECKING:
    import asyncio

    import numpy
    import pandas
    import polars
    import pyarrow

    from tidegate._connection import Connection
    from tidegate._tidegate import Frame, Job, Rows

#: Rows and characters of a value that a notebook is shown, and the seconds that it may take to find them.
_SHOWN_ROWS = 20
_SHOWN_CHARS = 200
_SHOWN_SECONDS = 5.0

#: Compressions that have a level, with one.
_LEVELS = {"zstd": "zstd(3)", "gzip": "gzip(6)", "brotli": "brotli(1)"}


class Fetched:
    """Rows as Python objects, by the names of Polars, DuckDB and the DB-API."""

    __slots__ = ()

    def collect(self) -> Table:
        raise NotImplementedError

    def to_arrow(self) -> pyarrow.Table:
        """Return a ``pyarrow.Table``; buffers are not copied."""
        return arrow_library().table(self.collect())

    def _cells(self) -> tuple[list[str], list[list[Any]]]:
        table = self.to_arrow()
        return unique(table.column_names), [column.to_pylist() for column in table.columns]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a tuple for each row."""
        names, columns = self._cells()
        return list(zip(*columns)) if names else []

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return a dict for each row. Of two columns of one name, the second is called ``name_1``."""
        names, columns = self._cells()
        return [dict(zip(names, row)) for row in zip(*columns)]

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Return a pandas frame; options are those of ``pyarrow.Table.to_pandas``."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Return a Polars frame. Polars has no intervals: of such a column it is a ``TypeError``."""
        import polars

        table = self.collect()
        for name, of in table.schema.items():
            if of.startswith("Interval"):
                raise TypeError(
                    f"the column {name!r} is an interval, which Polars does not have: select extract(epoch FROM "
                    f"{name}) for its seconds, or cast it to VARCHAR"
                )
        if len(set(table.columns)) == len(table.columns):
            return polars.DataFrame(table)
        return polars.DataFrame(table.to_arrow().rename_columns(unique(table.columns)))

    def to_numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """Return a NumPy array for each column; a column with NULLs becomes one of floats with NaN, or of
        objects."""
        table = self.to_arrow()
        names = unique(table.column_names)
        return {name: column.to_numpy() for name, column in zip(names, table.columns)}

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return a tuple for each row, as :meth:`rows` does."""
        return self.rows()

    def df(self) -> pandas.DataFrame:
        """Return a pandas frame."""
        return self.to_pandas()

    def pl(self) -> polars.DataFrame:
        """Return a Polars frame."""
        return self.to_polars()

    def arrow(self) -> pyarrow.Table:
        """Return a ``pyarrow.Table``."""
        return self.to_arrow()


class DataFrame(Fetched):
    """A lazy frame: nothing runs before its rows are asked for, by ``collect()``, ``to_arrow()`` and the like.

    Frames are made by a :class:`Connection` and never change: each method returns another one.
    """

    __slots__ = ("_con", "_frame")

    def __init__(self, con: Connection, frame: Frame) -> None:
        self._con = con
        self._frame = frame

    def _of(self, build: Callable[[], Frame]) -> DataFrame:
        return DataFrame(self._con, self._named(build))

    def _named(self, build: Callable[[], Any]) -> Any:
        """Add the names of functions that are like one that there is not."""
        try:
            return build()
        except NotFoundError as error:
            text = str(error)
            if text.startswith("function '"):
                name = text.split("'")[1]
                near = _expr.suggestion(name, self._con.functions())
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
            rows = self._frame.limit(0, _SHOWN_ROWS + 1).start()
            found = rows.wait(_SHOWN_SECONDS)
        except Error as error:
            return f"{head}<pre>{html.escape(str(error))}</pre>"
        if found is None:
            rows.cancel()
            return f"{head}<p>no rows within {_SHOWN_SECONDS:g} s</p>"
        return html_table(found)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name != "__bool__"]

    def __bool__(self) -> bool:
        raise TypeError("a lazy frame has no truth value: collect() it, or ask for its count()")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a lazy frame has no rows yet: iterate over its rows(), or over its columns")

    def __getitem__(self, item: str | list[str]) -> Any:
        """Return an expression of a column, or a frame of several columns."""
        if isinstance(item, str):
            if item not in self.columns:
                raise KeyError(item)
            return _expr.col(item)
        return self.select(*item)

    # --- lazy ---

    def _nodes(self, exprs: Iterable[IntoExpr], named: dict[str, IntoExpr]) -> list[tuple[str, Any]]:
        pairs = list(_expr.expand(exprs, self.columns))
        for name, item in named.items():
            pairs += [(name, node) for _, node in _expr.expand([item], self.columns)]
        return pairs

    def _aliased(self, exprs: Iterable[IntoExpr], named: dict[str, IntoExpr]) -> list[Any]:
        return [("alias", node, name) for name, node in self._nodes(exprs, named)]

    def select(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
        """Select columns and expressions; a string is a column's name.

        Aggregates alone make one row; beside other columns each is the same for every row.
        """
        nodes = self._aliased(exprs, named)
        return self._of(lambda: self._frame.select(nodes))

    def with_columns(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
        """Add columns, or replace those of the same name. An aggregate is over all rows."""
        pairs = self._nodes(exprs, named)
        return self._of(lambda: self._frame.with_columns(pairs))

    def drop(self, *names: str) -> DataFrame:
        """Leave columns out."""
        self._check(names)
        return self.select(*[name for name in self.columns if name not in names])

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
        frame = self
        for condition in every:
            if not isinstance(condition, Expr):
                raise TypeError(f"filter() takes expressions such as col('x') > 1, and not {condition!r}")
            nodes = [node for _, node in _expr.expand([condition], self.columns)]
            for node in nodes:
                inner = frame
                frame = inner._of(lambda inner=inner, node=node: inner._frame.filter(node))  # type: ignore[misc]
        return frame

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
        left, right = (_names(on), _names(on)) if on is not None else (_names(left_on), _names(right_on))
        if how == "cross" and (left or right):
            raise ValueError("a cross join has no keys")
        if how != "cross" and (not left or len(left) != len(right)):
            raise ValueError("join() needs on=, or as many columns in left_on= as in right_on=")
        return self._of(lambda: self._frame.join(other._frame, (left, right), how, suffix, coalesce))

    def union(self, other: DataFrame, *, by_name: bool = False, distinct: bool = False) -> DataFrame:
        """Add another frame's rows: columns by place, or by name, where missing ones are NULL."""
        return self._of(lambda: self._frame.union(other._frame, by_name, distinct))

    def sort(
        self,
        *by: IntoExpr,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | Sequence[bool] = False,
    ) -> DataFrame:
        """Sort the rows. NULLs come first unless ``nulls_last``, as in Polars and unlike in SQL."""
        nodes = [node for _, node in _expr.expand(by, self.columns)]
        descends = _each(descending, len(nodes), "descending")
        last = _each(nulls_last, len(nodes), "nulls_last")
        items = [(node, down, not late) for node, down, late in zip(nodes, descends, last)]
        return self._of(lambda: self._frame.sort(items))

    def limit(self, n: int = 5, offset: int = 0) -> DataFrame:
        """Keep so many rows after those of an offset; which ones these are, only ``sort`` says."""
        return self._of(lambda: self._frame.limit(offset, n))

    head = limit

    def distinct(self, *subset: str) -> DataFrame:
        """Keep one row of those that are alike, in all columns or in these; any one of them."""
        names = list(_expr.flat(subset)) or None
        return self._of(lambda: self._frame.distinct(names))

    def unique(self, subset: str | Sequence[str] | None = None) -> DataFrame:
        """Keep one row of those that are alike, in all columns or in these; any one of them."""
        return self.distinct(*(_names(subset) if subset is not None else ()))

    def explode(self, *columns: str) -> DataFrame:
        """Make a row of each element of lists. A NULL list is one row; an empty list is none."""
        names = list(_expr.flat(columns))
        return self._of(lambda: self._frame.explode(names))

    def drop_nulls(self, *subset: str) -> DataFrame:
        """Keep the rows that have no NULL, in any column or in these."""
        return self.filter(*[_expr.col(name).is_not_null() for name in _expr.flat(subset) or self.columns])

    def fill_null(self, value: Any) -> DataFrame:
        """Put a value in the place of NULL in every column."""
        return self.with_columns(*[_expr.col(name).fill_null(value) for name in self.columns])

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
        return self._of(lambda: self._frame.map_partitions(body, _values.schema(schema), shown))

    def to_backend(self, backend: str) -> DataFrame:
        """Run the frame's regions on the ``host``, on ``device``, on devices or not at all (``strict``), or
        wherever they are done first (``auto``)."""
        return self._of(lambda: self._frame.to_backend(backend))

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
                yield from pyarrow.table(rows).to_batches()

        return pyarrow.RecordBatchReader.from_batches(pyarrow.schema(batches.schema), pulled())

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

    def count(self) -> int:
        """Run the frame and count its rows."""
        return int(self.select(_expr.count_rows()).item())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
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


class GroupBy:
    """Groups of rows; ``agg`` makes a row of each."""

    __slots__ = ("_frame", "_groups")

    def __init__(self, frame: DataFrame, groups: list[Any]) -> None:
        self._frame = frame
        self._groups = groups

    def agg(self, *exprs: IntoExpr, **named: IntoExpr) -> DataFrame:
        """Make a row of each group: its values, then these aggregates. The rows have no order."""
        taken = {group[2] for group in self._groups}
        rest = [name for name in self._frame.columns if name not in taken]
        pairs = list(_expr.expand(exprs, rest))
        for name, item in named.items():
            pairs += [(name, node) for _, node in _expr.expand([item], rest)]
        nodes = [("alias", node, name) for name, node in pairs]
        return self._frame._of(lambda: self._frame._frame.aggregate(self._groups, nodes))

    def len(self) -> DataFrame:
        """Count the rows of each group."""
        return self.agg(_expr.count_rows())

    def _every(self, name: str) -> DataFrame:
        return self.agg(getattr(_expr.all_columns(), name)())

    def sum(self) -> DataFrame:
        """Sum every other column."""
        return self._every("sum")

    def mean(self) -> DataFrame:
        """Return the mean of every other column."""
        return self._every("mean")

    def min(self) -> DataFrame:
        """Return the least value of every other column."""
        return self._every("min")

    def max(self) -> DataFrame:
        """Return the greatest value of every other column."""
        return self._every("max")

    def count(self) -> DataFrame:
        """Count the values of every other column that are not NULL."""
        return self._every("count")


class Table(Fetched):
    """Rows in memory, which any library that reads Arrow takes: ``polars.DataFrame(table)``."""

    __slots__ = ("_left", "_rows")

    def __init__(self, rows: Any) -> None:
        self._rows: Rows = rows
        self._left: Iterator[tuple[Any, ...]] | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._rows.num_rows

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return self._rows.nbytes

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return self._rows.schema.names

    @property
    def schema(self) -> dict[str, str]:
        """The columns' names and types, as Arrow calls them."""
        return dict(zip(self._rows.schema.names, self._rows.schema.types))

    def __len__(self) -> int:
        return self._rows.num_rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._rows.schema.__arrow_c_schema__()

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Return the rows by the dataframe interchange protocol, which ``__arrow_c_stream__`` replaces: strings are
        copied, for it knows no views, and types that it has not are a ``NotImplementedError``."""
        pyarrow = arrow_library()
        table = self.to_arrow()
        views = {pyarrow.string_view(): pyarrow.large_string(), pyarrow.binary_view(): pyarrow.large_binary()}
        if any(field.type in views for field in table.schema):
            if not allow_copy:
                raise RuntimeError("strings are views here, which the interchange protocol knows only as copies")
            fields = [field.with_type(views.get(field.type, field.type)) for field in table.schema]
            table = table.cast(pyarrow.schema(fields))
        return table.__dataframe__(nan_as_null, allow_copy)

    def __repr__(self) -> str:
        return text_table(self._rows, _SHOWN_ROWS)

    def _repr_html_(self) -> str:
        return html_table(self._rows)

    def collect(self) -> Table:
        """Return the rows, which are in memory already."""
        return self

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row of those that no call has returned yet; ``None`` after the last."""
        if self._left is None:
            self._left = iter(self.rows())
        return next(self._left, None)


def arrow_library() -> Any:
    """Return the module pyarrow, or say what needs it."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pyarrow is not installed, by which rows become Python objects, Arrow tables and pandas frames: "
            "pip install pyarrow; polars.DataFrame(frame) and show() do without"
        ) from None
    return pyarrow


def unique(names: Sequence[str]) -> list[str]:
    """Number the names of columns that are there more than once: ``id``, ``id_1``."""
    taken, made = set(names), []
    for index, name in enumerate(names):
        number = 0
        while name in made or (number and name in taken):
            number += 1
            name = f"{names[index]}_{number}"
        made.append(name)
    return made


def html_table(rows: Rows) -> str:
    """Write the first rows as a table for notebooks."""
    cells = rows.cells(_SHOWN_ROWS, _SHOWN_CHARS)
    heads = zip(rows.schema.names, rows.schema.types)
    head = "".join(f"<th>{html.escape(name)}<br><small>{html.escape(of)}</small></th>" for name, of in heads)
    lines = ("".join(f"<td>{_html_cell(cell)}</td>" for cell in row) for row in cells)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = "" if rows.num_rows <= _SHOWN_ROWS else f"<p>the first {_SHOWN_ROWS} rows</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _html_cell(cell: str | None) -> str:
    return "<i>NULL</i>" if cell is None else html.escape(cell)


def text_table(rows: Rows, n: int) -> str:
    """Write the first rows as text."""
    names, cells = rows.schema.names, rows.cells(n, 60)
    lines = [names, rows.schema.types, *[["NULL" if cell is None else cell for cell in row] for row in cells]]
    widths = [max(len(line[index]) for line in lines) for index in range(len(names))]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    drawn.insert(2, "  ".join("-" * width for width in widths))
    drawn.append(f"({rows.num_rows} rows)" if rows.num_rows <= n else f"({rows.num_rows} rows, {n} shown)")
    return "\n".join(drawn)


def _names(given: str | Sequence[str] | None) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


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
