#!/usr/bin/env python3
"""Measures, records and simulates: writes measured.csv, predicted.csv and one-graph.svg beside this script.

    python3 experiments/one-graph/run.py target/release/castell target/release/examples/one_graph

Without arguments it only draws what was measured. Needs nothing but Python; the recorded graphs stay in a temporary folder, but for the smallest, which is kept."""

import csv
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

MACHINES = ["cpu:1", "cpu:2", "cpu:4", "cpu:8", "cpu:16", "numa:2 cpu:24"]
HERE = Path(__file__).parent


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


def drawing():
    with open(HERE / "measured.csv", newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["order"] == "2048"]
    with open(HERE / "predicted.csv", newline="") as file:
        predicted = [row for row in csv.DictReader(file) if row["order"] == "2048" and row["scheduler"] == "tree"]
    simulated, real = [], []
    for colour, row in enumerate(measured):
        of = f"tiles of {row['tile']}"
        curve = sorted([int(p["processors"]), float(p["ms"])] for p in predicted if p["tile"] == row["tile"])
        times = [[1, float(row["one_worker_ms"])], [2, float(row["two_workers_ms"])]]
        simulated.append({"name": f"{of}, simulated", "colour": colour, "points": curve})
        real.append({"name": "measured", "kind": "dots", "mark": "ring", "colour": colour, "points": times})
    draw(HERE / "one-graph.svg", "Cholesky, order 2048: recorded on one worker, simulated on more", width=720, x={"label": "processors", "scale": "log2", "ticks": [1, 2, 4, 8, 16, 48], "to": 48},
         y={"unit": "ms", "scale": "log10"}, panels=[{"height": 280, "series": simulated + real}])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(*sys.argv[1:])
    drawing()
