#!/usr/bin/env python3
"""Draws counts.svg and efficiency.svg and prints the means and the table, from schedules.csv beside this script.

"""

import csv
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw


def efficiency(row, cost, best="best_cost"):
    """Percent of the best schedule's speed; one rank has nothing to do."""
    return 100.0 if row["ranks"] == "1" else 100 * float(row[best]) / float(row[cost])


def main():
    folder = Path(__file__).parent
    with open(folder / "schedules.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    ranks = lambda value: [[int(row["ranks"]), value(row)] for row in rows]
    x = {"label": "ranks", "from": 0, "to": 1024, "ticks": list(range(0, 1025, 128))}
    # None has no place on a logarithmic axis.
    counted = lambda kind: {"name": kind, "kind": "dots", "points": ranks(lambda row: float(row[kind]) or None)}
    draw(folder / "counts.svg", "Schedules for a number of ranks (factors without order)", x=x, y={"scale": "log10", "from": 1},
         panels=[{"height": 260, "series": [counted(kind) for kind in ("factored", "collapsed", "merged")]}])
    names = {"recursive doubling": "doubling_cost", "heuristic, descending": "descending_cost", "heuristic": "heuristic_cost"}
    speeds = [{"name": name, "kind": "dots", "points": ranks(lambda row: efficiency(row, cost))} for name, cost in names.items()]
    draw(folder / "efficiency.svg", "Percent of the best schedule's speed, c = 2.911", x=x, y={"unit": "%", "from": 40, "to": 100},
         panels=[{"height": 260, "series": speeds}])

    def mean(cost, best):
        return sum(efficiency(row, cost, best) for row in rows) / len(rows)

    printed = ["doubling_cost", "descending_cost_printed", "heuristic_cost_printed"]
    for (name, cost), cost_printed in zip(names.items(), printed):
        print(f"{name}: {mean(cost, 'best_cost'):.2f} %, as printed {mean(cost_printed, 'best_cost_printed'):.2f} %")
    for row in rows[:50]:
        ours, theirs = efficiency(row, "heuristic_cost"), efficiency(row, "heuristic_cost_printed", "best_cost_printed")
        if min(ours, theirs) < 99.995:
            print(f"| {row['ranks']} | `{row['heuristic']}` | {theirs:.2f} | {ours:.2f} | `{row['best']}` |")


main()
