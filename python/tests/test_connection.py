"""Statements: lazy queries, statements that run at once, parameters, errors, files."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg


def test_a_query_is_lazy_and_other_statements_run(con):
    frame = con.sql("SELECT 1 AS a, 'x' AS b")
    assert frame.columns == ["a", "b"]
    assert frame.to_pylist() == [{"a": 1, "b": "x"}]
    con.sql("CREATE OR REPLACE TABLE made AS SELECT * FROM (VALUES (1), (2)) AS v(x)")
    assert "made" in con.tables()
    answer = con.sql("INSERT INTO made VALUES (3)")
    assert answer.to_pylist() == [{"count": 3}] or answer.to_pylist() == [{"count": 1}]
    assert con.table("made").count() == 3
    con.execute("DROP TABLE made")
    assert "made" not in con.tables()


def test_a_lazy_query_runs_each_time_its_rows_are_asked_for(con):
    con.execute("CREATE OR REPLACE TABLE grows AS SELECT 1 AS x")
    frame = con.sql("SELECT count(*) AS n FROM grows")
    assert frame.item() == 1
    con.execute("DROP TABLE grows")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -5,
        2**62,
        1.5,
        "it's",
        b"\x00\xff",
        dt.date(1969, 7, 20),
        dt.time(12, 34, 56, 789),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        decimal.Decimal("-12.345"),
    ],
)
def test_parameters_come_back_as_they_were(con, value):
    assert con.sql("SELECT $1 AS v", [value]).item() == value
    assert con.from_dict({"x": [1]}).select(tg.lit(value).alias("v")).item() == value


def test_parameters_by_place_and_by_name(con):
    assert con.sql("SELECT ? + ? AS v", [1, 2]).item() == 3
    assert con.sql("SELECT $a - $b AS v", {"a": 5, "b": 3}).item() == 2
    with pytest.raises(tg.SqlError, match=r"\$b"):
        con.sql("SELECT $a - $b", {"a": 5})
    with pytest.raises(tg.SqlError, match="2 values were given"):
        con.sql("SELECT $1", [1, 2])
    with pytest.raises(TypeError, match="object"):
        con.sql("SELECT $1", [object()])
    assert con.sql("SELECT $1 AS v", [np.float32(0.5)]).item() == 0.5


def test_errors_are_of_the_kind_that_says_who_must_act(con, tmp_path):
    with pytest.raises(tg.SqlError) as caught:
        con.sql("SELECT nmae FROM (SELECT 1 AS name)")
    assert caught.value.kind == "sql"
    assert caught.value.place == (1, 8)
    assert "name" in str(caught.value)
    with pytest.raises(tg.NotFoundError) as caught:
        con.sql("SELECT * FROM not_there_at_all")
    assert caught.value.kind == "not_found"
    with pytest.raises(tg.NotFoundError):
        con.read_parquet(tmp_path / "missing.parquet")
    with pytest.raises(FileNotFoundError):
        con.sql("SELECT * FROM 'missing.parquet'").collect()
    with pytest.raises(tg.SqlError, match="division by zero"):
        con.sql("SELECT 1 / (x - 1) FROM (VALUES (1)) AS v(x)").collect()
    assert issubclass(tg.SqlError, tg.Error)


def test_a_limit_is_an_error_of_its_own():
    small = tg.connect(devices="", memory_limit=20_000_000, temp_limit=1)
    with pytest.raises(tg.ResourcesExhaustedError, match="memory_limit|spill|temp"):
        small.sql("SELECT x FROM arange(5000000) ORDER BY x * 7919 % 104729, x").collect()


def test_files_go_out_and_come_in(con, tmp_path):
    frame = con.sql("SELECT i AS id, x * 1.5 AS v FROM arange(1000)")
    assert frame.write_parquet(tmp_path / "a.parquet", compression="zstd(3)") == 1000
    assert frame.write_csv(tmp_path / "a.csv") == 1000
    assert frame.write_json(tmp_path / "a.json") == 1000
    expect = frame.select(tg.col("v").sum()).item()
    for read in (con.read_parquet, con.read_csv, con.read_json):
        ending = read.__name__.removeprefix("read_")
        back = read(tmp_path / f"a.{ending}")
        assert back.columns == ["id", "v"]
        assert back.select(tg.col("v").sum()).item() == expect
    csv = tmp_path / "b.csv"
    csv.write_text("1;x\n2;y\n")
    assert con.read_csv(csv, delim=";", header=False).count() == 2
    frame.write_parquet(tmp_path / "b.parquet")
    many = con.read_parquet([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert many.count() == 2000
    parted = tmp_path / "parts"
    frame.with_columns(k=tg.col("id") % 2).write_parquet(parted, partition_by=["k"])
    assert sorted(folder.name for folder in parted.iterdir()) == ["k=0", "k=1"]


def test_settings_reports_and_devices(con):
    con.set("tidegate.placement", "host")
    assert con.sql("SELECT count(*) AS n FROM arange(10)").item() == 10
    report = con.last_report()
    assert report is not None and report["rows"] == 1 and "placement" in repr(report)
    con.sql("RESET tidegate.placement")
    assert con.devices() == {}
    with pytest.raises(tg.DeviceError):
        con.execute("CREATE OR REPLACE TABLE to_cache AS SELECT 1 AS x")
        con.cache("to_cache", on="device")
    with pytest.raises(ValueError, match="'device' or 'host'"):
        con.cache("to_cache", on="moon")


def test_a_simulated_device_takes_part_and_caches():
    con = tg.connect(devices="", simulate_device="256MiB")
    assert len(con.devices()) == 1
    con.execute("CREATE TABLE t AS SELECT i % 7 AS k, x FROM arange(100000)")
    con.cache("t", ["k", "x"], on="device")
    frame = con.table("t").group_by("k").agg(tg.col("x").sum()).to_backend("device")
    rows = {row["k"]: row["x"] for row in frame.to_pylist()}
    assert rows == {k: sum(range(k, 100000, 7)) for k in range(7)}
    assert "simulated" in repr(con.last_report())
    con.uncache("t")


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(TypeError, match="no option 'colour'"):
        tg.connect(colour="red")
    with pytest.raises(TypeError, match="for servers"):
        tg.connect(user="me")
    with pytest.raises(tg.SqlError, match="grpc"):
        tg.connect("http://localhost:1")
    with pytest.raises(tg.IoError, match="cannot connect"):
        tg.connect("grpc://127.0.0.1:9")


def test_options_of_stores_are_those_of_the_engine(monkeypatch):
    with pytest.raises(tg.Error, match="aws.region"):
        tg.connect(devices="", stores=[("s3://bucket", "aws.regoin", "eu-central-1")])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    nobody = tg.connect(devices="", stores=[("s3://bucket", "aws.timeout", "1s")])
    with pytest.raises(tg.IoError, match="refused"):
        nobody.read_parquet("s3://bucket/x.parquet").collect()


def test_the_command_is_the_packages_too():
    root = Path(tg.__file__).resolve().parents[1]
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "tidegate"]
    done = subprocess.run([*command, "-c", "SELECT 40 + 2 AS answer"], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and "42" in done.stdout, done
    wrong = subprocess.run([*command, "-c", "SELECT"], capture_output=True, text=True, env=env)
    assert wrong.returncode == 1 and "error" in wrong.stderr, wrong


def test_every_result_is_arrow(con):
    frame = con.sql("SELECT x FROM arange(10)")
    assert frame.to_arrow().num_rows == 10
    assert pa.table(frame).num_rows == 10
    assert pa.schema(frame).names == ["x"]
    reader = frame.to_arrow_reader()
    assert sum(batch.num_rows for batch in reader) == 10
    assert frame.to_numpy()["x"].tolist() == list(range(10))
    assert len(frame.to_pandas()) == 10
    assert frame.to_polars().height == 10


def test_of_several_statements_the_last_one_answers(con):
    rows = con.execute("CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2); SELECT * FROM t WHERE a > ?;", [1])
    assert rows.fetchall() == [(2,)]
    assert con.sql("SELECT ';' AS s").collect().fetchall() == [(";",)]
    local = con.from_dict({"x": [1, 2, 3]})
    assert con.sql("CREATE TABLE u AS SELECT * FROM local; SELECT sum(x) AS n FROM u").fetchall() == [(6,)]
    with pytest.raises(tg.Error):
        con.execute("SELECT 1; SELECT missing")
    assert local.collect().num_rows == 3
