"""Data from outside: shared, not copied; found by the names of variables; of every Arrow type."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.interchange
import pytest

import tidegate as tg

a_global = pa.table({"x": [10, 20]})

COLUMNS = {
    "bool": pa.array([True, None, False]),
    **{f"int{bits}": pa.array([1, None, -3], getattr(pa, f"int{bits}")()) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": pa.array([1, None, 3], getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)},
    "float16": pa.array(np.array([1, 2, 3], dtype=np.float16)),
    "float32": pa.array([1.5, None, float("inf")], pa.float32()),
    "float64": pa.array([1.5, None, -0.0]),
    "decimal128": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-9.99")]),
    "decimal256": pa.array([decimal.Decimal(10) ** 50, None, decimal.Decimal(1)], pa.decimal256(60, 2)),
    "string": pa.array(["a", None, "ü€😀"]),
    "large_string": pa.array(["a", None, ""], pa.large_string()),
    "string_view": pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    "binary": pa.array([b"a", None, b"\x00"]),
    "large_binary": pa.array([b"a", None, b""], pa.large_binary()),
    "fixed_binary": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "date32": pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)]),
    "date64": pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)], pa.date64()),
    "time32": pa.array([dt.time(1, 2, 3), None, dt.time(0)], pa.time32("ms")),
    "time64": pa.array([dt.time(1, 2, 3, 4), None, dt.time(0)], pa.time64("us")),
    **{f"timestamp_{unit}": pa.array([1, None, -1], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "timestamp_zone": pa.array([1, None, -1], pa.timestamp("us", "Europe/Berlin")),
    "duration": pa.array([1, None, -1], pa.duration("us")),
    "interval": pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
    "list": pa.array([[1, None], None, []]),
    "large_list": pa.array([[1], None, []], pa.large_list(pa.int32())),
    "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("name", list(COLUMNS))
def test_every_arrow_type_comes_back(con, name):
    table = pa.table({name: COLUMNS[name], "row": [0, 1, 2]})
    back = con.from_arrow(table).sort("row").to_arrow()
    assert back.column(name).type == table.column(name).type
    assert back.column(name).to_pylist() == table.column(name).to_pylist()


def test_every_type_of_polars_comes_back(con):
    frame = pl.DataFrame(
        {
            "i": [1, None, 3],
            "u": pl.Series([1, 2, None], dtype=pl.UInt8),
            "f": [1.5, None, float("nan")],
            "s": ["a", None, "a string that is longer than a view"],
            "b": [b"x", None, b""],
            "t": [True, None, False],
            "d": [dt.date(2020, 1, 1), None, dt.date(1960, 1, 1)],
            "ts": [dt.datetime(2020, 1, 1, 2, 3, 4, 5), None, dt.datetime(1960, 1, 1)],
            "du": [dt.timedelta(microseconds=7), None, dt.timedelta(days=-1)],
            "tm": [dt.time(1, 2, 3), None, dt.time(4, 5, 6)],
            "l": [[1, 2], None, []],
            "st": [{"a": 1}, None, {"a": None}],
            "c": pl.Series(["x", None, "x"], dtype=pl.Categorical),
            "dec": [decimal.Decimal("1.20"), None, decimal.Decimal("3.00")],
        }
    )
    back = con.from_arrow(frame).to_polars()
    assert back.equals(frame.with_columns(c=pl.col("c").cast(back.schema["c"])), null_equal=True)


def test_frames_of_pandas_come_back(con):
    frame = pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [1.5, np.nan, -2.0],
            "s": ["a", None, "c"],
            "t": pd.to_datetime(["2020-01-01", None, "1960-05-06"]),
            "b": [True, False, True],
            "n": pd.array([1, None, 3], dtype="Int64"),
            "c": pd.Categorical(["x", "y", "x"]),
        }
    )
    back = con.from_arrow(frame).to_pandas()
    assert back["i"].tolist() == [1, 2, 3]
    assert back["s"].isna().tolist() == [False, True, False]
    assert back["t"].isna().tolist() == [False, True, False]
    assert back["c"].astype(str).tolist() == ["x", "y", "x"]


def address(array: pa.Array) -> int:
    return array.buffers()[-1].address


@pytest.mark.parametrize("rows", [1, 1000, 1_000_000])
def test_numbers_are_shared_and_not_copied(con, rows):
    table = pa.table({"x": np.arange(rows, dtype=np.int64), "y": np.ones(rows)})
    back = con.from_arrow(table).to_arrow()
    assert back.num_rows == rows
    for name in ("x", "y"):
        start = address(table.column(name).chunk(0))
        for chunk in back.column(name).chunks:
            at = chunk.buffers()[-1].address
            assert start <= at < start + 8 * rows
    own = con.from_arrow(pl.DataFrame({"x": np.arange(rows)})).collect()
    first, again = own.to_arrow().column("x"), con.from_arrow(own).to_arrow().column("x")
    assert list(map(address, first.chunks)) == list(map(address, again.chunks))


def test_rows_of_data_keep_their_order_while_they_are_selected(con):
    data = table = pa.table({"x": np.arange(1_000_000), "y": np.arange(1_000_000) % 7})
    assert con.from_arrow(table).to_arrow().column("x").equals(table.column("x"))
    chosen = con.sql("SELECT x * 2 AS d FROM data WHERE y = 3")
    expect = table.column("x").to_numpy()[table.column("y").to_numpy() == 3] * 2
    np.testing.assert_array_equal(chosen.to_numpy()["d"], expect)
    frame = con.from_arrow(data).filter(tg.col("y") == 3).select(d=tg.col("x") * 2).limit(1000)
    np.testing.assert_array_equal(frame.to_numpy()["d"], expect[:1000])


def test_data_stays_while_a_frame_needs_it(con):
    frame = con.from_arrow(pa.table({"x": np.arange(100_000)}))
    for _ in range(3):
        junk = [bytearray(800_000) for _ in range(20)]
        assert frame.select(tg.col("x").sum()).item() == 4999950000
        del junk


def test_sliced_and_chunked_data_keeps_its_rows(con):
    table = pa.concat_tables([pa.table({"x": [1, None, 3], "s": ["a", "b", None]})] * 3).slice(2, 5)
    assert con.from_arrow(table).to_arrow().to_pydict() == table.to_pydict()
    batch = table.to_batches()[0].slice(0, 1)
    assert con.from_arrow(batch).to_arrow().to_pydict() == batch.to_pydict()
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert con.from_arrow(reader).count() == 5
    assert con.from_arrow(table.slice(0, 0)).count() == 0


def test_variables_are_tables(con):
    local = pd.DataFrame({"x": [1, 2, 3]})
    assert con.sql("SELECT sum(x) AS s FROM local").item() == 6
    assert con.sql("SELECT sum(x) AS s FROM a_global").item() == 30
    lazy = con.sql("SELECT x + 1 AS x FROM local")
    assert con.sql("SELECT sum(x) AS s FROM lazy").item() == 9
    Mixed = pl.DataFrame({"x": [5]})
    assert con.sql("SELECT x FROM Mixed").item() == 5
    assert con.sql("SELECT count(*) AS n FROM local JOIN a_global ON local.x * 10 = a_global.x").item() == 2
    con.execute("CREATE OR REPLACE TABLE from_variable AS SELECT * FROM local")
    assert con.table("from_variable").count() == 3
    con.execute("DROP TABLE from_variable")
    local = pd.DataFrame({"x": [7]})
    assert con.sql("SELECT sum(x) AS s FROM local").item() == 7


def test_variables_come_after_tables_and_names(con):
    shadow = pa.table({"x": [1]})
    con.execute("CREATE OR REPLACE TABLE shadow AS SELECT 2 AS x")
    assert con.sql("SELECT x FROM shadow").item() == 2
    con.execute("DROP TABLE shadow")
    assert con.sql("SELECT x FROM shadow").item() == 1
    con.register("shadow", pa.table({"x": [3]}))
    assert con.sql("SELECT x FROM shadow").item() == 3
    with pytest.raises(tg.AlreadyExistsError):
        con.register("shadow", shadow)
    con.register("shadow", pa.table({"x": [4]}), replace=True)
    assert con.table("shadow").item() == 4
    assert con.unregister("shadow") and not con.unregister("shadow")
    assert con.sql("WITH shadow AS (SELECT 9 AS x) SELECT x FROM shadow").item() == 9


def test_variables_that_are_no_data_are_no_tables(con):
    number = 5
    columns = [{"x": 1}]
    with pytest.raises(tg.NotFoundError):
        con.sql("SELECT * FROM number")
    with pytest.raises(tg.SqlError, match="a dict of columns is one"):
        con.sql("SELECT * FROM columns")
    with pytest.raises(TypeError, match="from_dict"):
        con.from_arrow(columns)
    with pytest.raises(tg.Error, match="(?i)insert|not"):
        taken = pa.table({"x": [1]})
        con.sql("INSERT INTO taken VALUES (2)")
    assert number == 5 and taken.num_rows == 1


def test_one_column_is_no_table(con):
    for column in (pl.Series("v", [1, 2]), pa.array([1, 2]), pa.chunked_array([[1], [2]])):
        with pytest.raises(TypeError, match="from_dict"):
            con.from_arrow(column)
        with pytest.raises(TypeError, match="from_dict"):
            con.sql("SELECT * FROM column")
        assert con.from_dict({"v": column}).select(tg.col("v").sum()).item() == 3


def test_what_the_exporter_raises_is_raised(con):
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("on purpose")

    broken = Broken()
    with pytest.raises(RuntimeError, match="on purpose"):
        con.sql("SELECT * FROM broken")
    assert broken is not None


def test_another_connections_frame_is_refused(con):
    other = tg.connect(devices="")
    theirs = other.sql("SELECT 1 AS x")
    with pytest.raises(tg.SqlError, match="two connections"):
        con.sql("SELECT 1 AS x").union(theirs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_frames_are_interchanged(con):
    frame = con.from_dict({"n": [1, None, 3], "x": [0.5, 1.5, None], "s": ["a", None, "ü"]})
    for given in (frame.filter(tg.lit(True)), frame.collect()):
        found = pa.interchange.from_dataframe(given.__dataframe__()).to_pydict()
        assert found == {"n": [1, None, 3], "x": [0.5, 1.5, None], "s": ["a", None, "ü"]}
    with pytest.raises(RuntimeError, match="views"):
        frame.select(tg.col("s").cast("Utf8View")).__dataframe__(allow_copy=False)
    assert frame.select("n").__dataframe__(allow_copy=False).num_rows() == 3


def test_dicts_and_lazy_frames_are_tables(con):
    columns = {"x": [1, 2, 3], "y": ["a", "b", None]}
    assert con.sql("SELECT sum(x) FROM columns").item() == 6
    lazy = pl.LazyFrame({"x": [1, 2]}).with_columns(pl.col("x") * 2)
    assert con.sql("SELECT sum(x) FROM lazy").item() == 6
    array = np.arange(3)
    with pytest.raises(tg.SqlError, match="'array' is a ndarray"):
        con.sql("SELECT * FROM array")
    assert (len(columns), array.size, lazy.collect().height) == (2, 3, 2)


def test_the_module_reads_files(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    assert tg.read_csv(tmp_path / "x.csv").fetchall() == [(1, 2), (3, 4)]
    assert tg.from_dict({"x": [1]}).item() == 1
    mine = {"x": [5]}
    assert tg.execute("SELECT x FROM mine").fetchone() == (5,) and mine


def test_a_path_is_no_server():
    with pytest.raises(ValueError, match="no database files"):
        tg.connect("x.db")
    assert tg.connect(":memory:").sql("SELECT 1").item() == 1
