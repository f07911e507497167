"""Frames beside Polars on the same data, with NULLs and NaN; what differs by intent is told apart below."""

from __future__ import annotations

import datetime as dt
import math
import random

import polars as pl
import pytest

import tidegate as tg
from tidegate import col, lit, when


def rows_of(frame: pl.DataFrame) -> list[tuple]:
    """The rows with NaN as a text, which equals itself, and floats to 12 digits."""

    def cell(value):
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else float(f"{value:.12g}")
        if isinstance(value, list):
            return tuple(map(cell, value))
        return value

    return [tuple(map(cell, row)) for row in frame.rows()]


def check(ours: tg.DataFrame, theirs: pl.DataFrame, ordered: bool = False) -> None:
    ours_there = ours.to_polars()
    assert ours_there.columns == theirs.columns
    left, right = rows_of(ours_there), rows_of(theirs)
    if not ordered:
        left, right = sorted(left, key=repr), sorted(right, key=repr)
    assert left == right


def data() -> pl.DataFrame:
    rng = random.Random(7)
    n = 500
    pick = lambda values: [rng.choice(values) for _ in range(n)]  # noqa: E731
    return pl.DataFrame(
        {
            "g": pick(["a", "b", "c", None]),
            "h": pick([1, 2, None]),
            "i": [None if rng.random() < 0.1 else rng.randint(-50, 50) for _ in range(n)],
            "f": [None if rng.random() < 0.1 else rng.uniform(-5, 5) for _ in range(n)],
            "n": pick([1.5, -2.5, float("nan"), None]),
            "s": pick(["apple", "Banana", "  pear ", "", None, "über"]),
            "d": [dt.date(2020, 1, 1) + dt.timedelta(days=rng.randint(0, 900)) for _ in range(n)],
            "t": [dt.datetime(2021, 5, 1) + dt.timedelta(seconds=rng.randint(0, 10**7)) for _ in range(n)],
            "b": pick([True, False, None]),
            "l": pick([[1, 2, 3], [4], None]),
            "row": list(range(n)),
        }
    )


FRAME = data()

# Expressions of this module and of Polars that mean the same: each is built by one function of a namespace.
SAME = {
    "plus": lambda m: m.col("i") + 1,
    "reversed minus": lambda m: 10 - m.col("i"),
    "times": lambda m: m.col("i") * m.col("f"),
    "true division": lambda m: m.col("i") / 4,
    "division of floats": lambda m: m.col("f") / 2.0,
    "floor division": lambda m: m.col("i") // 7,
    "floor division by a negative": lambda m: m.col("i") // -7,
    "remainder": lambda m: m.col("i") % 7,
    "remainder of a negative": lambda m: m.col("i") % -7,
    "negative": lambda m: -m.col("i"),
    "power": lambda m: m.col("f") ** 2,
    "equal": lambda m: m.col("g") == "a",
    "not equal": lambda m: m.col("h") != 1,
    "less": lambda m: m.col("i") < 3,
    "at least": lambda m: m.col("f") >= 0.5,
    "equal with null": lambda m: m.col("h").eq_missing(None),
    "not equal with null": lambda m: m.col("h").ne_missing(1),
    "and": lambda m: (m.col("i") > 0) & m.col("b"),
    "or": lambda m: (m.col("i") > 0) | m.col("b"),
    "xor": lambda m: (m.col("i") > 0) ^ m.col("b"),
    "not": lambda m: ~m.col("b"),
    "bits": lambda m: m.col("row") & 12,
    "is null": lambda m: m.col("g").is_null(),
    "is not null": lambda m: m.col("g").is_not_null(),
    "is nan": lambda m: m.col("n").is_nan(),
    "between": lambda m: m.col("i").is_between(-5, 5),
    "between open": lambda m: m.col("i").is_between(-5, 5, closed="none"),
    "is in": lambda m: m.col("g").is_in(["a", "c"]),
    "fill null": lambda m: m.col("i").fill_null(0),
    "fill nan": lambda m: m.col("n").fill_nan(0.0),
    "cast to float": lambda m: m.col("i").cast(pl.Float64 if m is pl else "float64"),
    "cast to text": lambda m: m.col("i").cast(pl.String if m is pl else "str"),
    "cast that may fail": lambda m: m.col("s").cast(pl.Int64 if m is pl else "int64", strict=False),
    "abs": lambda m: m.col("i").abs(),
    "ceil": lambda m: m.col("f").ceil(),
    "floor": lambda m: m.col("f").floor(),
    "sqrt": lambda m: m.col("f").abs().sqrt(),
    "exp": lambda m: m.col("f").exp(),
    "log": lambda m: (m.col("row") + 1).log(),
    "log to a base": lambda m: (m.col("row") + 1).log(10),
    "sign": lambda m: m.col("f").sign(),
    "clip": lambda m: m.col("i").clip(-10, 10),
    "when": lambda m: m.when(m.col("i") > 0).then(m.lit("plus")).otherwise(m.lit("minus")).alias("w"),
    "when without otherwise": lambda m: m.when(m.col("i") > 0).then("f").alias("w"),
    "chain of when": lambda m: m.when(m.col("i") > 9)
    .then(2)
    .when(m.col("i") > 0)
    .then(1)
    .otherwise(0)
    .alias("w"),
    "lower": lambda m: m.col("s").str.to_lowercase(),
    "upper": lambda m: m.col("s").str.to_uppercase(),
    "characters": lambda m: m.col("s").str.len_chars(),
    "bytes": lambda m: m.col("s").str.len_bytes(),
    "starts": lambda m: m.col("s").str.starts_with("a"),
    "ends": lambda m: m.col("s").str.ends_with("r "),
    "contains a pattern": lambda m: m.col("s").str.contains("^[aB]"),
    "contains a text": lambda m: m.col("s").str.contains("an", literal=True),
    "replace": lambda m: m.col("s").str.replace_all("a", "o"),
    "slice": lambda m: m.col("s").str.slice(1, 2),
    "slice to the end": lambda m: m.col("s").str.slice(2),
    "strip": lambda m: m.col("s").str.strip_chars(),
    "split": lambda m: (m.col("s") + "-").str.split("a"),
    "concatenate": lambda m: m.col("s") + "!",
    "year": lambda m: m.col("d").dt.year(),
    "month": lambda m: m.col("d").dt.month(),
    "day": lambda m: m.col("t").dt.day(),
    "hour": lambda m: m.col("t").dt.hour(),
    "second": lambda m: m.col("t").dt.second(),
    "day of the year": lambda m: m.col("d").dt.ordinal_day(),
    "date of": lambda m: m.col("t").dt.date(),
    "list length": lambda m: m.col("l").list.len(),
    "list element": lambda m: m.col("l").list.get(0),
    "list has": lambda m: m.col("l").list.contains(4),
    "literal date": lambda m: m.col("d") > dt.date(2021, 1, 1),
    "literal time": lambda m: m.col("t") + dt.timedelta(days=1, seconds=1),
    "sum over": lambda m: m.col("i").sum().over("g"),
    "mean over two": lambda m: m.col("f").mean().over("g", "h"),
    "share": lambda m: m.col("f") / m.col("f").abs().max().over("g"),
    "count over": lambda m: m.col("i").count().over("h"),
    "minus the mean": lambda m: m.col("f") - m.col("f").mean(),
    "whole aggregate": lambda m: m.col("i").max(),
    "cumulative": lambda m: m.col("i").fill_null(0).cum_sum().over("g", order_by="row"),
    "shift": lambda m: m.col("row").shift(1).over("g", order_by="row"),
    "shift back": lambda m: m.col("row").shift(-2).over("g", order_by="row"),
    "first in order": lambda m: m.col("row").first().over("g", order_by="row"),
    "last in order": lambda m: m.col("row").last().over("g", order_by="row"),
}

AGGREGATES = {
    "sum": lambda m: m.col("i").sum(),
    "mean": lambda m: m.col("f").mean(),
    "min": lambda m: m.col("i").min(),
    "max": lambda m: m.col("d").max(),
    "median": lambda m: m.col("f").median(),
    "std": lambda m: m.col("f").std(),
    "var": lambda m: m.col("f").var(ddof=0),
    "count": lambda m: m.col("i").count(),
    "len": lambda m: m.len(),
    "any": lambda m: m.col("b").any(),
    "of an expression": lambda m: (m.col("i") * 2 + m.col("row")).sum(),
    "of two": lambda m: m.col("i").sum() / m.col("i").count(),
    "filtered": lambda m: (m.col("row").filter(m.col("i") > 0).sum() if m is pl else m.col("row").sum().filter(m.col("i") > 0)),
    "named": lambda m: m.col("i").sum().alias("total"),
    "distinct without null": lambda m: m.col("i").drop_nulls().n_unique() if m is pl else m.col("i").n_unique(),
    "several": lambda m: m.col("i", "row").max(),
}


@pytest.fixture(scope="module")
def frame(con):
    return con.from_arrow(FRAME)


@pytest.mark.parametrize("name", list(SAME))
def test_expressions_mean_what_they_mean_in_polars(frame, name):
    ours, theirs = SAME[name](tg), SAME[name](pl)
    check(frame.select("row", ours.alias("v")).sort("row"), FRAME.select("row", theirs.alias("v")), ordered=True)
    assert frame.select(ours).columns == FRAME.select(theirs).columns


@pytest.mark.parametrize("name", list(AGGREGATES))
def test_aggregates_mean_what_they_mean_in_polars(frame, name):
    ours, theirs = AGGREGATES[name](tg), AGGREGATES[name](pl)
    check(frame.group_by("g").agg(ours), FRAME.group_by("g").agg(theirs))
    check(frame.group_by("g", "h").agg(ours), FRAME.group_by("g", "h").agg(theirs))
    check(frame.select(ours), FRAME.select(theirs))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("coalesce", [None, True, False])
def test_joins_have_the_rows_and_columns_of_polars(con, how, coalesce):
    left = pl.DataFrame({"k": [1, 2, 2, None, 4], "a": ["x", "y", "z", "n", "w"], "v": [1, 2, 3, 4, 5]})
    right = pl.DataFrame({"k": [2, 2, None, 5], "v": [10, 20, 30, 40], "b": [1.5, 2.5, 3.5, 4.5]})
    if how in ("semi", "anti") and coalesce is not None:
        coalesce = None
    ours = con.from_arrow(left).join(con.from_arrow(right), on="k", how=how, coalesce=coalesce)
    check(ours, left.join(right, on="k", how=how, coalesce=coalesce))


def test_joins_by_columns_of_other_names_and_crosses(con):
    left = pl.DataFrame({"a": [1, 2, 3], "x": [1, 1, 2]})
    right = pl.DataFrame({"b": [2, 3, 4], "y": [1, 1, 2], "x": [7, 8, 9]})
    ours, theirs = con.from_arrow(left), con.from_arrow(right)
    check(ours.join(theirs, left_on="a", right_on="b"), left.join(right, left_on="a", right_on="b"))
    keys = {"left_on": ["a", "x"], "right_on": ["b", "y"]}
    check(ours.join(theirs, how="left", **keys), left.join(right, how="left", **keys))
    check(ours.join(theirs, how="cross", suffix="_r"), left.join(right, how="cross", suffix="_r"))
    check(ours.join(ours, on="a"), left.join(left, on="a"))
    with pytest.raises(ValueError, match="on="):
        ours.join(theirs)
    with pytest.raises(tg.SqlError, match="'outer'"):
        ours.join(theirs, left_on="a", right_on="b", how="outer")


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_last", [False, True])
def test_sorting_puts_nulls_where_polars_does(frame, descending, nulls_last):
    how = {"descending": descending, "nulls_last": nulls_last}
    check(frame.select("i", "row").sort("i", "row", **how), FRAME.select("i", "row").sort("i", "row", **how), True)
    mixed = {"descending": [True, False], "nulls_last": [nulls_last, False]}
    check(frame.select("g", "row").sort("g", "row", **mixed), FRAME.select("g", "row").sort("g", "row", **mixed), True)


def test_the_other_verbs(con, frame):
    check(frame.filter(col("i") > 0, g="a"), FRAME.filter(pl.col("i") > 0, g="a"))
    check(frame.with_columns(col("i") + 1, two=lit(2)), FRAME.with_columns(pl.col("i") + 1, two=pl.lit(2)))
    check(frame.drop("l", "s"), FRAME.drop("l", "s"))
    check(frame.rename({"i": "j"}), FRAME.rename({"i": "j"}))
    check(frame.select("g", "h").distinct(), FRAME.select("g", "h").unique())
    assert frame.distinct("g").count() == 4
    check(frame.sort("row").limit(5, 10), FRAME.slice(10, 5), True)
    check(frame.drop_nulls("i", "g"), FRAME.drop_nulls(["i", "g"]))
    check(frame.select("row", "l").explode("l"), FRAME.select("row", "l").explode("l"))
    check(frame.select(tg.all().count()), FRAME.select(pl.all().count()))
    both = con.from_arrow(pl.DataFrame({"x": [1, None]}))
    check(both.union(both), pl.DataFrame({"x": [1, None, 1, None]}))
    check(both.union(both, distinct=True), pl.DataFrame({"x": [1, None]}))
    other = con.from_arrow(pl.DataFrame({"y": ["a"], "x": [5]}))
    theirs = pl.concat([pl.DataFrame({"x": [1, None]}), pl.DataFrame({"y": ["a"], "x": [5]})], how="diagonal")
    check(both.union(other, by_name=True), theirs)
    check(frame.group_by("g").len(), FRAME.group_by("g").len())
    few = frame.select("g", "i", "f")
    check(few.group_by("g").max(), FRAME.select("g", "i", "f").group_by("g").max())
    by_year = frame.group_by(col("d").dt.year().alias("y")).agg(n=tg.len())
    check(by_year, FRAME.group_by(pl.col("d").dt.year().alias("y").cast(pl.Int64)).agg(n=pl.len()))
    assert frame["i"].output_name == "i" and frame[["i", "f"]].columns == ["i", "f"]


def test_rolling_rows(con):
    theirs = pl.DataFrame({"t": [1, 2, 3, 4], "x": [1, 2, 3, 4]})
    ours = con.from_arrow(theirs).with_columns(s=col("x").sum().over(order_by="t", rows=(-1, 0))).sort("t")
    assert ours.to_polars()["s"].to_list() == [1, 3, 5, 7]
    ranked = con.from_arrow(theirs).select("t", r=tg.fn.row_number().over(order_by="x", descending=True))
    assert ranked.sort("t").to_polars()["r"].to_list() == [4, 3, 2, 1]


def test_nulls_are_those_of_sql_where_polars_differs(con):
    empty = con.from_arrow(pl.DataFrame({"x": pl.Series([], dtype=pl.Int64)}))
    assert empty.select(col("x").sum()).item() is None
    some = con.from_arrow(pl.DataFrame({"x": [1, 2, None], "f": [1.0, float("nan"), 3.0]}))
    assert some.select(col("x").n_unique()).item() == 2
    assert math.isnan(some.select(col("f").max()).item())
    assert some.select(col("f").min()).item() == 1.0
    assert some.filter(col("x").is_in([1, None])).count() == 1
    with pytest.raises(tg.SqlError, match="division by zero"):
        some.select(col("x") // 0).collect()


def test_functions_of_the_engine_are_there_by_name(con, frame):
    assert frame.select(tg.fn.upper("g").alias("u")).distinct().count() == 4
    assert frame.select(tg.fn.count("i", distinct=True).alias("n")).item() == FRAME["i"].drop_nulls().n_unique()
    assert "date_trunc" in con.functions()
    with pytest.raises(tg.NotFoundError, match="did you mean upper"):
        frame.select(tg.fn.uper("g"))
    struct = con.sql("SELECT {'a': 1, 'b': 'x'} AS st")
    assert struct.select(col("st").struct.field("a")).to_pylist() == [{"a": 1}]


def test_mistakes_are_told(frame):
    with pytest.raises(tg.SqlError, match="column 'I' not found: there are g, h"):
        frame.select("I")
    with pytest.raises(TypeError, match="no truth value"):
        frame.filter(col("i") > 0 and col("f") > 0)
    with pytest.raises(TypeError, match="no truth value"):
        bool(frame)
    with pytest.raises(TypeError, match="not True"):
        frame.filter(True)
    with pytest.raises(tg.SqlError, match="with_columns"):
        frame.filter(col("i") > col("i").mean())
    with pytest.raises(TypeError, match="order"):
        frame.distinct().select(col("i").cum_sum())
    with pytest.raises(TypeError, match="no literal"):
        lit(object())
    with pytest.raises(TypeError, match="no type"):
        frame.select(col("i").cast("no such type"))
    deep = col("i")
    for _ in range(600):
        deep = deep + 1
    with pytest.raises(tg.ResourcesExhaustedError, match="500 levels"):
        frame.select(deep)
    assert when(col("i") > 0).then(1)._node[0] == "case"


def test_frames_are_placed_as_statements_are():
    con = tg.connect(devices="", simulate_device="256MiB")
    con.set("tidegate.placement", "device")
    frame = con.sql("SELECT i % 10 AS k, x FROM arange(200000)")
    result = frame.filter(col("x") > 5).group_by("k").agg(col("x").sum())
    assert "PipelineExec" in result.explain()
    assert sum(row["x"] for row in result.to_pylist()) == sum(range(6, 200000))
    host = result.to_backend("host")
    assert sorted(map(repr, host.to_pylist())) == sorted(map(repr, result.to_pylist()))


def test_rows_come_by_the_names_of_duckdb(con):
    con.execute("CREATE OR REPLACE TABLE named AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(id, s)")
    frame = con.sql("SELECT * FROM named ORDER BY id")
    assert frame.fetchall() == [(1, "a"), (2, None)] == frame.rows()
    assert frame.fetchone() == (1, "a")
    assert frame.df().shape == frame.pl().shape == frame.arrow().shape == (2, 2)
    kept = con.execute("SELECT id FROM named ORDER BY id DESC")
    assert [kept.fetchone(), kept.fetchone(), kept.fetchone()] == [(2,), (1,), None]
    assert list(kept) == [(2,), (1,)]
    assert con.sql("SELECT id FROM named WHERE id > 5").fetchone() is None
    with pytest.raises(TypeError, match="rows()"):
        iter(frame)
    con.execute("DROP TABLE named")


def test_columns_of_one_name_are_all_there(con):
    frame = con.sql("SELECT * FROM (SELECT 1 AS id, 2 AS x) AS a JOIN (SELECT 1 AS id, 3 AS y) AS b ON a.id = b.id")
    assert frame.to_pylist() == [{"id": 1, "x": 2, "id_1": 1, "y": 3}]
    assert list(frame.to_numpy()) == ["id", "x", "id_1", "y"] == frame.to_polars().columns


def test_intervals_are_refused_for_polars_by_name(con):
    with pytest.raises(TypeError, match="'i' is an interval"):
        con.sql("SELECT INTERVAL '1 day' AS i").to_polars()


def test_compression_needs_no_level(con, tmp_path):
    assert con.sql("SELECT 1 AS x").write_parquet(tmp_path / "z.parquet", compression="zstd") == 1
    assert con.read_parquet(tmp_path / "z.parquet").item() == 1
