#!/usr/bin/env python3
"""Draws the error of predictions over a simulated day: plot.py day.csv day.svg"""

import csv
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from figures import draw

rows = list(csv.DictReader(open(sys.argv[1])))
# Hours differ in how much is seen: three hours together, weighted by it.
parts = [rows[at : at + 3] for at in range(0, 24, 3)]


def mean(part, name):
    count = sum(int(row["observations"]) for row in part)
    return sum(100 * float(row[name]) * int(row["observations"]) for row in part) / count if count else None


lines = {name: [[3 * at + 1.5, mean(part, f"{name} (truth)")] for at, part in enumerate(parts)] for name in ("learned", "median", "no contention")}
draw(sys.argv[2], "Mean error of predictions against the truth", subtitle="three hours each of a simulated day", width=720,
     x={"unit": "h", "from": 0, "to": 24, "ticks": list(range(0, 25, 3))}, y={"unit": "%", "from": 0},
     series=[{"name": name, "points": points} for name, points in lines.items()])
