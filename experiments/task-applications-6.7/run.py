#!/usr/bin/env python3
"""Runs applications under both schedulers, records them, simulates 48 processors: writes results.csv and 6.7.svg beside this script.

    cargo build --release -p castell --examples && cargo build --release -p castell-cli
    python3 experiments/task-applications-6.7/run.py target/release

Needs nothing but Python and taskset. Minutes. With --draw it only draws what results.csv has."""

import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

HERE = Path(__file__).parent
ROUNDS = 5
SCHEDULERS = {"original": "central:priority", "ours": "tree"}
MACHINE = "numa:2 cpu:24"
APPLICATIONS = {
    "n queens": ["tasks_nqueens", "11", "4"],
    "multisort": ["tasks_multisort", "4194304", "1024"],
    "heat": ["tasks_heat", "32", "32", "20"],
    "sparse LU": ["tasks_sparselu", "40", "32"],
    "sparse LU, fine": ["tasks_sparselu", "40", "12"],
}
MS = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "ns": 1e-6}


def run(folder, command, scheduler, prefix=(), **more):
    """One run: its own time in ms, and how many tasks it says."""
    program = [*prefix, str(folder / "examples" / command[0]), *command[1:]]
    environment = dict(os.environ, CASTELL_TASKS_SCHEDULER=scheduler, **more)
    told = subprocess.run(program, check=True, capture_output=True, text=True, env=environment).stdout
    time, unit = re.search(r" in ([0-9.]+)(s|ms|µs|ns)$", told.strip()).groups()
    return float(time) * MS[unit]


def measure(folder):
    rows = []
    for name, command in APPLICATIONS.items():
        times = {subject: [] for subject in SCHEDULERS}
        for _ in range(ROUNDS):
            for subject, scheduler in SCHEDULERS.items():
                times[subject].append(run(folder, command, scheduler))
        for subject, all_of_them in times.items():
            rows.append((name, "this machine", subject, statistics.median(all_of_them)))
        with tempfile.TemporaryDirectory() as place:
            graph = f"{place}/graph.goal"
            run(folder, command, "tree", ("taskset", "-c", "0"), CASTELL_TASKS_RECORD=graph)
            simulate = [folder / "castell", "tasks", "simulate", graph, "--machine", MACHINE, "--json"]
            for subject, scheduler in SCHEDULERS.items():
                told = subprocess.run(
                    [*simulate, "--scheduler", scheduler], check=True, capture_output=True, text=True
                ).stdout
                rows.append((name, "48 simulated", subject, json.loads(told)[0]["time_ns"] / 1e6))
        print(name, *(f"{where} {subject} {ms:.2f} ms;" for _, where, subject, ms in rows[-4:]), flush=True)
    with open(HERE / "results.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["application", "machine", "subject", "ms"])
        writer.writerows((name, where, subject, f"{ms:.3f}") for name, where, subject, ms in rows)


def drawing():
    with open(HERE / "results.csv", newline="") as file:
        times = {(row["application"], row["machine"], row["subject"]): float(row["ms"]) for row in csv.DictReader(file)}
    places = {"this machine": "this machine, 2 processors", "48 simulated": "48, simulated"}
    faster = lambda name, where: times[name, where, "original"] / times[name, where, "ours"]
    draw(HERE / "6.7.svg", "Times faster than the original scheduler", width=640, x={"base": 1},
         series=[{"name": text, "kind": "bars", "labels": True, "points": [[faster(name, where), name] for name in APPLICATIONS]} for where, text in places.items()])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] != "--draw":
        measure(Path(sys.argv[1]))
    drawing()
