"""Waiting, stopping, threads, forks, notebooks, Python functions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent import futures
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate as tg
from tidegate import col

ROOT = Path(tg.__file__).resolve().parents[1]

#: A statement that takes far longer than any test.
LONG = "SELECT sum(sin(a.x) * cos(b.x)) AS s FROM arange(300000) a CROSS JOIN arange(300000) b"


def run(code: str, *, wait: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=wait,
    )


#: A statement of many small batches, for an hour.
FAST = "SELECT a.value * b.value AS v FROM range(100000) a, range(1000000) b WHERE a.value * b.value % 977 = 1"

STOPPED = """
import os, signal, threading, time
import tidegate as tg
con = tg.connect(devices="")
sent = []
def send():
    time.sleep(0.5)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
for _ in range({times}):
    threading.Thread(target=send).start()
    try:
        {run}
        raise SystemExit("it ended")
    except KeyboardInterrupt:
        print(time.monotonic() - sent[-1])
    assert con.sql("SELECT 1 AS x").item() == 1
"""


@pytest.mark.parametrize(
    "how",
    [
        "con.sql(LONG).collect()",
        "con.sql(LONG).to_pandas()",
        "con.sql(LONG).to_arrow_reader().read_all()",
        "__import__('pyarrow').table(con.sql(LONG))",
        "__import__('polars').DataFrame(con.sql(LONG))",
        # Batches come fast, so that no wait for one is long.
        "__import__('pyarrow').table(con.sql(FAST))",
        "__import__('polars').DataFrame(con.sql(FAST))",
        "con.execute('CREATE TABLE t AS ' + LONG)",
    ],
)
def test_ctrl_c_stops_a_statement(how):
    done = run(f"LONG = {LONG!r}\nFAST = {FAST!r}" + STOPPED.format(times=3, run=how))
    assert done.returncode == 0, done
    # Most of a second is for a machine that does other things: what waits looks every 50 ms.
    times = [float(line) for line in done.stdout.split()]
    assert len(times) == 3 and min(times) < 1.5, times


def test_a_child_of_fork_is_told(con):
    code = """
    import os
    import tidegate as tg
    con = tg.connect(devices="")
    con.sql("SELECT 1").collect()
    child = os.fork()
    if child == 0:
        try:
            con.sql("SELECT 1").collect()
        except tg.NotSupportedError as error:
            os._exit(7 if "spawn" in str(error) else 8)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    assert con.sql("SELECT 1 AS x").item() == 1
    """
    done = run(code)
    assert done.returncode == 0, done
    fresh = """
    import os
    import tidegate as tg
    child = os.fork()
    if child == 0:
        os._exit(tg.connect(devices="").sql("SELECT 5 AS x").item())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    """
    assert run(fresh).returncode == 0


def test_threads_share_a_connection(con):
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mine = pa.table({"x": [number] * 10})
            for _ in range(30):
                assert con.sql("SELECT sum(x) AS s FROM mine").item() == 10 * number
        except BaseException as error:
            failed.append(error)
        assert mine.num_rows == 10

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_python_runs_while_a_statement_does(con):
    count = 0
    future = con.submit(LONG)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        count += 1
    assert count > 1000 and not future.done()
    future.cancel()
    with pytest.raises(tg.CancelledError):
        future.result()


def test_futures(con):
    future = con.submit("SELECT 3 AS x")
    called = threading.Event()
    assert future.result(60).to_arrow().to_pylist() == [{"x": 3}]
    future.add_done_callback(lambda _: called.set())
    assert called.wait(60) and future.done() and future.exception() is None
    slow = con.submit(LONG)
    ended = threading.Event()
    slow.add_done_callback(lambda _: ended.set())
    with pytest.raises(TimeoutError):
        slow.result(0.05)
    for _ in range(200):
        told = slow.progress()
        if told is not None:
            break
        time.sleep(0.05)
    assert told is not None and told["seconds"] >= 0
    slow.cancel()
    assert ended.wait(60)
    assert isinstance(slow.exception(), tg.CancelledError)


def test_asyncio(con):
    async def both() -> list[int]:
        first = con.sql("SELECT 1 AS x").collect_async()
        second = con.submit("SELECT 2 AS x")
        return [table.to_arrow()["x"][0].as_py() for table in [await first, await second]]

    assert asyncio.run(both()) == [1, 2]

    async def given_up() -> None:
        await asyncio.wait_for(con.sql(LONG).collect_async(), 0.3)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(given_up())

    async def wrong() -> None:
        await con.sql("SELECT 1 / x AS y FROM (VALUES (0)) AS v(x)").collect_async()

    with pytest.raises(tg.SqlError):
        asyncio.run(wrong())


def test_many_queries_leak_nothing():
    code = """
    import os
    import pyarrow as pa
    import tidegate as tg
    con = tg.connect(devices="", threads=2)
    data = pa.table({"x": list(range(1000)), "s": ["text"] * 1000})
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    def go(times):
        for number in range(times):
            con.sql("SELECT s, sum(x) AS n FROM data WHERE x > $1 GROUP BY s", [number % 100]).to_arrow()
    go(400)
    before = resident()
    go(800)
    grown = resident() - before
    assert grown < 24_000_000, grown
    """
    done = run(code, wait=300)
    assert done.returncode == 0, done


def test_notebooks_see_a_bounded_table(con):
    frame = con.sql("SELECT x, '<b>' AS t, repeat('y', 1000) AS long FROM arange(100)")
    shown = frame._repr_html_()
    assert shown.count("<tr>") == 21 and "&lt;b&gt;" in shown and "y" * 201 not in shown
    assert "lazy" in repr(frame) and "x: " in repr(frame)
    assert "NULL" in con.sql("SELECT NULL AS x")._repr_html_()
    assert "division by zero" in con.sql("SELECT 1 / (x - x) AS y FROM arange(5)")._repr_html_()
    assert "(2 rows)" in repr(con.sql("SELECT x FROM arange(2)").collect())


def test_a_long_frame_is_shown_without_rows(con, monkeypatch):
    monkeypatch.setattr("tidegate._frame._SHOWN_SECONDS", 0.3)
    began = time.monotonic()
    shown = con.sql(LONG)._repr_html_()
    assert "no rows within" in shown and "lazy" in shown
    assert time.monotonic() - began < 30


def test_magics():
    code = """
    from IPython.testing.globalipapp import start_ipython
    shell = start_ipython()
    shell.run_line_magic("load_ext", "tidegate")
    import tidegate as tg
    shell.user_ns["con"] = tg.connect(devices="")
    import pyarrow as pa
    shell.user_ns["data"] = pa.table({"x": [1, 2]})
    assert shell.run_line_magic("sql", "SELECT sum(x) AS s FROM data").item() == 3
    assert shell.run_cell_magic("sql", "", "SELECT max(x) AS m\\nFROM data").item() == 2
    assert shell.run_cell_magic("sql", "kept <<", "SELECT min(x) AS m FROM data") is None
    assert shell.user_ns["kept"].item() == 1
    """
    done = run(code)
    assert done.returncode == 0, done


def test_the_progress_bar_is_drawn_by_who_waits(con, monkeypatch, capfd):
    monkeypatch.setattr("tidegate._progress._AFTER", 0.05)
    monkeypatch.setattr(tg.options, "progress", True)
    con.sql("SELECT count(*) AS n FROM arange(3000) a CROSS JOIN arange(30000) b WHERE sin(a.x) > cos(b.x)").collect()
    assert "\r" in capfd.readouterr().err
    monkeypatch.setattr(tg.options, "progress", None)
    con.sql("SELECT 1").collect()
    assert capfd.readouterr().err == ""


def test_python_functions_in_frames_and_sql(con):
    @tg.udf(returns="float64")
    def share(part, whole):
        """A quotient."""
        return pc.divide(part, whole)

    frame = con.from_dict({"a": [1.0, 2.0, None], "b": [2.0, 4.0, 8.0]})
    assert frame.select(share("a", "b").alias("s")).to_pylist() == [{"s": 0.5}, {"s": 0.5}, {"s": None}]
    assert frame.filter(share(col("a"), 4.0) > 0.3).count() == 1
    con.create_function("share_of", share)
    assert con.sql("SELECT share_of(1.0, 4.0) AS s").item() == 0.25
    assert con.sql("SELECT sum(share_of(a, b)) AS s FROM frame").item() == 1.0
    assert "share_of" in con.functions()

    @tg.udf(returns="int64", volatile=True)
    def as_numpy(x):
        return np.asarray(x) * 2

    big = con.sql("SELECT x FROM arange(100000)")
    assert big.select(as_numpy("x").sum()).item() == 9999900000

    @tg.udf(returns="int64")
    def too_few(x):
        return pa.array([1])

    with pytest.raises(tg.SqlError, match="gave 1 values for 3 rows"):
        frame.select(too_few("a")).collect()

    @tg.udf(returns="int64")
    def fails(x):
        raise ZeroDivisionError("on purpose")

    with pytest.raises(tg.SqlError, match="on purpose") as caught:
        frame.select(fails("a")).collect()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("returns", "values", "said"),
    [
        ("int64", ["a", "b"], "gave other values: Cannot cast string 'a' to value of Int64"),
        ("int8", [1, 1000], "gave other values: Can't cast value 1000 to type Int8"),
        ("int64", [1.5, 2.0], "gave other values: 1.5 is not a whole number"),
        ("int64", [1.0, float("nan")], "gave other values"),
    ],
)
def test_what_a_function_gives_is_of_its_type(con, returns, values, said):
    function = tg.udf(returns=returns)(lambda x: pa.array(values))
    frame = con.from_dict({"x": [1, 2]})
    with pytest.raises(tg.SqlError, match=said):
        frame.select(function("x")).collect()

    def mapped(batch: pa.RecordBatch) -> dict:
        return {"y": values}

    with pytest.raises(tg.SqlError, match="the function's column 'y' is to be"):
        frame.map_partitions(mapped, {"y": returns}).collect()


def test_whole_numbers_and_nulls_of_a_function_are_cast(con):
    function = tg.udf(returns="int8")(lambda x: pa.array([2.0, None]))
    made = con.from_dict({"x": [1, 2]}).select(function("x").alias("y")).collect().to_arrow()
    assert made.column("y").to_pylist() == [2, None]


def test_a_function_may_ask_the_engine_and_be_interrupted():
    code = """
    import os, signal, threading, time
    import pyarrow as pa
    import tidegate as tg
    con = tg.connect(devices="", threads=2)

    @tg.udf(returns="int64")
    def asks(x):
        return pa.array([con.sql("SELECT 5 AS v").item()] * len(x))

    assert con.sql("SELECT x FROM arange(10)").select(asks("x").sum()).item() == 50
    assert con.sql("SELECT x FROM arange(500000)").select(asks("x").sum()).item() == 2500000

    @tg.udf(returns="int64")
    def slow(x):
        time.sleep(0.05)
        return x

    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        con.sql("SELECT x FROM arange(10000000)").select(slow("x").sum()).collect()
        raise SystemExit("it ended")
    except KeyboardInterrupt:
        pass
    # Python ends while the function may still run.
    con.submit(con.sql("SELECT x FROM arange(10000000)").select(slow("x").sum()))
    time.sleep(0.3)
    """
    done = run(code)
    assert done.returncode == 0, done


def test_batches_are_mapped_by_python(con):
    frame = con.sql("SELECT x FROM arange(50000)")

    def double(batch: pa.RecordBatch) -> dict:
        return {"y": pc.multiply(batch.column("x"), 2)}

    mapped = frame.map_partitions(double, {"y": "int64"})
    assert mapped.schema == {"y": "Int64"}
    assert mapped.select(col("y").sum()).item() == 2499950000

    def fails(batch):
        raise RuntimeError("in the middle")

    with pytest.raises(tg.SqlError, match="in the middle") as caught:
        frame.map_partitions(fails, {"y": "int64"}).collect()
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(tg.SqlError, match="no column 'z'"):
        frame.map_partitions(double, {"z": "int64"}).collect()


def test_delayed_calls_run_once_and_beside_each_other(con):
    calls: list[str] = []

    @tg.delayed
    def number(x):
        calls.append(f"number {x}")
        return x

    @tg.delayed
    def total(values, more=0):
        return sum(values) + more

    one, two = number(1), number(2)
    result = total([one, two, one], more=total([two]))
    assert calls == []
    assert result.compute() == 6
    assert sorted(calls) == ["number 1", "number 2"]
    together = threading.Barrier(2, timeout=60)
    meet = tg.delayed(slots={"cpu": 0})(lambda: together.wait())
    assert sorted(tg.delayed(lambda *them: list(them))(meet(), meet()).compute(con)) == [0, 1]
    query = tg.delayed(lambda n: con.sql("SELECT $1 AS x", [n]).item())
    assert tg.delayed(max)(query(3), query(4)).compute() == 4

    @tg.delayed
    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        total([one, fails()]).compute()


def test_delayed_calls_are_tasks_of_a_session():
    con = tg.connect(devices="", task_slots={"cpu": 2, "one": 1})
    inside, most = [], []

    @tg.delayed(slots={"one": 1})
    def alone(x):
        inside.append(x)
        most.append(len(inside))
        inside.remove(x)
        return x

    assert tg.delayed(sum)([alone(n) for n in range(20)]).compute(con) == 190
    assert max(most) == 1
    attempts = []

    @tg.delayed(retries=2)
    def at_last():
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("not yet")
        return len(attempts)

    assert at_last().compute(con) == 3
    with pytest.raises(tg.ResourcesExhaustedError, match="no_such"):
        tg.delayed(slots={"no_such": 1})(int)().compute(con)
    with pytest.raises(tg.ResourcesExhaustedError, match="memory"):
        tg.delayed(memory=1 << 60)(int)().compute(con)
    # A call may compute others, although it has the only slots.
    nested = tg.delayed(slots={"one": 1})(lambda: alone(5).compute(con) + 1)
    assert nested().compute(con) == 6


def test_functions_are_submitted(con):
    one = con.submit(pow, 2, 5)
    two = con.submit(lambda x, *, y: x + y, one, y=con.submit("SELECT 3 AS n"))
    with pytest.raises(TypeError):
        two.result(timeout=30)
    three = con.submit(lambda x, table: x + table.to_arrow()["n"][0].as_py(), one, con.submit("SELECT 3 AS n"))
    assert (one.result(timeout=30), three.result(timeout=30)) == (32, 35)
    assert con.submit(tg.delayed(sum)([one, tg.delayed(int)("4")])).result(timeout=30) == 36
    many = [con.submit(lambda n: n * n, n) for n in range(50)]
    assert sorted(done.result() for done in futures.as_completed(many, timeout=60)) == [n * n for n in range(50)]

    async def awaited():
        return await con.submit(divmod, 7, 2)

    assert asyncio.run(awaited()) == (3, 1)
    failed = con.submit(lambda: 1 / 0)
    assert isinstance(failed.exception(timeout=30), ZeroDivisionError)
    after = con.submit(lambda x: x, failed)
    with pytest.raises(ZeroDivisionError):
        after.result(timeout=30)
    nested = con.submit(lambda: con.submit(abs, -3).result())
    assert nested.result(timeout=30) == 3
    made: list[int] = []
    inner = con.submit(lambda: con.submit(lambda x: made.append(x) or x + 1, one).result())
    assert (inner.result(timeout=30), made) == (33, [32])
    with pytest.raises(TypeError, match="for a function alone"):
        con.submit("SELECT 1", 2)


def test_submitted_calls_are_cancelled(con):
    free, begun = threading.Event(), []
    held = con.submit(tg.delayed(slots={"cpu": 0})(free.wait)(60))
    behind = con.submit(begun.append, held)
    assert not held.done() and held.running()
    assert behind.cancel() and behind.cancelled()
    assert futures.wait([behind], timeout=30).done == {behind}
    with pytest.raises(futures.CancelledError):
        behind.result()
    free.set()
    assert held.result(timeout=30) is True
    assert not held.cancel() and begun == []


def test_ctrl_c_ends_delayed_calls():
    code = """
        import signal, threading, time
        import tidegate as tg
        begun = threading.Event()
        @tg.delayed
        def slow():
            begun.set()
            time.sleep(2)
        later = []
        threading.Thread(target=lambda: (begun.wait(), signal.raise_signal(signal.SIGINT))).start()
        con = tg.connect(devices="")
        try:
            tg.delayed(later.append)(slow()).compute(con)
        except KeyboardInterrupt:
            print("ended", later)
    """
    assert run(code).stdout.strip() == "ended []"
