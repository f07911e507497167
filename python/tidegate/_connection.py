"""Connections: a session of this process, or of a server, behind one class."""

from __future__ import annotations

import difflib
import functools
import os
import re
import site
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, overload

from tidegate import _nodes, _tidegate, _values
from tidegate._delayed import Delayed, delayed
from tidegate._errors import AlreadyExistsError, Error, NotFoundError, SqlError
from tidegate._frame import ROW, DataFrame
from tidegate._functions import Udf
from tidegate._jobs import Future
from tidegate._table import Table, arrow_library

if TYPE_CHECKING:
    from tidegate._calls import CallFuture

#: What begins a statement that gives rows and changes nothing, for servers.
_QUERY = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*"
    r"(SELECT|WITH|VALUES|TABLE|FROM|EXPLAIN|SHOW|DESCRIBE|DESC|SUMMARIZE)\b",
    re.IGNORECASE | re.DOTALL,
)


class Connection:
    """A session: tables, settings and devices. Made by :func:`tidegate.connect`; threads may share it."""

    def __init__(self, session: _tidegate.Session) -> None:
        self._session = session
        self._functions: list[str] | None = None

    @property
    def url(self) -> str | None:
        """The server's URL; ``None`` for a session of this process."""
        return self._session.url

    def __repr__(self) -> str:
        return f"<tidegate.Connection {self.url or 'in this process'}>"

    # --- SQL ---

    def sql(
        self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None, *, _depth: int = 1
    ) -> DataFrame:
        """Plan a SQL statement. A query is a lazy frame; anything else runs at once, and its answer is the
        frame that is returned. Of several statements with semicolons between them, those before the last are
        run, and the last one's frame is returned.

        A table that there is not may be a variable of the caller: a frame of pandas, Polars or pyarrow, a dict of
        columns, or anything that exports Arrow batches. A lazy frame of Polars is collected.

        Args:
            text: the statement, or several.
            params: the values of ``?`` or ``$1``, ``$2``, … as a list, or of ``$name`` as a dict; of several
                statements they are the last one's.
        """
        if not isinstance(text, str):
            raise TypeError(f"sql() takes the text of a statement, and not a {type(text).__name__}")
        if ";" in text:
            *before, text = _tidegate.statements(text) or [text]
            for statement in before:
                self.sql(statement, _depth=_depth + 1).collect()
        tables = self._variables(text, _depth)
        is_query = _QUERY.match(text) is not None
        try:
            _, frame = self._session.plan(text, _values.parameters(params), tables, is_query)
        except NotFoundError as error:
            near = self._near_variables(text, _depth)
            if not near:
                raise
            raise _told_more(error, f"; {near}") from None
        return DataFrame(self, frame)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _nodes.missing(self, "a connection", name, "sql(…) runs any statement")

    def execute(self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Table:
        """Run a SQL statement, and keep its rows in memory: ``con.execute(text).fetchall()``. Of several, the
        rows are the last one's."""
        return self.sql(text, params, _depth=2).collect()

    def _variables(self, text: str, depth: int) -> dict[str, _tidegate.Frame]:
        """Make frames of the caller's variables that a statement names as tables."""
        if self.url is not None:
            return {}
        try:
            missing = self._session.missing_tables(text)
        except Error:
            # The plan says it better.
            return {}
        if not missing:
            return {}
        scopes = _scopes(sys._getframe(depth + 1))
        found: dict[str, _tidegate.Frame] = {}
        for name in missing:
            value = _lookup(name, scopes)
            if value is None:
                continue
            if isinstance(value, DataFrame):
                found[name] = value._frame
            elif _exports(value):
                found[name] = self._import(value)
            elif _is_lazy(value):
                found[name] = self._import(value.collect())
            elif isinstance(value, Mapping) and value:
                found[name] = self.from_dict(value)._frame
            else:
                _refuse(name, value)
        return found

    def _near_variables(self, text: str, depth: int) -> str:
        """Say which variables of the caller that are data have names like those of tables that there are not."""
        if self.url is not None:
            return ""
        scopes = _scopes(sys._getframe(depth + 1))
        known = [
            name
            for scope in scopes
            for name, value in scope.items()
            if not name.startswith("_") and (isinstance(value, DataFrame) or _exports(value))
        ]
        near = [
            name
            for missing in self._session.missing_tables(text)
            if _lookup(missing, scopes) is None
            for name in difflib.get_close_matches(missing, known, n=3)
        ]
        return f"the variables {', '.join(dict.fromkeys(near))} have a like name" if near else ""

    def table(self, name: str) -> DataFrame:
        """Return a table of the session as a frame."""
        parts = ".".join(_values.quoted(part) for part in name.split("."))
        return self.sql(f"SELECT * FROM {parts}", _depth=2)

    def tables(self) -> list[str]:
        """List the tables of the session, without those of the system."""
        rows = self.sql(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema NOT IN ('information_schema', 'system') ORDER BY 1, 2"
        ).collect()
        names = rows._rows.cells(rows.num_rows, 1000)
        return [str(name) if schema == "public" else f"{schema}.{name}" for schema, name in names]

    # --- data ---

    def from_arrow(self, data: Any) -> DataFrame:
        """Make a frame of anything that exports Arrow batches; buffers are shared, not copied.

        Args:
            data: a pyarrow Table, RecordBatch or reader, a frame of Polars or pandas, a DuckDB relation, or
                anything else with ``__arrow_c_stream__`` or ``__arrow_c_array__``. A lazy frame of Polars is collected.
        """
        frame = DataFrame(self, self._import(_batches(data)))
        if isinstance(data, DataFrame) and data._numbering is None:
            return frame
        return DataFrame(self, frame._frame, functools.cache(lambda: self._numbered(frame)))

    def _numbered(self, frame: DataFrame) -> DataFrame:
        """Add a column that numbers the rows of data in memory."""
        table, pyarrow = frame.to_arrow(), arrow_library()
        from pyarrow import compute

        numbers = compute.cumulative_sum(pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), table.num_rows))
        return DataFrame(self, self._import(table.append_column(ROW, numbers)))

    def _import(self, data: Any) -> _tidegate.Frame:
        try:
            return self._session.from_arrow(data)
        except ValueError as error:
            names = [str(name) for name in getattr(data, "columns", ())]
            twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
            if twice is not None:
                raise SqlError(
                    f"the {type(data).__name__} has several columns {twice!r}, which its library does not export: "
                    "rename them"
                ) from error
            raise TypeError(
                f"an object of the type {type(data).__name__!r} exports no batches of columns ({error}): if it is one "
                "column, con.from_dict({'name': column}) makes a frame of it"
            ) from error

    from_pandas = from_arrow
    from_polars = from_arrow

    def from_dict(self, columns: Mapping[str, Any]) -> DataFrame:
        """Make a frame of columns: lists, NumPy arrays or Arrow arrays by their names."""
        return self.from_arrow(arrow_library().table(dict(columns)))

    def register(self, name: str, data: Any, *, replace: bool = False) -> None:
        """Give data a name, under which SQL finds it before any variable.

        Args:
            data: a lazy frame, or anything that :meth:`from_arrow` takes.
            replace: whether a table of that name makes room.
        """
        frame = data if isinstance(data, DataFrame) else self.from_arrow(data)
        try:
            self._session.register(name, frame._frame, replace)
        except SqlError as error:
            if "already exists" in str(error):
                raise AlreadyExistsError(f"table {name!r} already exists: pass replace=True") from None
            raise

    def unregister(self, name: str) -> bool:
        """Take a table's name away; returns whether there was one."""
        return self._session.unregister(name)

    def _read(self, function: str, paths: Any, options: dict[str, Any]) -> DataFrame:
        many = [os.fspath(path) for path in paths] if isinstance(paths, (list, tuple)) else os.fspath(paths)
        given = [_values.sql_literal(many)]
        given += [f"{name} => {_values.sql_literal(value)}" for name, value in options.items()]
        return self.sql(f"SELECT * FROM {function}({', '.join(given)})", _depth=2)

    def read_parquet(self, paths: Any, **options: Any) -> DataFrame:
        """Read Parquet: a file, a folder, a glob, a URL, or a list of them.

        Options are those of ``read_parquet`` in SQL, by name.
        """
        return self._read("read_parquet", paths, options)

    def read_csv(self, paths: Any, **options: Any) -> DataFrame:
        """Read delimited text: a file, a folder, a glob, a URL, or a list of them. What the files are like is
        found out.

        Options are those of ``read_csv`` in SQL, by name: ``delim=";"``, ``header=False``, …
        """
        return self._read("read_csv", paths, options)

    def read_json(self, paths: Any, **options: Any) -> DataFrame:
        """Read JSON: an array of objects, or one on each line. Options are those of ``read_json`` in SQL."""
        return self._read("read_json", paths, options)

    # --- the session ---

    def set(self, name: str, value: Any) -> None:
        """Set a setting, as ``SET name = value`` does."""
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        self.sql(f"SET {name} = {_values.sql_literal(shown)}", _depth=2)

    def cache(self, table: str, columns: Sequence[str] = (), on: str = "device") -> DataFrame:
        """Bring a table's columns to a ``device`` or to ``host`` memory, to stay there.

        Args:
            table: the table's name.
            columns: its columns; all if there are none.
        """
        if on not in ("device", "host"):
            raise ValueError(f"on={on!r}: it is 'device' or 'host'")
        name = ".".join(_values.quoted(part) for part in table.split("."))
        listed = ", ".join(_values.quoted(column) for column in columns)
        return self.sql(f"CACHE TABLE {name}{f' ({listed})' if listed else ''} ON {on.upper()}", _depth=2)

    def uncache(self, table: str) -> DataFrame:
        """Undo :meth:`cache`."""
        name = ".".join(_values.quoted(part) for part in table.split("."))
        return self.sql(f"UNCACHE TABLE {name}", _depth=2)

    def last_report(self) -> Report | None:
        """Report the query that ended last in this process: what ran where, and why."""
        told = self._session.last_report()
        return None if told is None else Report(told)

    def devices(self) -> dict[str, str]:
        """List the devices that statements may run on: names and descriptions."""
        return dict(self._session.devices())

    def functions(self) -> list[str]:
        """List the names of the engine's functions, for SQL and for :data:`tidegate.fn`."""
        return self._session.functions()

    def create_function(self, name: str, function: Any, returns: Any = None) -> Udf:
        """Give a Python function over batches a name in SQL.

        Args:
            function: one made by :func:`tidegate.udf`, or a callable if ``returns`` is given.
            returns: the type of its values.
        """
        if not isinstance(function, Udf):
            if returns is None:
                raise TypeError("create_function() needs returns=, or a function made by @tidegate.udf")
            function = Udf(function, returns)
        named: Udf = function.named(name)
        self._session.register_function(named._function)
        return named

    @overload
    def submit(self, work: DataFrame | str) -> Future: ...

    @overload
    def submit(self, work: Delayed) -> CallFuture: ...

    @overload
    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> CallFuture: ...

    def submit(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        """Start something, and return at once with a future.

        Args:
            work: a frame or a statement's text, for a future of its rows; or a function, for a future of what it
                returns, which is called as a task of the session: ``con.submit(f, 1, x=2)``. A delayed call brings what
                calls take of ``slots``, ``memory``, ``retries`` and ``priority``.
            args: what a function is called with. Futures among them are waited for, and their values passed.
            kwargs: the same, by name.
        """
        if isinstance(work, Delayed):
            call = work
        elif callable(work) and not isinstance(work, DataFrame):
            call = delayed(work)(*args, **kwargs)
            args, kwargs = (), {}
        else:
            call = None
        if args or kwargs:
            raise TypeError("submit() takes arguments for a function alone")
        if call is None and not isinstance(work, (DataFrame, str)):
            raise TypeError(
                f"submit() takes a frame, a statement's text or a function, and not a {type(work).__name__}"
            )
        if call is not None:
            from tidegate._calls import submitted

            return submitted(call, self)
        frame = self.sql(work, _depth=2) if isinstance(work, str) else work
        return Future(frame._named(frame._frame.start))

    def close(self) -> None:
        """End the session on its server. One of this process ends with its last reference."""
        self._session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Report(Mapping[str, Any]):
    """What is known of a query that ended; printing it says what ran where."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def __getitem__(self, name: str) -> Any:
        return self._told[name]

    def __iter__(self) -> Any:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)

    def __repr__(self) -> str:
        return str(self._told["placement"]).rstrip()


def connect(
    url: str | None = None,
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    ca: str | os.PathLike[str] | bytes | None = None,
    **options: Any,
) -> Connection:
    """Make a session of this process, or log in to a server.

    Args:
        url: ``grpc+tls://host:port``, or ``grpc://host:port`` without TLS; ``None`` for this process.
        user: the user's name on the server.
        password: the user's password.
        token: a token that a login gave, or one of an identity provider, instead of a name and a password.
        ca: certificates in PEM, or their file, that may sign the server's.
        options: of a session of this process: ``memory_limit``, ``device_memory_limit`` and ``temp_limit`` in
            bytes, or as texts such as ``"4GB"``, whose units are powers of 1024; ``temp_dir``; ``threads``; ``devices``, written as in ``CUDA_VISIBLE_DEVICES`` (``""`` for
            none); ``simulate_device``; ``task_slots``, what calls of ``delayed`` take of, a number by name;
            ``stores``, options of object stores as triples of a place (``""`` for all), an option and its value:
            ``("s3://bucket", "aws.region", "eu-central-1")``.

    Environment variables of object stores (``AWS_…``, ``AZURE_…``, ``GOOGLE_…``) count for sessions of this process,
    as they do for the command; ``stores`` goes before.
    """
    if url == ":memory:":
        url = None
    if url is not None:
        if "://" not in url:
            raise ValueError(
                f"{url!r} is no server's URL, such as grpc://host:port. There are no database files: tables are in "
                "memory, and sql(\"SELECT … FROM 'file.parquet'\") reads files where they are"
            )
        if options:
            raise TypeError(f"options of a session of this process: {', '.join(options)}")
        pem = ca if ca is None or isinstance(ca, bytes) else Path(ca).read_bytes()
        return Connection(_tidegate.Session.remote(url, user, password, token, pem))
    if any(item is not None for item in (user, password, token, ca)):
        raise TypeError("user, password, token and ca are for servers: name the server's url")
    return Connection(_tidegate.Session.local(_local(options)))


def _local(options: dict[str, Any]) -> dict[str, Any]:
    given = dict(options)
    for name in ("memory_limit", "device_memory_limit", "temp_limit"):
        if name in given:
            given[name] = _bytes(name, given[name])
    threads = given.get("threads", 1)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"connect(threads={threads!r}): it is a number of threads, 1 or more")
    if "devices" in given:
        given["visible_devices"] = given.pop("devices")
    if isinstance(given.get("simulate_device"), str):
        given["simulate_device"] = [given["simulate_device"]]
    if "temp_dir" in given:
        given["temp_dir"] = os.fspath(given["temp_dir"])
    clouds = ("AWS_", "AZURE_", "GOOGLE_")
    variables = [(name, value) for name, value in os.environ.items() if name.startswith(clouds) and value]
    given["stores"] = (variables, list(given.get("stores", ())))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tidegate"
    given.setdefault("kernel_folder", cache / "kernels")
    given.setdefault("rates_folder", cache / "rates")
    folders = {*site.getsitepackages(), *(path for path in sys.path if path.endswith("-packages"))}
    given.setdefault("site_packages", sorted(folders))
    return given


def _bytes(name: str, size: Any) -> int:
    """Read a size in bytes as the command does: a number, or a text with a unit."""
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", size.lower())
        if found is not None:
            return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " "))
    elif isinstance(size, (int, float)) and not isinstance(size, bool) and size >= 0 and size == int(size):
        return int(size)
    raise ValueError(f"connect({name}={size!r}): it is a number of bytes, or a text such as '4GB' or '512MiB'")


def _told_more(error: Error, more: str) -> Error:
    """Make the same error with more in its message."""
    told = type(error)(f"{error}{more}")
    told.help, told.place = error.help, error.place
    return told


def _scopes(frame: FrameType | None) -> list[Mapping[str, Any]]:
    return [] if frame is None else [frame.f_locals, frame.f_globals]


def _lookup(name: str, scopes: list[Mapping[str, Any]]) -> Any:
    for scope in scopes:
        if name in scope:
            return scope[name]
    # SQL folds names to lower case unless they are quoted.
    folded = {key.lower(): key for scope in reversed(scopes) for key in scope if isinstance(key, str)}
    if name == name.lower() and name in folded:
        return _lookup(folded[name], scopes)
    return None


def _exports(value: Any) -> bool:
    return not isinstance(value, type) and (
        hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    )


def _is_lazy(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "polars" and type(value).__name__ == "LazyFrame"


def _refuse(name: str, value: Any) -> None:
    """Say why a variable that looks like data is no table; others are no tables of course."""
    if isinstance(value, (dict, list)) or type(value).__module__.split(".")[0] == "numpy":
        raise SqlError(
            f"the variable {name!r} is a {type(value).__name__}, which is no table: a dict of columns is one, "
            "{'x': values}"
        )


def _batches(data: Any) -> Any:
    if isinstance(data, DataFrame):
        return data
    if _exports(data):
        return data
    if _is_lazy(data):
        return data.collect()
    raise TypeError(
        f"an object of the type {type(data).__name__!r} exports no Arrow batches (__arrow_c_stream__): "
        "con.from_dict(...) makes a frame of columns by name"
    )
