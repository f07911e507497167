"""Compares generated arrays and small tasks with Dask, two threads each.

    python3 -m venv env && env/bin/pip install 'dask[array]'
    cargo build --release -p tidegate-cli -p tidegate-benches
    env/bin/python benches/peers/dask_array.py sum   [--length 50000] [--rounds 3] [--threads 2]
    env/bin/python benches/peers/dask_array.py tasks [--count 1000000] [--rounds 1]

`sum` is `sum(x + 1)` over N(10, 1) of length by length, in chunks of 5,000 by 5,000, of which nothing is
left out: the statement of `tidegate -c` against Dask Array over NumPy. `tasks` makes trivial tasks, each
a call of its own, and adds up what they return. Rounds take turns, Dask first; what is printed is the
median of each and their ratio, of this run. Each answer is checked: a sum lies within ten standard errors
of 11 n, tasks add up to exactly n (n - 1) / 2. A wrong one ends the program with an error.

Both begin with the process that they run in: Dask's seconds are those of `compute()`, ours those of the
whole process, its start included, so that nothing is left out on our side.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary(name):
    path = ROOT / "target" / "release" / name
    if not path.exists():
        sys.exit(f"{path} is not there: cargo build --release -p tidegate-cli -p tidegate-benches")
    return str(path)


def check(name, given, wanted, within):
    if not abs(given - wanted) <= within:
        sys.exit(f"{name}: the answer is {given}, and should be {wanted} within {within}")


def process(command):
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return seconds, done.stdout.strip().splitlines()[-1]


def dask_sum(length, chunk, threads):
    import dask
    import dask.array

    values = dask.array.random.default_rng(42).normal(10, 1, (length, length), chunks=(chunk, chunk))
    with dask.config.set(scheduler="threads", num_workers=threads):
        began = time.perf_counter()
        total = (values + 1).sum().compute()
        return time.perf_counter() - began, float(total)


def tidegate_sum(length, chunk, threads):
    sql = (
        f"SELECT sum(x + 1) FROM random_normal([{length}, {length}], 10, 1, "
        f"chunks => [{chunk}, {chunk}], seed => 42)"
    )
    settings = ["--threads", str(threads), "--set", "tidegate.placement=host", "--quiet"]
    seconds, line = process([binary("tidegate"), *settings, "--format", "csv", "-c", sql])
    return seconds, float(line)


def dask_tasks(count, threads):
    import dask

    calls = [dask.delayed(int, pure=False)(number) for number in range(count)]
    with dask.config.set(scheduler="threads", num_workers=threads):
        began = time.perf_counter()
        values = dask.compute(*calls, optimize_graph=False)
        return time.perf_counter() - began, sum(values)


def tidegate_tasks(count, threads):
    seconds, line = process([binary("tasks"), str(count), str(threads)])
    return seconds, int(line.split()[0])


def compare(name, rounds, dask, tidegate):
    times = {"dask": [], "tidegate": []}
    for number in range(rounds):
        for engine, run in [("dask", dask), ("tidegate", tidegate)]:
            seconds = run()
            times[engine].append(seconds)
            print(f"{name}, round {number + 1}: {engine} {seconds:.2f} s", flush=True)
    medians = {engine: statistics.median(seconds) for engine, seconds in times.items()}
    ratio = medians["dask"] / medians["tidegate"]
    print(
        f"{name}: dask {medians['dask']:.2f} s, tidegate {medians['tidegate']:.2f} s, "
        f"{ratio:.1f} times as fast"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["sum", "tasks"])
    parser.add_argument("--length", type=int, default=50_000, help="of both dimensions")
    parser.add_argument("--chunk", type=int, default=5_000, help="length of a chunk, both dimensions")
    parser.add_argument("--count", type=int, default=1_000_000, help="of tasks")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    def summed(run):
        values = args.length**2
        seconds, total = run(args.length, args.chunk, args.threads)
        check(run.__name__, total, 11 * values, 10 * values**0.5)
        return seconds

    def counted(run):
        seconds, total = run(args.count, args.threads)
        check(run.__name__, total, args.count * (args.count - 1) // 2, 0)
        return seconds

    if args.what == "sum":
        name = f"sum(x + 1) of {args.length} x {args.length}, {args.threads} threads"
        compare(name, args.rounds, lambda: summed(dask_sum), lambda: summed(tidegate_sum))
    else:
        name = f"{args.count} tasks, {args.threads} threads"
        compare(name, args.rounds, lambda: counted(dask_tasks), lambda: counted(tidegate_tasks))


if __name__ == "__main__":
    main()
