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


def draw():
    with open(HERE / "results.csv", newline="") as file:
        times = {(row["application"], row["machine"], row["subject"]): float(row["ms"]) for row in csv.DictReader(file)}
    left, top, step, width = 130, 56, 44, 360
    ratios = {
        (name, where): times[name, where, "original"] / times[name, where, "ours"]
        for name in APPLICATIONS
        for where in ("this machine", "48 simulated")
    }
    most = max(2.0, *ratios.values())
    x = lambda ratio: left + width * min(ratio, most) / most
    height = top + step * len(APPLICATIONS) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 60} {height}" font-family="sans-serif" font-size="12">',
        "<style>.ink{fill:#222}.line{stroke:#999}.a{fill:#0b6e99}.b{fill:#d9730d}"
        "@media(prefers-color-scheme:dark){.ink{fill:#ddd}.line{stroke:#666}}</style>",
        f'<text class="ink" x="{left}" y="18">times faster than the original scheduler</text>',
        f'<rect class="a" x="{left}" y="28" width="10" height="10"/><text class="ink" x="{left + 16}" y="37">this machine, 2 processors</text>',
        f'<rect class="b" x="{left + 190}" y="28" width="10" height="10"/><text class="ink" x="{left + 206}" y="37">48, simulated</text>',
    ]
    for number, name in enumerate(APPLICATIONS):
        y = top + number * step
        out.append(f'<text class="ink" x="{left - 8}" y="{y + 22}" text-anchor="end">{name}</text>')
        for at, (where, colour) in enumerate((("this machine", "a"), ("48 simulated", "b"))):
            ratio = ratios[name, where]
            out.append(f'<rect class="{colour}" x="{left}" y="{y + at * 17}" width="{x(ratio) - left:.1f}" height="14"/>')
            out.append(f'<text class="ink" x="{x(ratio) + 5:.1f}" y="{y + at * 17 + 11}">{ratio:.2f}</text>')
    out.append(f'<path class="line" d="M{x(1):.1f} {top - 6}V{height - 34}"/>')
    out.append("</svg>\n")
    (HERE / "6.7.svg").write_text("\n".join(out))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] != "--draw":
        measure(Path(sys.argv[1]))
    draw()
