"""SQL, lazy frames and chunked arrays over Arrow data, on the host and on GPUs.

    >>> import tidegate as tg
    >>> con = tg.connect()
    >>> con.sql("SELECT 40 + 2 AS answer").item()
    42
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _nodes, _tidegate
from tidegate._connection import Connection, Report, connect
from tidegate._delayed import Delayed, delayed
from tidegate._errors import (
    AlreadyExistsError,
    CancelledError,
    ConflictError,
    DeniedError,
    DeviceError,
    Error,
    InternalError,
    IoError,
    LostError,
    NotFoundError,
    NotSupportedError,
    ResourcesExhaustedError,
    SqlError,
    TimedOutError,
)
from tidegate._expr import Expr, col, fn, lit, when
from tidegate._expr import all_columns as all
from tidegate._expr import count_rows as len
from tidegate._frame import DataFrame
from tidegate._functions import Udf, udf
from tidegate._groups import GroupBy
from tidegate._jobs import Future
from tidegate._options import options
from tidegate._shorthand import (
    all_horizontal,
    any_horizontal,
    coalesce,
    concat_str,
    count,
    exclude,
    first,
    implode,
    last,
    max,
    max_horizontal,
    mean,
    mean_horizontal,
    median,
    min,
    min_horizontal,
    n_unique,
    std,
    struct,
    sum,
    sum_horizontal,
    var,
)
from tidegate._table import Table
from tidegate._types import (
    Binary,
    Boolean,
    Categorical,
    DataType,
    Date,
    Datetime,
    Decimal,
    Duration,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    List,
    Null,
    String,
    Time,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
)

if TYPE_CHECKING:
    from tidegate._calls import CallFuture

__version__ = _tidegate.__version__

__all__ = [
    "AlreadyExistsError",
    "Binary",
    "Boolean",
    "CallFuture",
    "CancelledError",
    "Categorical",
    "ConflictError",
    "Connection",
    "DataFrame",
    "DataType",
    "Date",
    "Datetime",
    "Decimal",
    "Delayed",
    "DeniedError",
    "DeviceError",
    "Duration",
    "Error",
    "Expr",
    "Float32",
    "Float64",
    "Future",
    "GroupBy",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "InternalError",
    "IoError",
    "List",
    "LostError",
    "NotFoundError",
    "NotSupportedError",
    "Null",
    "Report",
    "ResourcesExhaustedError",
    "SqlError",
    "String",
    "Table",
    "Time",
    "TimedOutError",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt8",
    "Udf",
    "all",
    "all_horizontal",
    "any_horizontal",
    "coalesce",
    "col",
    "concat_str",
    "connect",
    "count",
    "default_connection",
    "delayed",
    "exclude",
    "execute",
    "first",
    "fn",
    "from_arrow",
    "from_dict",
    "implode",
    "last",
    "len",
    "lit",
    "load_ipython_extension",
    "max",
    "max_horizontal",
    "mean",
    "mean_horizontal",
    "median",
    "min",
    "min_horizontal",
    "n_unique",
    "options",
    "read_csv",
    "read_json",
    "read_parquet",
    "sql",
    "std",
    "struct",
    "sum",
    "sum_horizontal",
    "udf",
    "var",
    "when",
]

_default: Connection | None = None


def __getattr__(name: str) -> Any:
    # What takes long to import waits until somebody wants it.
    if name == "CallFuture":
        from tidegate._calls import CallFuture

        return CallFuture
    if name.startswith("_"):
        raise AttributeError(name)
    near = _nodes.suggestion(name, __all__)
    raise AttributeError(
        f"module 'tidegate' has no attribute {name!r}{near or ': tg.fn has the functions of SQL, and tidegate.array arrays'}"
    )


def default_connection() -> Connection:
    """Return the session of this process that is used where none is named; it is made on first use."""
    global _default
    if _default is None:
        _default = connect()
    return _default


def sql(text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> DataFrame:
    """Plan one SQL statement in the default connection, as ``Connection.sql`` does."""
    return default_connection().sql(text, params, _depth=2)


def execute(text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Table:
    """Run one SQL statement in the default connection, and keep its rows in memory."""
    return default_connection().sql(text, params, _depth=2).collect()


def read_parquet(paths: Any, **options: Any) -> DataFrame:
    """Read Parquet in the default connection, as ``Connection.read_parquet`` does."""
    return default_connection().read_parquet(paths, **options)


def read_csv(paths: Any, **options: Any) -> DataFrame:
    """Read delimited text in the default connection, as ``Connection.read_csv`` does."""
    return default_connection().read_csv(paths, **options)


def read_json(paths: Any, **options: Any) -> DataFrame:
    """Read JSON in the default connection, as ``Connection.read_json`` does."""
    return default_connection().read_json(paths, **options)


def from_arrow(data: Any) -> DataFrame:
    """Make a frame in the default connection of anything that exports Arrow batches, without a copy."""
    return default_connection().from_arrow(data)


def from_dict(columns: Mapping[str, Any]) -> DataFrame:
    """Make a frame in the default connection of columns: lists or arrays by their names."""
    return default_connection().from_dict(columns)


def load_ipython_extension(shell: Any) -> None:
    """Add the magics ``%sql`` and ``%%sql`` to IPython, as ``%load_ext tidegate`` does."""
    from tidegate._magic import load

    load(shell)
