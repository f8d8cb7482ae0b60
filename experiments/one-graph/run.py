#!/usr/bin/env python3
"""Measures, records and simulates: writes measured.csv, predicted.csv and one-graph.svg beside this script.

    python3 experiments/one-graph/run.py target/release/castell target/release/examples/one_graph

Needs nothing but Python; the recorded graphs stay in a temporary folder, but for the smallest, which is kept."""

import csv
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MACHINES = ["cpu:1", "cpu:2", "cpu:4", "cpu:8", "cpu:16", "numa:2 cpu:24"]
COLOURS = {256: "#0b6e99", 128: "#d9730d", 64: "#6a4c93"}
HERE = Path(__file__).parent
WIDTH, HEIGHT, LEFT, TOP = 460, 300, 64, 44


def processors(machine):
    numbers = [int(part.split(":")[1]) for part in machine.split()]
    return math.prod(numbers)


def measure(castell, example):
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run([example, folder], check=True, capture_output=True, text=True).stdout
        (HERE / "measured.csv").write_text(told)
        measured = list(csv.DictReader(told.splitlines()))
        predicted = []
        for row in measured:
            graph = f"{folder}/{row['order']}-{row['tile']}.goal"
            for scheduler in ["tree", "central"]:
                command = [castell, "tasks", "simulate", graph, "--json", "--scheduler", scheduler]
                command += [word for machine in MACHINES for word in ("--machine", machine)]
                for one in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout):
                    predicted.append(
                        {
                            "order": row["order"],
                            "tile": row["tile"],
                            "scheduler": scheduler,
                            "processors": processors(one["machine"]),
                            "ms": f"{one['time_ns'] / 1e6:.3f}",
                            "longest_ms": f"{one['longest_ns'] / 1e6:.3f}",
                        }
                    )
        shutil.copy(f"{folder}/512-128.goal", HERE / "512-128.goal")
    with open(HERE / "predicted.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, predicted[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(predicted)


def draw():
    with open(HERE / "measured.csv", newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["order"] == "2048"]
    with open(HERE / "predicted.csv", newline="") as file:
        predicted = [row for row in csv.DictReader(file) if row["order"] == "2048" and row["scheduler"] == "tree"]
    times = [float(row["ms"]) for row in predicted] + [float(row["one_worker_ms"]) for row in measured]
    low, high = math.floor(math.log2(min(times))), math.ceil(math.log2(max(times)))
    x = lambda cpus: LEFT + math.log2(cpus) / math.log2(48) * WIDTH
    y = lambda ms: TOP + HEIGHT - (math.log2(ms) - low) / (high - low) * HEIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {TOP + HEIGHT + 70}" '
        'font-family="sans-serif" font-size="11">',
        "<style>.ink{fill:#24292f}.paper{fill:#fff}.grid{stroke:#d0d5da}@media(prefers-color-scheme:dark)"
        "{.ink{fill:#e6edf3}.paper{fill:#16191d}.grid{stroke:#3a4149}}</style>",
        f'<rect class="paper" width="{LEFT + WIDTH + 90}" height="{TOP + HEIGHT + 70}"/>',
        f'<text class="ink" x="{LEFT}" y="22" font-size="13">Cholesky, order 2048: recorded on one worker, simulated on more</text>',
    ]
    for power in range(low, high + 1):
        out.append(f'<path class="grid" d="M{LEFT} {y(2.0**power):.1f}h{WIDTH}"/>')
        out.append(f'<text class="ink" x="{LEFT - 6}" y="{y(2.0**power) + 4:.1f}" text-anchor="end">{2**power} ms</text>')
    for cpus in [1, 2, 4, 8, 16, 48]:
        out.append(f'<text class="ink" x="{x(cpus):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{cpus}</text>')
    out.append(
        f'<text class="ink" x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">processors (lines: simulated; circles: measured)</text>'
    )
    lowest = -1e9
    for row in sorted(measured, key=lambda row: -min(float(p["ms"]) for p in predicted if p["tile"] == row["tile"])):
        tile = int(row["tile"])
        curve = sorted((int(p["processors"]), float(p["ms"])) for p in predicted if int(p["tile"]) == tile)
        path = "L".join(f"{x(cpus):.1f} {y(ms):.1f}" for cpus, ms in curve)
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[tile]}" stroke-width="2"/>')
        lowest = max(y(curve[-1][1]) + 4, lowest + 13)  # labels do not lie on each other
        out.append(f'<text class="ink" x="{x(48) + 8:.1f}" y="{lowest:.1f}">tiles of {tile}</text>')
        for cpus, ms in [(1, float(row["one_worker_ms"])), (2, float(row["two_workers_ms"]))]:
            out.append(
                f'<circle cx="{x(cpus):.1f}" cy="{y(ms):.1f}" r="5" fill="none" stroke="{COLOURS[tile]}" stroke-width="2"/>'
            )
    (HERE / "one-graph.svg").write_text("\n".join([*out, "</svg>"]) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(*sys.argv[1:])
    draw()
