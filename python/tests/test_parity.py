"""Polars' ``group_by``, ``join`` and ``filter``: the same calls on the same frames give the same rows.

Each case is built once by Polars and once by this package, over frames with duplicates, NULL and NaN, of many rows, one,
none, and of NULL alone. ``DIFFERENT`` has those whose answers differ by intent, with the reason; the guide's page
``python-from-polars.md`` lists the reasons.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter

import polars as pl
import pytest

import tidegate as tg

NAN = float("nan")
MANY = pl.DataFrame(
    {
        "k": ["a", "b", "a", None, "c", "b", "a", None, "d", "a", "", "ä"],
        "n": [1, 2, None, 4, 5, 2, 1, None, 7, -3, 0, 2],
        "f": [0.5, NAN, None, -1.5, 2.5, 2.5, 0.5, NAN, 0.0, -0.0, 1e300, None],
        "s": ["apple", "Pear", None, "", "fig 10%", "a.b", "pear", "über", None, "Fig", "apple pie", "x_y"],
        "d": [dt.date(2024, 1, 1 + at * 17 % 28) if at % 5 else None for at in range(12)],
        "t": [dt.datetime(2024, 2, 29, at, 30) if at % 7 else None for at in range(12)],
        "b": [True, False, None, True, True, False, None, None, False, True, False, True],
        "r": list(range(12)),
    }
)
OTHER = pl.DataFrame(
    {
        "k": ["a", "a", "b", None, "e", "", "b"],
        "n": [1, None, 2, 4, 5, 0, 3],
        "f": [10.0, 20.0, NAN, 40.0, None, 60.0, 70.0],
        "w": ["A", "A2", "B", "none", "E", "empty", "B2"],
    }
)
FRAMES = {
    "many": MANY,
    "one": MANY.head(1),
    "none": MANY.clear(),
    "nulls": MANY.clear(3),
}


def cells(frame: pl.DataFrame) -> Counter[tuple[object, ...]]:
    """The rows with NaN as a text, which equals itself, and floats to 12 digits."""

    def cell(value: object) -> object:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else float(f"{value:.12g}") + 0.0
        return tuple(sorted(map(cell, value), key=repr)) if isinstance(value, list) else value

    return Counter(tuple(map(cell, row)) for row in frame.rows())


def ours(con, build, frame, other=OTHER):
    return build(tg, con.from_polars(frame), con.from_polars(other)).to_polars()


def theirs(build, frame, other=OTHER):
    return build(pl, frame.lazy(), other.lazy()).collect()


def check(con, build, frame, other=OTHER):
    found, expect = ours(con, build, frame, other), theirs(build, frame, other)
    assert found.columns == expect.columns
    assert cells(found) == cells(expect)


# --- group_by ---

KEYS = {
    "text": lambda m: [m.col("k")],
    "name": lambda m: ["k"],
    "integer": lambda m: ["n"],
    "float": lambda m: ["f"],
    "date": lambda m: ["d"],
    "truth": lambda m: ["b"],
    "two": lambda m: ["k", "b"],
    "expression": lambda m: [(m.col("n") % 3).alias("rest")],
    "condition": lambda m: [m.col("n") > 1],
    "text and expression": lambda m: ["k", (m.col("r") // 4).alias("part")],
    "length": lambda m: [m.col("s").str.len_chars()],
    "month": lambda m: [m.col("t").dt.day()],
}
AGGREGATES = {
    "len": lambda m: m.len(),
    "count": lambda m: m.col("f").count(),
    "mean": lambda m: m.col("f").mean(),
    "mean of integers": lambda m: m.col("n").mean(),
    "min": lambda m: m.col("n").min(),
    "max": lambda m: m.col("n").max(),
    "min of text": lambda m: m.col("s").min(),
    "max of text": lambda m: m.col("s").max(),
    "min of dates": lambda m: m.col("d").min(),
    "max of times": lambda m: m.col("t").max(),
    "sum": lambda m: m.col("r").fill_null(0).sum(),
    "sum of floats": lambda m: m.col("f").fill_null(0.0).sum(),
    "sum filled": lambda m: m.col("n").fill_null(0).sum(),
    "std": lambda m: m.col("n").std(),
    "var": lambda m: m.col("n").var(),
    "std of all": lambda m: m.col("n").std(ddof=0),
    "var of all": lambda m: m.col("r").var(ddof=0),
    "median": lambda m: m.col("n").median(),
    "different values": lambda m: m.col("n").fill_null(-1).n_unique(),
    "different texts": lambda m: m.col("s").drop_nulls().n_unique() if m is pl else m.col("s").n_unique(),
    "sum of truth": lambda m: m.col("b").fill_null(False).sum(),
    "mean of truth": lambda m: m.col("b").mean(),
    "sum of a condition": lambda m: m.col("n").is_null().sum(),
    "any": lambda m: m.col("b").fill_null(False).any(),
    "all": lambda m: m.col("b").fill_null(True).all(),
    "median of floats": lambda m: m.col("f").fill_nan(3.0).median(),
    "first of equal ones": lambda m: m.col("k").first().alias("first"),
    "quantile": lambda m: m.col("r").quantile(0.5, "linear") if m is pl else m.col("r").quantile(0.5),
    "list": lambda m: m.col("r").implode() if m is tg else m.col("r"),
    "of an expression": lambda m: (m.col("r") * 2 + 1).max().alias("twice"),
    "of two aggregates": lambda m: (m.col("r").max() - m.col("r").min()).alias("range"),
    "share": lambda m: (m.col("n").count() / m.len()).alias("share"),
    "filtered": lambda m: m.col("r").filter(m.col("n") > 1).min() if m is pl else m.col("r").min().filter(m.col("n") > 1),
    "conditional": lambda m: m.when(m.col("b")).then(m.col("r")).otherwise(m.lit(100)).min().alias("w"),
    "renamed": lambda m: m.col("n").max().alias("top"),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("keys", KEYS)
def test_keys(con, keys, frame):
    check(con, lambda m, x, _: x.group_by(*KEYS[keys](m)).agg(m.len(), m.col("r").max().alias("top")), FRAMES[frame])


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(con, name, frame):
    check(con, lambda m, x, _: x.group_by("k").agg(AGGREGATES[name](m)), FRAMES[frame])


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_of_expressions_as_keys(con, name):
    check(con, lambda m, x, _: x.group_by((m.col("r") % 4).alias("q"), (m.col("n") > 1).alias("p")).agg(AGGREGATES[name](m)), MANY)


GROUPED = {
    "named key": lambda m, x, _: x.group_by(q=m.col("n") % 2).agg(m.len()),
    "lists": lambda m, x, _: x.group_by(["k", "b"]).agg([m.len(), m.col("n").max()]),
    "no aggregates": lambda m, x, _: x.group_by("k").agg(),
    "every column": lambda m, x, _: x.select("k", "n", "s").group_by("k").agg(m.all().max()),
    "key in an aggregate": lambda m, x, _: x.group_by("k").agg(m.col("k").count().alias("c")),
    "mean of all": lambda m, x, _: x.select("k", "r", "n").group_by("k").mean(),
    "min of all": lambda m, x, _: x.group_by("n").min(),
    "len": lambda m, x, _: x.group_by("k").len(),
    "of groups": lambda m, x, _: x.group_by("k", "b").agg(m.len()).group_by("k").agg(m.col("len").max()),
    "then computed": lambda m, x, _: x.group_by("k").agg(m.col("n").max()).with_columns(twice=m.col("n") * 2),
    "of distinct rows": lambda m, x, _: x.select("k", "b").unique().group_by("k").agg(m.len()),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", GROUPED)
def test_groups(con, name, frame):
    check(con, GROUPED[name], FRAMES[frame])


# --- join ---

SIDES = {
    "rows": OTHER,
    "one row": OTHER.head(1),
    "no rows": OTHER.clear(),
    "nulls": OTHER.clear(2),
}
ON = {
    "text": {"on": "k"},
    "integer": {"on": "n"},
    "two": {"on": ["k", "n"]},
    "other names": {"left_on": "s", "right_on": "w"},
    "crossed": {"left_on": ["k", "n"], "right_on": ["w", "n"]},
    "suffix": {"on": "k", "suffix": "_other"},
}
HOW = ["inner", "left", "right", "full", "semi", "anti"]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("how", HOW)
def test_joins(con, how, on, side):
    check(con, lambda m, x, y: x.join(y, how=how, **ON[on]), MANY, SIDES[side])


@pytest.mark.parametrize("frame", ["one", "none", "nulls"])
@pytest.mark.parametrize("how", HOW)
def test_joins_of_short_frames(con, how, frame):
    check(con, lambda m, x, y: x.join(y, how=how, on="k"), FRAMES[frame])


@pytest.mark.parametrize("coalesce", [True, False])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_coalesced_keys(con, how, coalesce):
    check(con, lambda m, x, y: x.join(y, how=how, on=["k", "n"], coalesce=coalesce), MANY)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("frame", FRAMES)
def test_cross_joins(con, frame, side):
    check(con, lambda m, x, y: x.join(y, how="cross"), FRAMES[frame], SIDES[side])


def test_names_of_joins(con):
    check(con, lambda m, x, y: x.join(y, how="cross", suffix="_x"), MANY)
    check(con, lambda m, x, y: x.join(y.with_columns(m.col("n").cast(pl.Int32 if m is pl else "int32")), on="n"), MANY)
    for module in (tg, pl):
        left, right = (con.from_polars(MANY), con.from_polars(OTHER)) if module is tg else (MANY, OTHER)
        with pytest.raises((tg.SqlError, pl.exceptions.DuplicateError), match="n_right"):
            left.join(right, on="k").join(right, on="k")
        with pytest.raises((tg.SqlError, pl.exceptions.ColumnNotFoundError), match="zz"):
            left.join(right, on="zz")


COMBINED = {
    "with itself": lambda m, x, y: x.join(x, on="k"),
    "filtered before": lambda m, x, y: x.filter(m.col("n") > 0).join(y, on="k", how="left"),
    "filtered after": lambda m, x, y: x.join(y, on="k", how="left").filter(m.col("w").is_null()),
    "grouped before": lambda m, x, y: x.join(y.group_by("k").agg(m.len()), on="k", how="left"),
    "grouped after": lambda m, x, y: x.join(y, on="k").group_by("w").agg(m.col("r").max()),
    "selected": lambda m, x, y: x.join(y, on="n", how="full").select("n", "n_right", "w"),
    "twice": lambda m, x, y: x.join(y, on="k").join(y, on="n", suffix="_2"),
    "computed keys": lambda m, x, y: x.with_columns(q=m.col("r") % 5).join(y, left_on="q", right_on="n"),
    "computed in both": lambda m, x, y: x.with_columns(q=m.col("k").str.to_uppercase()).join(
        y.with_columns(q=m.col("w").str.to_uppercase()), on="q", how="full"
    ),
    "float keys": lambda m, x, y: x.filter(m.col("f").is_not_nan()).join(y, on="f", how="left"),
    "semi then group": lambda m, x, y: x.join(y, on="k", how="semi").group_by("k").agg(m.len()),
    "anti of both keys": lambda m, x, y: x.join(y, on=["k", "n"], how="anti").select("r"),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", COMBINED)
def test_joins_among_others(con, name, frame):
    check(con, COMBINED[name], FRAMES[frame])


# --- filter ---

CONDITIONS = {
    "equal": lambda m: m.col("n") == 2,
    "not equal": lambda m: m.col("n") != 2,
    "less": lambda m: m.col("n") < 2,
    "at most": lambda m: m.col("n") <= 2,
    "greater": lambda m: m.col("n") > 2,
    "float at most": lambda m: m.col("f") <= 0.5,
    "negative zero": lambda m: m.col("f") == 0.0,
    "equal nan": lambda m: m.col("f") == NAN,
    "greater than a number": lambda m: m.col("f") > 1.0,
    "two columns": lambda m: m.col("n") == m.col("r"),
    "integer and float": lambda m: m.col("n") > m.col("f"),
    "and": lambda m: (m.col("n") > 1) & (m.col("f") > 0),
    "and null": lambda m: (m.col("n") > 1) & m.col("b"),
    "or null": lambda m: (m.col("n") > 1) | m.col("b"),
    "xor null": lambda m: (m.col("n") > 1) ^ m.col("b"),
    "not null": lambda m: ~m.col("b"),
    "not of a comparison": lambda m: ~(m.col("n") > 1),
    "truth": lambda m: m.col("b"),
    "is null": lambda m: m.col("f").is_null(),
    "is not null": lambda m: m.col("f").is_not_null(),
    "is nan": lambda m: m.col("f").is_nan(),
    "is not nan": lambda m: m.col("f").is_not_nan(),
    "null as a value": lambda m: m.col("k").eq_missing(None),
    "other than null": lambda m: m.col("k").ne_missing("a"),
    "compared with null": lambda m: m.col("n") == None,  # noqa: E711
    "between": lambda m: m.col("n").is_between(1, 4),
    "between left": lambda m: m.col("n").is_between(1, 4, closed="left"),
    "between none": lambda m: m.col("n").is_between(1, 4, closed="none"),
    "is in": lambda m: m.col("n").is_in([1, 2, 9]),
    "is not in": lambda m: ~m.col("n").is_in([1, 2, 9]),
    "text is in": lambda m: m.col("k").is_in(["a", ""]),
    "nothing is in": lambda m: m.col("k").is_in([]),
    "text": lambda m: m.col("k") == "a",
    "text order": lambda m: m.col("k") > "b",
    "empty text": lambda m: m.col("k") == "",
    "starts": lambda m: m.col("s").str.starts_with("a"),
    "ends": lambda m: m.col("s").str.ends_with("%"),
    "contains": lambda m: m.col("s").str.contains("p+le"),
    "contains a dot": lambda m: m.col("s").str.contains(".", literal=True),
    "contains any": lambda m: m.col("s").str.contains("."),
    "case": lambda m: m.col("s").str.to_lowercase() == "pear",
    "pattern without case": lambda m: m.col("s").str.contains(r"(?i)^PEAR$"),
    "pattern of classes": lambda m: m.col("s").str.contains(r"^\w+\s\d\d%$"),
    "part of a text": lambda m: m.col("s").str.slice(0, 1) == "a",
    "quarter": lambda m: m.col("d").dt.quarter() == 1,
    "truncated": lambda m: m.col("t").dt.truncate("1h" if m is pl else "hour") == dt.datetime(2024, 2, 29, 3),
    "earlier day": lambda m: m.col("d") - dt.timedelta(days=3) > dt.date(2024, 1, 10),
    "at least nan": lambda m: m.col("f") >= NAN,
    "less than nan": lambda m: m.col("f") < NAN,
    "nan is in": lambda m: m.col("f").is_in([NAN]),
    "equal truth": lambda m: m.col("b") == True,  # noqa: E712
    "negated": lambda m: -m.col("n") < 0,
    "length": lambda m: m.col("s").str.len_chars() == 4,
    "bytes": lambda m: m.col("s").str.len_bytes() == 5,
    "date": lambda m: m.col("d") >= dt.date(2024, 1, 15),
    "time": lambda m: m.col("t") < dt.datetime(2024, 2, 29, 6, 0),
    "time between": lambda m: m.col("t").is_between(dt.datetime(2024, 2, 29, 3), dt.datetime(2024, 2, 29, 9, 30)),
    "day": lambda m: m.col("d").dt.day() > 10,
    "hour": lambda m: m.col("t").dt.hour() % 2 == 0,
    "day of a time": lambda m: m.col("t").dt.date() == dt.date(2024, 2, 29),
    "date and time": lambda m: m.col("t") > m.col("d"),
    "added duration": lambda m: m.col("t") + dt.timedelta(hours=3) > dt.datetime(2024, 2, 29, 9),
    "arithmetic": lambda m: m.col("n") * 2 - 1 > m.col("r") / 2,
    "cast": lambda m: m.col("n").cast(pl.String if m is pl else "str") == "2",
    "filled": lambda m: m.col("n").fill_null(2) == 2,
    "when": lambda m: m.when(m.col("n") > 1).then(m.col("b")).otherwise(m.lit(True)),
    "literal true": lambda m: m.lit(True),
    "literal false": lambda m: m.lit(False),
    "literal null": lambda m: m.lit(None).cast(pl.Boolean if m is pl else "bool"),
}
FILTERS = {
    "several": lambda m, x, _: x.filter(m.col("n") > 1, m.col("b")),
    "a list": lambda m, x, _: x.filter([m.col("n") > 1, m.col("b")]),
    "none": lambda m, x, _: x.filter(),
    "by value": lambda m, x, _: x.filter(k="a", n=1),
    "by value and condition": lambda m, x, _: x.filter(m.col("n") > 1, k="b"),
    "in a row": lambda m, x, _: x.filter(m.col("n") > 1).filter(m.col("f") > 0),
    "of a computed column": lambda m, x, _: x.with_columns(q=m.col("n") * 2).filter(m.col("q") == 4),
    "of an aggregate": lambda m, x, _: x.group_by("k").agg(m.len()).filter(m.col("len") > 1),
    "of a window": lambda m, x, _: x.with_columns(q=m.col("r").max().over("k")).filter(m.col("q") == m.col("r")),
    "before limit": lambda m, x, _: x.filter(m.col("n") > 1).sort("r").limit(2),
    "after limit": lambda m, x, _: x.sort("r").limit(5).filter(m.col("n") > 1),
    "drop nulls": lambda m, x, _: x.drop_nulls(),
    "drop nulls of some": lambda m, x, _: x.drop_nulls(["k", "n"]),
    "then select": lambda m, x, _: x.filter(m.col("n") > 1).select("k", (m.col("f") * 2).alias("q")),
}


@pytest.mark.filterwarnings("ignore:Comparisons with None")
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(con, name, frame):
    check(con, lambda m, x, _: x.filter(CONDITIONS[name](m)), FRAMES[frame])


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", FILTERS)
def test_filters(con, name, frame):
    check(con, FILTERS[name], FRAMES[frame])


# --- what differs by intent ---

#: Calls, and the rows here; those of Polars are others. The guide's page has the rules.
DIFFERENT = {
    "the sum of nothing is NULL": (lambda m, x, _: x.group_by("b").agg(m.col("n").sum()), "nulls", [(None, None)]),
    "NULL is no value that is counted": (
        lambda m, x, _: x.group_by(m.col("k") == "a").agg(m.col("f").n_unique()),
        "many",
        [(True, 2), (False, 4), (None, 2)],
    ),
    "NaN is the greatest value": (
        lambda m, x, _: x.filter(k="b").group_by("k").agg(m.col("f").max()),
        "many",
        [("b", "NaN")],
    ),
    "any of nothing is NULL": (lambda m, x, _: x.group_by("k").agg(m.col("b").any()), "nulls", [(None, None)]),
    "all of nothing is NULL": (lambda m, x, _: x.group_by("k").agg(m.col("b").all()), "nulls", [(None, None)]),
    "quantiles lie between values": (
        lambda m, x, _: x.filter(k="b").group_by("k").agg(m.col("r").quantile(0.25)),
        "many",
        [("b", 2.0)],
    ),
    "not one of values and NULL": (lambda m, x, _: x.filter(~m.col("n").is_in([1, None])), "many", []),
}
#: Calls that Polars answers, and what is said of them here.
REFUSED = {
    "aggregates in a filter": (lambda m, x, _: x.filter(m.col("n") > m.col("n").mean()), "with_columns"),
    "division by zero": (lambda m, x, _: x.filter(m.col("n") // 0 == 1), "division by zero"),
    "days between dates": (
        lambda m, x, _: x.filter(m.col("d") - dt.date(2024, 1, 10) > dt.timedelta(days=3)),
        "CAST one side",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs(con, name):
    build, frame, rows = DIFFERENT[name]
    found = cells(ours(con, build, FRAMES[frame]))
    assert found == Counter(rows)
    assert found != cells(theirs(build, FRAMES[frame]))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(con, name):
    build, message = REFUSED[name]
    theirs(build, MANY)
    with pytest.raises(tg.SqlError, match=message):
        ours(con, build, MANY)
