"""Parquet files as different writers make them: the host engine reads each as DataFusion's reader does, and as the
writer's own rows are.

A file is asked several queries with the host engine and without it; a table in memory with the same rows is the third
answer. Values are compared exactly.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tidegate as tg

ROWS = 6_000
#: Shares of NULL: none, some, most, all.
NULLS = {"none": 0.0, "some": 0.2, "most": 0.9, "all": 1.0}
EDGES = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint8(): (0, 2**8 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.uint64(): (0, 2**64 - 1),
}


def column(rng: random.Random, rows: int, nulls: float, value: Callable[[], Any], kind: pa.DataType) -> pa.Array:
    """Draws the values of a column. NULLs come one by one and in runs."""
    values: list[Any] = []
    while len(values) < rows:
        run = rng.choice([1, 1, 1, 5, 200])
        is_null = rng.random() < nulls
        values.extend(None if is_null else value() for _ in range(run))
    return pa.array(values[:rows], kind)


def rows_of(rows: int, nulls: float, seed: int) -> pa.Table:
    """Makes a table with a column of each type that files have."""
    rng = random.Random(seed)
    epoch = datetime.datetime(1970, 1, 1)

    def integer(low: int, high: int) -> Callable[[], int]:
        return lambda: rng.choice([low, high]) if rng.random() < 0.01 else rng.randrange(0, 100)

    def instant(step: str) -> Callable[[], datetime.datetime]:
        return lambda: epoch + datetime.timedelta(**{step: rng.randrange(-(10**9), 10**9)})

    def digits(places: int, scale: int) -> Callable[[], decimal.Decimal]:
        return lambda: decimal.Decimal(rng.randrange(-(10**places) + 1, 10**places)).scaleb(-scale)

    def text(count: int, form: str) -> Callable[[], str]:
        return lambda: form.format(rng.randrange(count))

    floats = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, 1.5]

    def double() -> float:
        return rng.choice(floats) if rng.random() < 0.1 else rng.uniform(-1e6, 1e6)

    kinds: list[tuple[str, Callable[[], Any], pa.DataType]] = [
        (str(kind), integer(*edges), kind) for kind, edges in EDGES.items()
    ]
    kinds += [
        ("float", double, pa.float32()),
        ("double", double, pa.float64()),
        ("cents", lambda: rng.randrange(0, 5_000) / 100, pa.float64()),
        ("bool", lambda: rng.random() < 0.3, pa.bool_()),
        ("day", lambda: datetime.date(1970, 1, 1) + datetime.timedelta(rng.randrange(-9_000, 20_000)), pa.date32()),
        ("millis", instant("seconds"), pa.timestamp("ms")),
        ("micros", instant("milliseconds"), pa.timestamp("us")),
        ("dec9", digits(9, 2), pa.decimal128(9, 2)),
        ("dec18", digits(18, 4), pa.decimal128(18, 4)),
        ("dec30", digits(30, 5), pa.decimal128(30, 5)),
        ("few", text(5, "k{}"), pa.string()),
        ("many", text(4_000, "id{:010d}"), pa.string()),
        ("long", text(4_000, "a text beyond the twelve bytes of a view, number {}"), pa.string()),
        ("odd", lambda: rng.choice(["", "ä", "\n", "x" * 300]), pa.string()),
    ]
    columns = {"id": pa.array(range(rows), pa.int64())}
    columns |= {name: column(rng, rows, nulls, value, kind) for name, value, kind in kinds}
    return pa.table(columns)


def by_pyarrow(**options: Any) -> Callable[[pa.Table, Path], None]:
    """Returns a writer with pyarrow's options."""
    return lambda table, path: pq.write_table(table, path, **options)


def by_polars(**options: Any) -> Callable[[pa.Table, Path], None]:
    """Returns a writer with Polars' options."""

    def write(table: pa.Table, path: Path) -> None:
        frame = polars.from_arrow(table)
        assert isinstance(frame, polars.DataFrame)
        frame.write_parquet(path, **options)

    return write


def by_duckdb(options: str) -> Callable[[pa.Table, Path], None]:
    """Returns a writer with the options of DuckDB's COPY."""

    def write(table: pa.Table, path: Path) -> None:
        with duckdb.connect() as connection:
            connection.register("rows", table)
            connection.execute(f"COPY rows TO '{path}' (FORMAT parquet, {options})")

    return write


ENCODINGS: dict[str, dict[str, str]] = {
    "delta": {
        **{str(kind): "DELTA_BINARY_PACKED" for kind in EDGES},
        "id": "DELTA_BINARY_PACKED",
        "few": "DELTA_BYTE_ARRAY",
        "many": "DELTA_BYTE_ARRAY",
        "long": "DELTA_LENGTH_BYTE_ARRAY",
        "odd": "DELTA_LENGTH_BYTE_ARRAY",
    },
    "split": {
        "float": "BYTE_STREAM_SPLIT",
        "double": "BYTE_STREAM_SPLIT",
        "int32": "BYTE_STREAM_SPLIT",
        "int64": "BYTE_STREAM_SPLIT",
        "bool": "RLE",
    },
}

WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    **{
        f"pyarrow {codec} pages {version}": by_pyarrow(compression=codec, data_page_version=version)
        for codec, version in itertools.product(["none", "snappy", "gzip", "zstd", "lz4", "brotli"], ["1.0", "2.0"])
    },
    **{
        f"pyarrow {name} pages {version}": by_pyarrow(
            use_dictionary=False, column_encoding=encodings, data_page_version=version
        )
        for (name, encodings), version in itertools.product(ENCODINGS.items(), ["1.0", "2.0"])
    },
    "pyarrow as Spark writes": by_pyarrow(
        version="1.0", data_page_version="1.0", use_deprecated_int96_timestamps=True, compression="snappy"
    ),
    "pyarrow plain": by_pyarrow(use_dictionary=False),
    "pyarrow small dictionaries": by_pyarrow(dictionary_pagesize_limit=256),
    "pyarrow small pages": by_pyarrow(data_page_size=64, write_batch_size=16),
    "pyarrow tiny row groups": by_pyarrow(row_group_size=37),
    "pyarrow without statistics": by_pyarrow(write_statistics=False),
    "pyarrow page index": by_pyarrow(write_page_index=True, data_page_size=512, write_batch_size=64),
    "pyarrow checksums": by_pyarrow(write_page_checksum=True),
    "pyarrow decimals as integers": by_pyarrow(store_decimal_as_integer=True),
    **{
        f"polars {codec}": by_polars(compression=codec)
        for codec in ("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli")
    },
    "polars tiny row groups": by_polars(row_group_size=53),
    "polars small pages": by_polars(data_page_size=128, statistics="full"),
    **{
        f"duckdb {codec} {version}": by_duckdb(f"COMPRESSION {codec}, PARQUET_VERSION {version}")
        for codec, version in itertools.product(["uncompressed", "snappy", "gzip", "zstd", "lz4_raw"], ["v1", "v2"])
    },
    "duckdb small row groups": by_duckdb("ROW_GROUP_SIZE 2048, PARQUET_VERSION v2"),
}


def queries(table: pa.Table) -> list[str]:
    """Returns what a table is asked: every column is read, grouped by, filtered and selected."""
    names = [f'"{name}"' for name in table.column_names]
    aggregates = ", ".join(f"count({name}), min({name}), max({name})" for name in names[1:])
    asked = [
        f"SELECT count(*), sum(id), {aggregates} FROM rows",
        f"SELECT {', '.join(names)} FROM rows WHERE id % 5 = 2",
        'SELECT id, "many", "double", "dec30" FROM rows WHERE "few" = \'k3\' AND "int32" > 40',
        'SELECT "few", "bool", count(*), sum(id), sum("dec18"), min("long"), max("micros") FROM rows GROUP BY 1, 2',
    ]
    asked += [f"SELECT {name}, count(*), sum(id) FROM rows GROUP BY 1" for name in ('"many"', '"int64"', '"double"')]
    return asked


def answer(connection: tg.Connection, query: str) -> list[str]:
    """Returns the rows of an answer as text, in an order of their own."""
    table = connection.sql(query).to_arrow()
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


@pytest.fixture(scope="module")
def engines() -> dict[str, tg.Connection]:
    """A session that reads pages itself, and one with DataFusion's reader and operators."""
    sessions = {name: tg.connect(devices="", threads=2) for name in ("auto", "off")}
    for name, session in sessions.items():
        session.execute(f"SET tidegate.host_engine = '{name}'")
    return sessions


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("nulls", NULLS)
def test_files_are_read_as_they_were_written(
    engines: dict[str, tg.Connection], writer: str, nulls: str, tmp_path: Path
) -> None:
    table = rows_of(ROWS if nulls == "some" else 700, NULLS[nulls], seed=sum(map(ord, writer)))
    path = tmp_path / "rows.parquet"
    WRITERS[writer](table, path)
    # What a type becomes in a file is the writer's choice.
    engines["off"].register("rows", pq.read_table(path), replace=True)
    for query in queries(table):
        of_file = query.replace("FROM rows", f"FROM '{path}'")
        expected = answer(engines["off"], of_file)
        assert answer(engines["auto"], of_file) == expected, query
        assert answer(engines["off"], query) == expected, query


@pytest.mark.parametrize("rows", [0, 1, 2_047, 2_048, 2_049])
def test_files_of_few_rows(engines: dict[str, tg.Connection], rows: int, tmp_path: Path) -> None:
    table = rows_of(rows, 0.1, seed=rows)
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    for query in queries(table):
        of_file = query.replace("FROM rows", f"FROM '{path}'")
        assert answer(engines["auto"], of_file) == answer(engines["off"], of_file), query


def test_pages_are_what_is_read(engines: dict[str, tg.Connection], tmp_path: Path) -> None:
    """The host engine has the files of all writers but for types that it does not read."""
    table = rows_of(ROWS, 0.2, seed=1)
    path = tmp_path / "rows.parquet"
    query = f"EXPLAIN ANALYZE SELECT \"few\", sum(id), max(\"int64\") FROM '{path}' GROUP BY 1"
    for writer, write in WRITERS.items():
        write(table, path)
        text = str(engines["auto"].sql(query).to_arrow().to_pylist())
        assert "HostFoldExec" in text or "HostGroupsExec" in text, f"{writer}: {text}"
        assert "not_as_pages" not in text, f"{writer}: {text}"
