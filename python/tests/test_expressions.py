"""Members of expressions beside Polars' of the same names: each case is built once by Polars and once by this package."""

from __future__ import annotations

import datetime as dt
import math

import polars as pl
import pytest

import tidegate as tg
from tidegate import _nodes, col, lit

NAN = float("nan")
FRAME = pl.DataFrame(
    {
        "row": [0, 1, 2, 3, 4, 5],
        "i": [1, -2, 3, None, 3**20, 7],
        "j": [2, 3, 0, 1, 1, 5],
        "x": [0.5, -1.5, 9.0, NAN, None, float("inf")],
        "s": ["ab", "\t b \n", "a.b", None, "", "-12 über"],
        "b": [True, False, None, True, True, False],
        "d": [dt.date(2024, 1, 31), dt.date(1969, 12, 29), None, dt.date(2023, 2, 3), dt.date(2021, 1, 3), dt.date(2020, 12, 31)],
        "t": [dt.datetime(2024, 2, 29, 13, 37, 21, 123456), dt.datetime(1970, 1, 1), None, dt.datetime(1999, 12, 31, 23, 59, 59), dt.datetime(2021, 1, 3), dt.datetime(2020, 12, 31, 1)],
        "l": [[3, 1, 1], [], None, [None, 5], [7], [2, 9, 4]],
        "k": ["p", "q", "p", "q", "p", None],
    }
)  # fmt: skip


def cells(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    def cell(value: object) -> object:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else float(f"{value:.12g}")
        if isinstance(value, list):
            return tuple(map(cell, value))
        return value

    return [tuple(map(cell, row)) for row in frame.rows()]


@pytest.fixture(scope="module")
def frame(con):
    return con.from_polars(FRAME)


SAME = {
    "floor division of a clipped value": lambda m: m.col("x").clip(-5, 2) // 1,
    "floor division of what was filled": lambda m: m.col("x").fill_nan(2) // 1,
    "floor division of a choice": lambda m: m.when(m.col("b")).then(2).otherwise(m.col("x")) // 1,
    "floor division of a choice that ends in integers": lambda m: m.when(m.col("b")).then(m.col("x")).otherwise(2) // 1,
    "remainder of a choice": lambda m: m.when(m.col("b")).then(2).otherwise(m.col("j") / 4) % 2,
    "clip of integers": lambda m: m.col("i").clip(0.5, 2),
    "clip from below": lambda m: m.col("x").clip(0),
    "clip leaves NaN": lambda m: m.col("x").clip(0, 2),
    "clip of days": lambda m: m.col("d").clip(dt.date(2000, 1, 1), dt.date(2022, 1, 1)),
    "clip of several": lambda m: m.col("i", "j").clip(1, 3),
    "fill nan of several": lambda m: m.col("x", "j").fill_nan(0),
    "power of integers": lambda m: (m.col("j") * 0 + 3) ** 39,
    "square": lambda m: m.col("i") ** 2,
    "power of nothing": lambda m: m.col("i") ** 0,
    "integer to an integer": lambda m: m.col("i") ** m.col("j"),
    "two to an integer": lambda m: (m.lit(2) ** m.col("j")).alias("j"),
    "power by name": lambda m: m.col("j").pow(3),
    "power of a float": lambda m: m.col("x") ** 2,
    "power by a float": lambda m: m.col("j") ** 0.5,
    "floor of integers": lambda m: m.col("i").floor(),
    "ceil of integers": lambda m: m.col("i").ceil(),
    "round of integers": lambda m: m.col("i").round(1),
    "sign of integers": lambda m: m.col("i").sign(),
    "sign": lambda m: m.col("x").sign(),
    "finite": lambda m: m.col("x").is_finite(),
    "infinite": lambda m: m.col("x").is_infinite(),
    "sine": lambda m: m.col("j").sin(),
    "arctangent": lambda m: m.col("j").arctan(),
    "log10": lambda m: m.col("j").log10(),
    "log1p": lambda m: m.col("j").log1p(),
    "cube root": lambda m: m.col("j").cbrt(),
    "degrees": lambda m: m.col("j").degrees(),
    "operators by name": lambda m: m.col("i").add(1).sub(2).mul(3).floordiv(2).mod(5),
    "comparisons by name": lambda m: m.col("i").gt(1).and_(m.col("j").le(3)).or_(m.col("b").not_()),
    "equal by name": lambda m: m.col("i").eq(3).xor(m.col("j").ne(0)),
    "replace values": lambda m: m.col("k").replace({"p": "P", None: "none"}),
    "replace lists": lambda m: m.col("j").replace([2, 3], [20, 30]),
    "replace one": lambda m: m.col("j").replace(0, 100),
    "fill with zero": lambda m: m.col("i").fill_null(strategy="zero"),
    "fill with the greatest": lambda m: m.col("i").fill_null(strategy="max"),
    "null count": lambda m: m.col("i").null_count(),
    "sum of truth": lambda m: m.col("b").sum(),
    "nulls summed": lambda m: m.col("i").is_null().sum(),
    "share of truth": lambda m: m.col("b").mean(),
    "filtered first": lambda m: m.col("j").filter(m.col("b")).sum(),
    "different without null": lambda m: m.col("k").drop_nulls().n_unique(),
    "mean without nan": lambda m: m.col("x").filter(m.col("x").is_finite()).drop_nans().mean(),
    "cumulative sum": lambda m: m.col("i").cum_sum().over(order_by="row") if m is tg else m.col("i").cum_sum(),
    "cumulative greatest": lambda m: m.col("i").cum_max().over(order_by="row") if m is tg else m.col("i").cum_max(),
    "cumulative least": lambda m: m.col("i").cum_min().over(order_by="row") if m is tg else m.col("i").cum_min(),
    "cumulative count": lambda m: m.col("i").cum_count().over(order_by="row") if m is tg else m.col("i").cum_count(),
    "cumulative sum in the order of rows": lambda m: m.col("i").cum_sum(),
    "cumulative sum of groups in the order of rows": lambda m: m.col("i").cum_sum().over("k"),
    "shift in the order of rows": lambda m: m.col("i").shift(-1),
    "difference in the order of rows": lambda m: m.col("j").diff().over("k"),
    "first of groups in the order of rows": lambda m: m.col("j").first().over("k"),
    "filled forward": lambda m: m.col("i").forward_fill().over(order_by="row") if m is tg else m.col("i").forward_fill(),
    "difference": lambda m: m.col("i").diff().over(order_by="row") if m is tg else m.col("i").diff(),
    "difference in groups": lambda m: m.col("row").diff().over("k", order_by="row"),
    "shift that fills": lambda m: m.col("j").shift(1, fill_value=0).over("k", order_by="row"),
    "rank": lambda m: m.col("j").rank(),
    "date of text that is cut": lambda m: m.col("d").cast(m.String).str.head(7).str.replace("$", "-01").str.to_date("%Y-%m-%d"),
    "dense rank": lambda m: m.col("j").rank("dense", descending=True),
    "least rank": lambda m: m.col("i").rank("min"),
    "greatest rank": lambda m: m.col("j").rank("max"),
    "rank in groups": lambda m: m.col("j").rank("min").over("k"),
    "over an expression": lambda m: (m.col("j") - m.col("j").mean()).over("k"),
    "over by its name": lambda m: m.col("j").max().over(partition_by="k"),
    "duplicated": lambda m: m.col("j").is_duplicated(),
    "unique": lambda m: m.col("k").is_unique(),
    "suffix": lambda m: m.col("i", "j").name.suffix("_2"),
    "prefix": lambda m: (m.col("i") + 1).name.prefix("a_"),
    "a list of names": lambda m: m.col(["i", "j"]) + 1,
    "all but": lambda m: m.exclude("l", "s", "t"),
    "all without": lambda m: m.all().exclude("l", "s"),
    # --- several columns ---
    "greatest of the row": lambda m: m.max_horizontal("i", "j"),
    "least of the row": lambda m: m.min_horizontal("i", m.col("j") + 1),
    "sum of the row": lambda m: m.sum_horizontal("i", "j", "b"),
    "mean of the row": lambda m: m.mean_horizontal("i", "j"),
    "any of the row": lambda m: m.any_horizontal("b", m.col("i") > 2),
    "all of the row": lambda m: m.all_horizontal("b", m.col("i") > 2),
    "first of the row": lambda m: m.coalesce("i", "j"),
    "text of the row": lambda m: m.concat_str("s", "i", separator="-"),
    "text of the row without nulls": lambda m: m.concat_str(["s", "i"], separator="-", ignore_nulls=True),
    "struct": lambda m: m.struct("i", m.col("j").alias("k")),
    "field": lambda m: m.struct("i", "j").struct.field("j"),
    "field by index": lambda m: m.struct("i", "j").struct["j"],
    # --- text ---
    "replace all": lambda m: m.col("s").str.replace_all("[ab]", "<$0>"),
    "replace by groups": lambda m: m.col("s").str.replace_all("(a)(.?)", "${2}${1}1"),
    "replace all literally": lambda m: m.col("s").str.replace_all(".", "$0", literal=True),
    "replace the first": lambda m: m.col("s").str.replace("[ab]", "x"),
    "replace the first literally": lambda m: m.col("s").str.replace(".", "$0", literal=True),
    "strip whitespace": lambda m: m.col("s").str.strip_chars(),
    "strip characters": lambda m: m.col("s").str.strip_chars("ab-"),
    "strip at the start": lambda m: m.col("s").str.strip_chars_start(),
    "strip at the end": lambda m: m.col("s").str.strip_chars_end("br\n"),
    "strip a prefix": lambda m: m.col("s").str.strip_prefix("a."),
    "strip a suffix": lambda m: m.col("s").str.strip_suffix("b"),
    "characters": lambda m: m.col("s").str.split("") if m is tg else m.when(m.col("s") != "").then(m.col("s").str.split("")).otherwise(m.when(m.col("s") == "").then(m.lit([], dtype=pl.List(pl.String)))),
    "head": lambda m: m.col("s").str.head(2),
    "head but": lambda m: m.col("s").str.head(-1),
    "tail": lambda m: m.col("s").str.tail(2),
    "slice from the end": lambda m: m.col("s").str.slice(-2),
    "slice of the end": lambda m: m.col("s").str.slice(-3, 2),
    "pad": lambda m: m.col("s").str.pad_start(4, "*"),
    "pad after": lambda m: m.col("s").str.pad_end(3),
    "zeros": lambda m: m.col("i").cast(m.String).str.zfill(4),
    "extract": lambda m: m.col("s").str.extract("([ab])(.)", 2),
    "extract all of it": lambda m: m.col("s").str.extract("[ab].", 0),
    "find": lambda m: m.col("s").str.find("b|r"),
    "find literally": lambda m: m.col("s").str.find(".", literal=True),
    "count": lambda m: m.col("s").str.count_matches("[ab]"),
    "date": lambda m: m.concat_str(m.col("j") * 0, m.lit("2024/03/05")).str.slice(1).str.to_date("%Y/%m/%d"),
    "moment": lambda m: m.concat_str(m.col("j") * 0, m.lit("05.03.2024 10:11")).str.slice(1).str.to_datetime("%d.%m.%Y %H:%M"),
    "date of ISO": lambda m: m.concat_str(m.col("j") * 0, m.lit("2024-03-05")).str.slice(1).str.to_date(),
    # --- moments ---
    "weekday": lambda m: m.col("d").dt.weekday(),
    "week": lambda m: m.col("d").dt.week(),
    "year of the week": lambda m: m.col("d").dt.iso_year(),
    "written": lambda m: m.col("t").dt.strftime("%d.%m.%Y %H:%M"),
    "epoch": lambda m: m.col("t").dt.epoch("s"),
    "epoch in days": lambda m: m.col("d").dt.epoch("d"),
    "time stamp": lambda m: m.col("t").dt.timestamp("ms"),
    "end of the month": lambda m: m.col("d").dt.month_end(),
    "end of the month at its time": lambda m: m.col("t").dt.month_end(),
    "start of the month": lambda m: m.col("t").dt.month_start(),
    "truncated to a day": lambda m: m.col("t").dt.truncate("1d"),
    "truncated to minutes": lambda m: m.col("t").dt.truncate("15m"),
    "truncated to a month": lambda m: m.col("d").dt.truncate("1mo"),
    "truncated to a week": lambda m: m.col("d").dt.truncate("1w"),
    "truncated to weeks": lambda m: m.col("d").dt.truncate("2w"),
    "truncated to days": lambda m: m.col("d").dt.truncate("3d"),
    "day less an hour": lambda m: m.col("d") - dt.timedelta(hours=1),
    "day and a day": lambda m: m.col("d") + dt.timedelta(hours=25),
    "a day and day": lambda m: (dt.timedelta(hours=25) + m.col("d")).alias("d"),
    # --- lists ---
    "list has null": lambda m: m.col("l").list.contains(None),
    "list sum": lambda m: m.col("l").list.sum(),
    "list mean": lambda m: m.col("l").list.mean(),
    "list min": lambda m: m.col("l").list.min(),
    "list max": lambda m: m.col("l").list.max(),
    "list first": lambda m: m.col("l").list.first(),
    "list last": lambda m: m.col("l").list.last(),
    "list unique": lambda m: m.col("l").list.unique().list.sort(),
    "list reversed": lambda m: m.col("l").list.reverse(),
    "list slice": lambda m: m.col("l").list.slice(1, 1),
    "list slice of the end": lambda m: m.col("l").list.slice(-2, 1),
    "list head": lambda m: m.col("l").list.head(2),
    "list tail": lambda m: m.col("l").list.tail(2),
    "in a list": lambda m: m.col("i").is_in(m.col("l")),
    # --- by functions of the module ---
    "sum by name": lambda m: m.sum("i"),
    "greatest by name": lambda m: m.max("i", "j"),
    "count by name": lambda m: m.count("i"),
    "when by name": lambda m: m.when("b").then("i").otherwise("j"),
    "when all": lambda m: m.when(m.col("j") > 1, b=True).then(m.lit("yes")).otherwise(m.lit("no")),
    "when true": lambda m: m.when(True).then("i").otherwise("j"),
    # --- types ---
    "decimal": lambda m: m.col("j").cast(pl.Decimal(10, 2)),
    "milliseconds": lambda m: m.col("t").cast(pl.Datetime("ms")),
    "own decimal": lambda m: m.col("j").cast(m.Decimal(10, 2)),
    "own float": lambda m: m.col("j").cast(m.Float32),
    "list of floats": lambda m: m.col("l").cast(pl.List(pl.Float64)),
    "category": lambda m: m.col("k").cast(m.Categorical).cast(m.String),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SAME))
def test_members_mean_what_they_mean_in_polars(frame, name):
    ours, theirs = frame.select(SAME[name](tg)).to_polars(), FRAME.select(SAME[name](pl))
    assert ours.columns == theirs.columns
    assert cells(ours) == cells(theirs)


def test_the_functions_of_many_rows_are_the_engines(con):
    def names(kind):
        rows = con.sql("SELECT DISTINCT routine_name FROM information_schema.routines WHERE function_type = $1", [kind])
        return {name for (name,) in rows.fetchall()}

    assert names("AGGREGATE") == _nodes.AGGREGATES
    assert names("WINDOW") - _nodes.AGGREGATES == _nodes.WINDOWS
