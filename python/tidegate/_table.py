"""Rows in memory, and the forms in which they leave."""

from __future__ import annotations

import html
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _nodes

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

    from tidegate._tidegate import Rows, Schema

#: Rows and characters of a value that a notebook is shown.
SHOWN_ROWS = 20
_SHOWN_CHARS = 200
#: Where pandas keeps what columns were in it.
_PANDAS = b"pandas"


class Fetched:
    """Rows as Python objects, by the names of Polars, DuckDB and the DB-API."""

    __slots__ = ()

    def collect(self) -> Table:
        raise NotImplementedError

    def to_arrow(self) -> pyarrow.Table:
        """Return a ``pyarrow.Table``; buffers are not copied."""
        table = arrow_library().table(self.collect())
        return table.replace_schema_metadata(described(table.schema).metadata)

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
        """Return a pandas frame; options are those of ``pyarrow.Table.to_pandas``.

        A column that came from pandas and is still of its type has the type that it had there, such as ``Int64`` with
        ``NA``. Of an index those labels are kept that are a column; one that only counted rows counts anew.
        """
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

    def fetchnumpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """Return a NumPy array for each column, as :meth:`to_numpy` does."""
        return self.to_numpy()

    def df(self) -> pandas.DataFrame:
        """Return a pandas frame."""
        return self.to_pandas()

    fetchdf = df
    fetch_df = df

    def pl(self) -> polars.DataFrame:
        """Return a Polars frame."""
        return self.to_polars()

    def arrow(self) -> pyarrow.Table:
        """Return a ``pyarrow.Table``."""
        return self.to_arrow()

    fetch_arrow_table = arrow


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
        if came_from_pandas(self._rows.schema):
            table = arrow_library().table(self._rows)
            table = table.replace_schema_metadata(described(table.schema).metadata)
            stream: object = table.__arrow_c_stream__(requested_schema)
            return stream
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
        return text_table(self._rows, SHOWN_ROWS)

    def _repr_html_(self) -> str:
        return html_table(self._rows)

    def collect(self) -> Table:
        """Return the rows, which are in memory already."""
        return self

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row of those that no call has returned yet; ``None`` after the last."""
        return next(self._unread(), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return the next rows of those that no call has returned yet, so many at the most."""
        return list(itertools.islice(self._unread(), size))

    def _unread(self) -> Iterator[tuple[Any, ...]]:
        if self._left is None:
            self._left = iter(self.rows())
        return self._left

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """The columns as the DB-API describes them: names and types, and nothing else."""
        return [(name, of, None, None, None, None, None) for name, of in self.schema.items()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        way = "to_polars(), to_pandas() and to_arrow() give frames that have more"
        raise _nodes.missing(self, "a table of rows", name, way)


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


def came_from_pandas(schema: Schema) -> bool:
    """Tell whether a schema says what its columns were in pandas. Only pyarrow writes that down."""
    return "pyarrow" in sys.modules and _PANDAS in (arrow_library().schema(schema).metadata or {})


def described(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Take away what a schema says of pandas, but for columns that are still of the type that they had there."""
    given = dict(schema.metadata or {})
    if _PANDAS not in given:
        return schema
    from pyarrow.pandas_compat import get_logical_type

    told = json.loads(given.pop(_PANDAS))
    types = {field.name: get_logical_type(field.type) for field in schema}
    told["columns"] = [
        column for column in told.get("columns", ()) if types.get(column["field_name"]) == column["pandas_type"]
    ]
    kept = {column["field_name"] for column in told["columns"]}
    told["index_columns"] = [name for name in told.get("index_columns", ()) if isinstance(name, str) and name in kept]
    if told["columns"]:
        given[_PANDAS] = json.dumps(told).encode()
    return schema.with_metadata(given)


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
    cells = rows.cells(SHOWN_ROWS, _SHOWN_CHARS)
    heads = zip(rows.schema.names, rows.schema.types)
    head = "".join(f"<th>{html.escape(name)}<br><small>{html.escape(of)}</small></th>" for name, of in heads)
    lines = ("".join(f"<td>{_html_cell(cell)}</td>" for cell in row) for row in cells)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = "" if rows.num_rows <= SHOWN_ROWS else f"<p>the first {SHOWN_ROWS} rows</p>"
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
