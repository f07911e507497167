#!/usr/bin/env python3
"""Times the first use of Q6 and Q1 in new processes, each on cores that were quiet just before.

    python3 first_use.py BUNDLE [PROCESSES] [SECONDS]

BUNDLE is the folder of an unpacked `cargo xtask bundle` on a GPU host. Most of a first use is the
compiler's, on one thread. Where a virtual machine's cores are halves of real ones, it takes half as
long again while a neighbour uses the other half: so each process is bound to two cores on which a
counting loop took, just before, less than 1.15 times the least that it took on any so far. It runs
`bench-sql` with an empty cache folder, which checks the answers. No process is left out. Prints
milliseconds.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

CORES = sorted(os.sched_getaffinity(0))
LINE = re.compile(r"(Q[16]) +first time, text +([\d.]+)(?: +[\d.]+){4} +([\d.]+)")


def count():
    """Times a loop that needs nothing but a core."""
    start = time.perf_counter()
    total = 0
    for number in range(200_000):
        total += number * number
    return time.perf_counter() - start


def probe():
    """Times the loop on each core: the second and third time, so that the core is awake."""
    seconds = {}
    for core in CORES:
        os.sched_setaffinity(0, {core})
        count()
        seconds[core] = min(count(), count())
    os.sched_setaffinity(0, CORES)
    return seconds


def first_uses(bundle, cores):
    """Returns total and compiling times by query."""
    with tempfile.TemporaryDirectory() as home:
        command = ["./run", "bench-sql", "--rows", "5000000", "--runs", "1"]
        environment = {**os.environ, "HOME": home}
        environment.pop("XDG_CACHE_HOME", None)
        bound = ["taskset", "-c", ",".join(map(str, cores)), *command]
        done = subprocess.run(bound, cwd=bundle, env=environment, capture_output=True, text=True)
    found = {query: (float(total), float(part)) for query, total, part in LINE.findall(done.stdout)}
    if done.returncode != 0 or len(found) != 2:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    bundle = sys.argv[1]
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    deadline = time.monotonic() + (float(sys.argv[3]) if len(sys.argv) > 3 else 300)
    least = min(probe().values())
    times = {"Q6": [], "Q1": []}
    while len(times["Q6"]) < processes and time.monotonic() < deadline:
        seconds = probe()
        least = min(least, *seconds.values())
        quiet = [core for core in CORES if seconds[core] < 1.15 * least]
        if len(quiet) < 2:
            continue
        for query, (total, compiling) in first_uses(bundle, quiet[:2]).items():
            times[query].append(total)
            print(f"{query} {total:.1f}, of which compiling {compiling:.1f}", flush=True)
    for query, all_of_it in times.items():
        if all_of_it:
            low, high = min(all_of_it), max(all_of_it)
            middle = statistics.median(all_of_it)
            print(f"{query}: {len(all_of_it)} processes, {low:.1f} to {high:.1f}, median {middle:.1f}")


if __name__ == "__main__":
    main()
