#!/usr/bin/env python3
"""Runs the TPC-H queries under a small memory limit, each in a process of its own, and prints the
peak of that process's resident memory.

    python3 memory_peak.py COMMAND FOLDER [--limit MB] [--queries 1,9,21] [--seconds S] [--threads N]

COMMAND is the `tidegate` binary, FOLDER has the eight tables as `TABLE.parquet`. The peak is that of
the whole process as the system counts it (`ru_maxrss`): the program's own pages and what the process
takes before any statement, which is printed first as `bare`, count too. The answer of each query is
compared with that of a run without a limit. What stays in the folder for spilled data is an error.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

QUERIES = pathlib.Path(__file__).parent / "src" / "tpch"
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def script(folder, query):
    """Returns the statements that register the tables and run a query."""
    tables = [
        f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{folder}/{table}.parquet';"
        for table in TABLES
    ]
    return "\n".join([*tables, query.rstrip().rstrip(";") + ";"])


def run(command, statements, seconds):
    """Runs statements in a process; returns its status, output, message, peak in MB and seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(statements)
        file.flush()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = time.monotonic()
            child = subprocess.Popen([*command, "-f", file.name], stdout=out, stderr=err)
            while True:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() - started > seconds:
                    child.kill()
                time.sleep(0.02)
            child.returncode = os.waitstatus_to_exitcode(status)
            took = time.monotonic() - started
            out.seek(0), err.seek(0)
            texts = out.read().decode(), err.read().decode().strip()
    return child.returncode, *texts, usage.ru_maxrss / 1024, took


def rounded(text):
    """Sorts the lines of a CSV; sums of floats differ in their last digits."""
    def field(value):
        try:
            return f"{float(value):.6g}" if "." in value else value
        except ValueError:
            return value
    return sorted(",".join(map(field, line.split(","))) for line in text.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("folder")
    parser.add_argument("--limit", type=int, default=200, help="MB")
    parser.add_argument("--queries", default=",".join(map(str, range(1, 23))))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--no-answers", action="store_true", help="compare no answers")
    arguments = parser.parse_args()
    folder = os.path.abspath(arguments.folder)
    threads = ["--threads", str(arguments.threads)] if arguments.threads else []
    plain = [arguments.command, "--format", "csv", "--quiet", *threads]
    answers = pathlib.Path(folder) / "answers"
    answers.mkdir(exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as spill:
        limits = ["--memory-limit", f"{arguments.limit}MB", "--temp-dir", spill]
        limited = [*plain, *limits]
        _, _, _, bare, _ = run(limited, script(folder, "SELECT 1"), arguments.seconds)
        print(f"bare: {bare:.0f} MB, limit {arguments.limit} MB")
        print("query  status  peak MB  of limit  seconds")
        for number in map(int, arguments.queries.split(",")):
            query = (QUERIES / f"q{number:02}.sql").read_text()
            answer = answers / f"q{number:02}.csv"
            if not arguments.no_answers and not answer.exists():
                status, out, err, _, _ = run(plain, script(folder, query), arguments.seconds)
                if status != 0:
                    sys.exit(f"query {number} fails without a limit: {err}")
                answer.write_text(out)
            status, out, err, peak, took = run(limited, script(folder, query), arguments.seconds)
            is_wrong = (
                status == 0
                and not arguments.no_answers
                and rounded(out) != rounded(answer.read_text())
            )
            left = os.listdir(spill)
            told = "wrong" if is_wrong else "ok" if status == 0 else "failed"
            share = peak / arguments.limit
            print(f"{number:5}  {told:6}  {peak:7.0f}  {share:8.2f}  {took:7.1f}  {err[-300:]}", flush=True)
            if left:
                print(f"       left in the folder: {left}")
            failed += told != "ok" or bool(left)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
