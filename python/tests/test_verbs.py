"""Steps of frames beside Polars', what is refused and how, and what comes back to pandas."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import col, lit

FRAME = pl.DataFrame(
    {
        "k": ["a", "b", "a", None, "b", "c"],
        "i": [1, None, 3, 4, 5, 3],
        "f": [0.5, float("nan"), None, -1.0, 2.0, 2.0],
        "b": [True, None, False, True, True, False],
        "s": ["x", None, "y", "z", "", "x"],
        "d": [dt.date(2024, 1, day) for day in (3, 1, 2, 5, 4, 6)],
    }
)


def cells(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    return [tuple("NaN" if value != value else value for value in row) for row in frame.rows()]


@pytest.fixture(scope="module")
def frame(con):
    return con.from_polars(FRAME)


SAME = {
    "slice": lambda m, x: x.slice(1, 3),
    "slice to the end": lambda m, x: x.slice(4),
    "slice from the end": lambda m, x: x.slice(-3, 2),
    "slice of too many": lambda m, x: x.slice(-10, 7),
    "slice by index": lambda m, x: x[1:3],
    "tail": lambda m, x: x.tail(2),
    "tail of sorted rows": lambda m, x: x.sort("d").tail(2),
    "row index": lambda m, x: x.with_row_index(),
    "row index of filtered rows": lambda m, x: x.filter(m.col("i") > 2).with_row_index("n", 10),
    "unpivot": lambda m, x: x.unpivot(["i", "f"], index="k"),
    "top k": lambda m, x: x.select("i", "d").drop_nulls().top_k(3, by=["i", "d"]),
    "bottom k": lambda m, x: x.select("i", "d").drop_nulls().bottom_k(2, by=["i", "d"]),
    "drop nans": lambda m, x: x.drop_nans(),
    "drop nulls of some": lambda m, x: x.drop_nulls(subset=["i", "s"]),
    "fill nan": lambda m, x: x.select("i", "f").fill_nan(0.0),
    "fill numbers": lambda m, x: x.fill_null(0),
    "fill text": lambda m, x: x.fill_null("none"),
    "fill truth": lambda m, x: x.fill_null(True),
    "fill with zero": lambda m, x: x.select("i", "f").fill_null(strategy="zero"),
    "null count": lambda m, x: x.null_count(),
    "sum": lambda m, x: x.select("i", "s", "b").sum(),
    "mean": lambda m, x: x.select("i", "s", "b").mean(),
    "greatest": lambda m, x: x.select("i", "s", "d").max(),
    "least": lambda m, x: x.select("i", "s", "d").min(),
    "cast of all": lambda m, x: x.select("i", "b").cast(m.Int32),
    "cast of some": lambda m, x: x.select("i", "f").cast({"i": m.Float64}),
    "lazy": lambda m, x: x.lazy().filter(m.col("i") > 1) if m is tg else x.filter(m.col("i") > 1),
    "drop a list": lambda m, x: x.drop(["i", "f"]),
    "drop what is not there": lambda m, x: x.drop("i", "zz", strict=False),
    "first of alike": lambda m, x: x.unique("k", keep="first", maintain_order=True),
    "last of alike": lambda m, x: x.unique(["k"], keep="last", maintain_order=True),
    "none of alike": lambda m, x: x.unique("k", keep="none", maintain_order=True),
    "list of each row": lambda m, x: x.with_columns(z=[1, 2], w=["a", "b"]),
    "windows keep the order": lambda m, x: x.with_columns(m.col("i").sum().over("k").alias("q")),
    "windows keep the order of sorted rows": lambda m, x: x.sort("d").with_columns(q=m.col("i").max().over("k")),
    "windows keep the order of some": lambda m, x: x.filter(m.col("d").is_not_null()).select("d", q=m.len().over("k")).head(3),
    "group by the median": lambda m, x: x.select("k", "i").group_by("k").median().sort("k"),
    "group by the number": lambda m, x: x.group_by("k").len(name="n").sort("k"),
    "join by an expression's name": lambda m, x: x.join(x.select("k", "d"), on=m.col("d")).select("k", "k_right"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SAME))
def test_steps_mean_what_they_mean_in_polars(frame, name):
    ours, theirs = SAME[name](tg, frame).to_polars(), SAME[name](pl, FRAME)
    assert ours.columns == theirs.columns
    if name == "unpivot":
        assert sorted(map(repr, cells(ours))) == sorted(map(repr, cells(theirs)))
    else:
        assert cells(ours) == cells(theirs)


def test_structs_become_columns(con):
    data = con.sql("SELECT 1 AS k, {'a': 2, 'b': {'c': 'x', 'd': 3}} AS st, 4 AS z")
    made = data.unnest("st")
    assert made.columns == ["k", "a", "b", "z"]
    assert made.cache().unnest("b").to_pylist() == [{"k": 1, "a": 2, "c": "x", "d": 3, "z": 4}]


def test_windows_keep_the_order_of_many_rows(con):
    rows = 400_000
    data = {"x": np.arange(rows), "g": np.arange(rows) % 1000}
    found = con.from_dict(data).with_columns(top=col("x").max().over("g"), all=tg.len().over())
    even = con.from_dict(data).filter(col("x") % 2 == 0).with_columns(n=col("x").cum_sum()).with_row_index()
    np.testing.assert_array_equal(even.to_numpy()["index"], np.arange(rows // 2))
    np.testing.assert_array_equal(even.to_numpy()["n"], np.cumsum(data["x"][::2]))
    table = found.to_arrow()
    np.testing.assert_array_equal(table["x"].to_numpy(), data["x"])
    np.testing.assert_array_equal(table["top"].to_numpy(), rows - 1000 + data["g"])
    assert found.limit(3, 1000).to_polars()["x"].to_list() == [1000, 1001, 1002]


def test_groups_collect_what_is_no_aggregate(con, frame):
    made = frame.group_by("k").agg("i", twice=col("i") * 2).to_polars()
    expect = FRAME.group_by("k").agg("i", twice=pl.col("i") * 2)
    lists = lambda rows: {row[0]: [sorted(cell, key=repr) for cell in row[1:]] for row in rows}  # noqa: E731
    assert lists(made.rows()) == lists(expect.rows())
    with pytest.raises(tg.SqlError, match="'i' has many values in a group"):
        frame.group_by("k").agg(col("i") - col("i").mean())
    firsts = frame.group_by("k").first().to_polars()
    assert firsts.columns == FRAME.columns and firsts.height == 4
    assert frame.group_by("k").n_unique().sort("k").to_polars()["i"].to_list() == [1, 2, 1, 1]


def test_pivots(con):
    data = pl.DataFrame({"id": [1, 1, 2, 2], "what": ["a", "b", "a", "b"], "v": [10, 20, 30, None]})
    ours = con.from_polars(data).pivot("what", index="id", values="v").sort("id").to_polars()
    assert ours.rows() == data.pivot("what", index="id", values="v").sort("id").rows()
    twice = con.from_polars(pl.concat([data, data]))
    assert twice.pivot("what", index="id", aggregate_function="sum").sort("id").rows() == [(1, 20, 40), (2, 60, None)]
    assert twice.pivot("what", index="id", aggregate_function="len", on_columns=["b"]).sort("id").rows() == [(1, 2), (2, 2)]
    with pytest.raises(tg.SqlError, match="2 values for one place"):
        twice.pivot("what", index="id", values="v")


def test_frames_are_described(frame):
    told = frame.select("i", "b", "s", "d").describe().to_polars()
    assert told["statistic"].to_list() == ["count", "null_count", "mean", "std", "min", "25%", "50%", "75%", "max"]
    expect = FRAME.select("i", "b", "s", "d").describe(interpolation="linear")
    assert told["i"].to_list() == pytest.approx(expect["i"].to_list())
    assert told["b"].to_list()[:3] == expect["b"].to_list()[:3]
    assert told["s"].to_list()[:5] == ["5", "1", None, None, ""]
    assert told["d"].to_list()[-1] == "2024-01-06"


def test_types_of_numbers_are_one_before_more_is_built(con):
    # Were the division chosen by the first branch alone, it would not be floored.
    numbers = con.from_dict({"x": [0.5, -1.5, 9.0], "i": [1, 2, 3]})
    clipped = numbers.select(x=col("x").clip(-5, 2))
    assert clipped.dtypes == ["Float64"]
    assert clipped.select(col("x") // 1).rows() == [(0.0,), (-2.0,), (2.0,)]
    both = numbers.select(v="i").union(numbers.select(v="x"))
    assert both.dtypes == ["Float64"]
    assert sorted(both.select(col("v") // 1).rows()) == [(-2.0,), (0.0,), (1.0,), (2.0,), (3.0,), (9.0,)]
    by_name = numbers.select(v="i").union(numbers.select(v="x", w="i"), by_name=True)
    assert sorted(by_name.select(col("v") // 1).rows()) == [(-2.0,), (0.0,), (1.0,), (2.0,), (3.0,), (9.0,)]
    assert numbers.select(v=tg.when(col("i") > 1).then(2).otherwise(col("x"))).dtypes == ["Float64"]
    small = numbers.select(v=(col("i").cast("int8") ** 2)).schema
    assert small == {"v": "Int8"}


def test_powers_that_are_no_integers_are_errors(con):
    data = con.from_dict({"i": [2, 3], "e": [-1, 70]})
    with pytest.raises(tg.SqlError, match="power of -1"):
        data.select(col("i") ** -1)
    with pytest.raises(tg.SqlError):
        data.select(col("i") ** col("e")).collect()
    assert data.select(col("i") ** 64).rows() == [(0,), (pl.Series([3]) ** 64).to_list() and ((3**64 + 2**63) % 2**64 - 2**63,)]


# --- pandas ---


def test_columns_under_an_old_name_have_their_own_type_in_pandas(con):
    frame = con.from_arrow(pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [3, 1, 2]}))
    assert str(frame.to_pandas()["a"].dtype) == "Int64"
    half = frame.select((col("a") / 2.0).alias("a"), col("a").alias("c"))
    for made in (half.to_pandas(), half.collect().to_pandas(), pa.table(half).to_pandas(), pa.table(half.collect()).to_pandas()):
        assert made["a"].dtype == np.float64 and made["a"].tolist()[0] == 0.5
    assert half.to_arrow_reader().read_pandas()["a"].tolist()[2] == 1.5
    text = frame.select(col("a").cast("str").alias("a")).to_pandas()
    assert text["a"].tolist()[0] == "1"


def test_labels_are_those_of_the_rows(con):
    data = pd.DataFrame({"a": [3, 1, 2]})
    assert con.from_arrow(data).sort("a").to_pandas().index.tolist() == [0, 1, 2]
    assert con.from_arrow(data).filter(col("a") > 1).limit(1).to_pandas().index.tolist() == [0]
    named = con.from_arrow(data.set_index(pd.Index([30, 10, 20], name="at")))
    back = named.sort("a").to_pandas()
    assert back.index.name == "at" and back.index.tolist() == [10, 20, 30]


# --- forms in which rows come ---


def test_rows_come_by_more_names_of_duckdb(con):
    frame = con.sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c')) AS v(id, s) ORDER BY id")
    assert frame.fetchnumpy()["id"].tolist() == [1, 2, 3]
    assert frame.fetchdf().equals(frame.df()) and frame.fetch_arrow_table().equals(frame.arrow())
    assert frame.fetchmany(2) == [(1, "a"), (2, "b")]
    kept = con.execute("SELECT id FROM (VALUES (1), (2), (3)) AS v(id) ORDER BY id")
    assert kept.description[0][:2] == ("id", "Int64")
    assert [kept.fetchmany(2), kept.fetchone(), kept.fetchmany(5)] == [[(1,), (2,)], (3,), []]


@pytest.mark.parametrize("size", ["64MB", "64 MiB", "0.0625G", "65536k", 64 << 20])
def test_sizes_are_numbers_or_texts(size):
    assert tg.connect(devices="", threads=1, memory_limit=size).sql("SELECT 1").item() == 1


TYPES = {
    "timestamp[us]": "Timestamp(µs)",
    "timestamp[ms, tz=UTC]": 'Timestamp(ms, "UTC")',
    "datetime64[ns]": "Timestamp(ns)",
    "duration[ms]": "Duration(ms)",
    "list<int64>": "List(Int64)",
    "list<item: double>": "List(Float64)",
    "list<list<int32>>": "List(List(Int32))",
    "INTEGER": "Int32",
    "BIGINT": "Int64",
    "DOUBLE": "Float64",
    "varchar": "Utf8",
    "VARCHAR(20)": "Utf8",
    "decimal(10,2)": "Decimal128(10, 2)",
    "Decimal128(10, 2)": "Decimal128(10, 2)",
    "double[]": "List(Float64)",
    "category": "Dictionary(Int32, Utf8)",
    "Timestamp(µs)": "Timestamp(µs)",
    pl.Categorical: "Dictionary(Int32, Utf8)",
    pl.Decimal(10, 2): "Decimal128(10, 2)",
    pl.Datetime("ms"): "Timestamp(ms)",
    pl.Duration: "Duration(µs)",
    pl.Duration("ms"): "Duration(ms)",
    pl.List(pl.Int16): "List(Int16)",
    pl.UInt8: "UInt8",
    pd.Int64Dtype(): "Int64",
    np.dtype("float32"): "Float32",
    pa.timestamp("s"): "Timestamp(s)",
    tg.List(tg.Float32): "List(Float32)",
    tg.Datetime("ns", "UTC"): 'Timestamp(ns, "UTC")',
    tg.Decimal(40, 2): "Decimal256(40, 2)",
}


@pytest.mark.parametrize("given", list(TYPES), ids=str)
def test_types_by_many_names(con, given):
    frame = con.from_dict({"x": [1]}).select(lit(None).cast(given).alias("v"))
    # Fields of lists that Polars or pyarrow name are called as they say.
    assert frame.dtypes[0].replace("LargeList", "List") == TYPES[given]


# --- what is refused ---

REFUSED = {
    "two columns of one name": (lambda x, _: x.with_columns(col("i").alias("q"), lit(1).alias("q")), tg.SqlError, "'q' twice"),
    "several columns under one name": (lambda x, _: x.with_columns(n=col("i", "k")), tg.SqlError, "n= is the name of one column"),
    "a column of values": (lambda x, _: x.with_columns(n=np.arange(6)), TypeError, "from_dict"),
    "sort by nothing": (lambda x, _: x.sort(), TypeError, "columns to sort by"),
    "explode a number": (lambda x, _: x.explode("i"), tg.SqlError, "'i' is of the type Int64"),
    "unnest a number": (lambda x, _: x.unnest("i"), tg.SqlError, "'i' is of the type Int64"),
    "text and number": (lambda x, _: x.select(col("i") + "a"), tg.SqlError, "cast"),
    "text and a column of numbers": (lambda x, _: x.select(col("i") + col("s")), tg.SqlError, "concat_str"),
    "union of text with numbers": (lambda x, _: x.select("i").union(x.select("s")), tg.SqlError, "Int64"),
    "union with what is no frame": (lambda x, _: x.union(5), TypeError, "'int'"),
    "a negative limit": (lambda x, _: x.limit(-1), ValueError, "negative"),
    "steps of a slice": (lambda x, _: x[::2], ValueError, "without steps"),
    "rows by their place": (lambda x, _: x[0], TypeError, "column's name"),
    "a statement that is none": (lambda _, con: con.sql(5), TypeError, "text of a statement"),
    "work that is none": (lambda _, con: con.submit(5), TypeError, "not a int"),
    "is in another column": (lambda x, _: x.select(col("i").is_in(col("f"))), tg.SqlError, "column of lists"),
    "is in a number": (lambda x, _: x.select(col("i").is_in(3)), TypeError, "list of values"),
    "join by an expression": (lambda x, _: x.join(x, left_on=col("i") + 1, right_on="i"), TypeError, "with_columns"),
    "first of rows in no order": (lambda x, con: x.distinct().unique("k", keep="first"), ValueError, "no order"),
    "unknown keep": (lambda x, _: x.unique(keep="some"), ValueError, "'last'"),
    "drop what is not there": (lambda x, _: x.drop("zz"), tg.SqlError, "'zz' not found"),
    "a member of an expression": (lambda x, _: col("i").cum_sums(), AttributeError, "did you mean cum_sum"),
    "a member that there is not": (lambda x, _: col("i").zzz(), AttributeError, "tg.fn.zzz"),
    "a function of strings": (lambda x, _: col("s").str.to_upper(), AttributeError, "did you mean to_uppercase"),
    "a step of frames": (lambda x, _: x.with_column(a=1), AttributeError, "did you mean with_columns"),
    "a column as a member": (lambda x, _: x.i, AttributeError, r"frame\['i'\]"),
    "a step of groups": (lambda x, _: x.group_by("k").medians(), AttributeError, "did you mean median"),
    "a function of the module": (lambda x, _: tg.max_horizontals, AttributeError, "did you mean max_horizontal"),
    "filter of no aggregate": (lambda x, _: x.select(col("i").filter(col("b"))), TypeError, "is for aggregates"),
    "no condition": (lambda x, _: tg.when(), TypeError, "condition"),
    "filled by nothing": (lambda x, _: col("i").fill_null(), ValueError, "strategy"),
    "an unknown option": (lambda x, _: setattr(tg.options, "bogus", 1), AttributeError, "progress"),
    "no threads": (lambda x, _: tg.connect(threads=0), ValueError, "threads=0"),
    "no size": (lambda x, _: tg.connect(memory_limit="much"), ValueError, "'4GB'"),
    "a call of no function": (lambda x, _: tg.delayed(5), TypeError, "not a int"),
    "a function of no type": (lambda x, _: tg.udf(returns="nope"), TypeError, "'nope' is no type"),
    "a folder that is not there": (lambda x, _: x.write_csv("/nodir/x.csv"), FileNotFoundError, "/nodir"),
    "columns of pandas of one name": (
        lambda _, con: con.from_arrow(pd.DataFrame([[1, 2]], columns=["a", "a"])),
        tg.SqlError,
        "several columns 'a'",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused_says_the_way_out(con, frame, name):
    build, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        build(frame, con)


def test_a_misspelt_variable_is_told(con):
    trips = pl.DataFrame({"x": [1]})
    with pytest.raises(tg.NotFoundError, match="variables trips"):
        con.sql("SELECT * FROM trip")
    assert con.from_arrow(trips.lazy()).rows() == [(1,)]
    assert con.from_arrow(trips).union(trips).count() == 2
