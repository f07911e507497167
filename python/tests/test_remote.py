"""The same class over a server: the package's own command, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tidegate as tg
import tidegate.array as ta
from tidegate import col, lit, when
from tidegate.ml import PCA, KMeans, LinearRegression, LogisticRegression, Ridge

ROOT = Path(tg.__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def url():
    words = [sys.executable, "-m", "tidegate", "serve", "--listen", "127.0.0.1:0", "--drain", "2s"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line.startswith("listening on "), server.communicate()
    yield line.removeprefix("listening on ").strip()
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=60) == 0


@pytest.fixture
def remote(url):
    with tg.connect(url) as connected:
        yield connected


def test_statements_run_there(remote, url):
    assert remote.url == url and url in repr(remote)
    frame = remote.sql("SELECT 1 AS a, 'x' AS b")
    assert frame.columns == ["a", "b"]
    assert frame.to_pylist() == [{"a": 1, "b": "x"}]
    remote.sql("CREATE OR REPLACE TABLE there AS SELECT i AS k, x * 2 AS v FROM arange(100)")
    assert remote.table("there").count() == 100
    remote.execute("INSERT INTO there VALUES (100, 200)")
    assert remote.table("there").count() == 101
    assert "there" in remote.tables()
    assert remote.sql("SELECT $1 + 1 AS v", [41]).item() == 42
    assert remote.sql("SELECT v FROM there WHERE k = $1", [7]).item() == 14
    remote.execute("DROP TABLE there")


def test_frames_are_sent_as_sql(remote, con):
    text = "SELECT i AS k, i % 3 AS g, CASE WHEN i % 10 = 0 THEN NULL ELSE x END AS \"V x\" FROM arange(1000)"
    here, there = con.sql(text), remote.sql(text)

    def build(frame: tg.DataFrame, other: tg.DataFrame) -> list[tg.DataFrame]:
        kind = when(col("V x") > 500).then(lit("much")).otherwise(lit("little"))
        return [
            frame.filter(col("V x").is_between(5, 50) & (col("g") != 1)).select("k", double=col("V x") * 2),
            frame.with_columns(kind=kind).group_by("kind", "g").agg(col("V x").sum(), n=tg.len()),
            frame.with_columns(r=col("V x").sum().over("g"), c=col("k").cum_sum().over("g", order_by="k")),
            frame.join(other.select("k", w=col("g") + 1).filter(col("k") < 10), on="k", how="left"),
            frame.sort("V x", descending=True, nulls_last=True).limit(7, 2),
            frame.select("g").distinct(),
            frame.select("k").union(other.select("k")),
            frame.select(col("V x").mean(), top=col("k").max(), half=col("k") / 2),
            frame.select(t=col("k").cast("str").str.slice(0, 1), q=col("k") // 7, m=col("k") % 7),
            frame.filter(col("k").is_in([1, 2, 3])),
        ]

    for local, sent in zip(build(here, here), build(there, remote.sql(text))):
        assert sent._frame.sql() is not None
        assert sent.columns == local.columns
        order = [col(name) for name in local.columns]
        assert sent.sort(*order).to_pylist() == local.sort(*order).to_pylist()


def test_plans_and_arrays_there(remote):
    assert "plan" in remote.sql("SELECT x FROM arange(10)").explain()
    x = ta.random.default_rng(7, con=remote).normal(size=(50, 40))
    here = ta.random.default_rng(7).normal(size=(50, 40)).compute()
    assert (x.compute() == here).all()
    assert float((x + 1)[::2, ::2].sum()) == pytest.approx((here + 1)[::2, ::2].sum())


def test_errors_come_back_by_kind(remote):
    with pytest.raises(tg.SqlError, match="nmae"):
        remote.sql("SELECT nmae FROM (SELECT 1 AS name)")
    with pytest.raises(tg.NotFoundError):
        remote.sql("SELECT * FROM not_there_at_all")
    with pytest.raises(tg.SqlError, match="column 'z' not found: there are x"):
        remote.sql("SELECT 1 AS x").select("z")
    with pytest.raises(tg.SqlError, match="division by zero"):
        remote.sql("SELECT 1 / (x - x) AS y FROM arange(3)").collect()
    for attempt in (
        lambda: remote.from_arrow(tg.sql("SELECT 1 AS x")),
        lambda: remote.sql("SELECT 1 AS x").map_partitions(lambda batch: batch, {"x": "int64"}),
        lambda: remote.sql("SELECT 1 AS x").write_csv("x.csv"),
        lambda: remote.devices(),
    ):
        with pytest.raises(tg.NotSupportedError, match="of a server"):
            attempt()


def test_a_statement_there_is_stopped(remote):
    long = "SELECT sum(sin(a.x) * cos(b.x)) AS s FROM arange(300000) a CROSS JOIN arange(300000) b"
    future = remote.submit(long)
    threading.Timer(0.5, future.cancel).start()
    with pytest.raises(tg.CancelledError):
        future.result(60)
    running = "SELECT count(*) AS n FROM system.queries WHERE state = 'running' AND sql LIKE '%300000%'"
    for _ in range(100):
        if remote.sql(running + " AND sql NOT LIKE '%system.queries%'").item() == 0:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("it still runs")


def test_models_are_fitted_there(remote, con):
    text = "SELECT sin(i) * 3 AS a, cos(i * 7) AS b, i % 3 AS k, sin(i) * 6 + cos(i * 7) + i % 5 AS y FROM arange(300)"
    here, there = con.sql(text), remote.sql(text)
    for model in (LinearRegression(), Ridge(2.0), LogisticRegression(), KMeans(3, random_state=5)):
        target = () if isinstance(model, KMeans) else ("k",) if isinstance(model, LogisticRegression) else ("y",)
        features = ["a", "b"]
        ours = type(model)(**vars(model)).fit(here, *target, features=features)
        theirs = model.fit(there, *target, features=features)
        for name in ("cluster_centers_",) if isinstance(model, KMeans) else ("coef_", "intercept_"):
            assert np.abs(getattr(ours, name) - getattr(theirs, name)).max() < 1e-9
        labels = [frame.select("a", "prediction").sort("a").to_pylist() for frame in (ours.predict(here), theirs.predict(there))]
        for one, other in zip(*labels):
            assert abs(one["prediction"] - other["prediction"]) < 1e-9
    assert PCA(1).fit(there, features=["a", "b"]).transform(there).columns == ["a", "b", "k", "y", "pca0"]
