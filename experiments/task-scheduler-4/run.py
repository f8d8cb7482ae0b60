#!/usr/bin/env python3
"""Builds, runs and draws everything beside this script:

    python3 experiments/task-scheduler-4/run.py            # all of it
    python3 experiments/task-scheduler-4/run.py measured   # only what this machine measures, and the drawings

Needs cargo, OpenBLAS for cholesky, and perf for the profiles; without perf these stay as they are."""

import collections
import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import plot

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
EXAMPLES = TOP / "target/release/examples"
FUNCTIONS = 14
SECONDS = 5


def build(package, example):
    # With names for the profiler.
    command = ["cargo", "rustc", "--release", "-p", package, "--example", example, "--", "-C", "strip=none"]
    subprocess.run(command, check=True, cwd=TOP)
    return EXAMPLES / example


def write(name, command):
    print(f"{name} ...", file=sys.stderr, flush=True)
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    (HERE / name).write_text(told)


def profile(program, figure):
    """The functions in which the workers were found most often, with percent of all times they were looked at."""
    with tempfile.TemporaryDirectory() as place:
        data = f"{place}/perf.data"
        record = ["perf", "record", "--quiet", "-e", "cpu-clock", "-F", "997", "-o", data, "--"]
        subprocess.run([*record, program, "--profile", figure, str(SECONDS)], check=True, stdout=subprocess.DEVNULL)
        told = subprocess.run(
            ["perf", "script", "-i", data, "-F", "comm,ip,sym,dso"], check=True, capture_output=True, text=True
        ).stdout
    counts = collections.Counter()
    for line in told.splitlines():
        # The main thread only prepares the matrix and checks it.
        thread, _, rest = line.strip().partition(" ")
        if thread.startswith("castell-"):
            function, _, library = rest.strip().partition(" ")[2].rpartition(" (")
            kernel = "kernel" in library
            counts["kernel" if kernel else function if function != "[unknown]" else Path(library[:-1]).name] += 1
    total = counts.total()
    return [(function, count / total * 100) for function, count in counts.most_common(FUNCTIONS)]


def profiles(program):
    if shutil.which("perf") is None:
        print("perf is not installed: the profiles stay as they are", file=sys.stderr)
        return
    with open(HERE / "measured-profiles.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["figure", "machine", "part", "percent"])
        for figure in plot.PROFILES:
            print(f"profile {figure} ...", file=sys.stderr, flush=True)
            for function, percent in profile(program, figure):
                writer.writerow([figure, "measured", function, f"{percent:.2f}"])


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else "all"
    if only not in ("all", "measured", "virtual", "profiles") or len(sys.argv) > 2:
        sys.exit(__doc__)
    if only in ("all", "virtual"):
        virtual = build("castell-sched", "virtual_figures")
        write("virtual.csv", [virtual])
        write("virtual-profiles.csv", [virtual, "--profiles"])
    if only in ("all", "measured", "profiles"):
        measured = build("castell-tasks", "measured_figures")
        profiles(measured)
        if only != "profiles":
            write("measured.csv", [measured])
    plot.main()


if __name__ == "__main__":
    main()
