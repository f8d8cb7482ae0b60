#!/usr/bin/env python3
"""Draws latency.svg, insertion-rounds.svg, insertion-flood.svg and memory.svg from the CSV files beside this script,
and writes tables.md.

Needs nothing but Python. The designs were measured in several turns: a point is the median over the turns of the turn's
quantile.
"""

import contextlib
import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

DESIGNS = ["scmp", "smsg", "msgq", "rlock", "lane"]
def read(folder, name):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def points(rows, x, y):
    """By design: x -> median over the turns of y."""
    values = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values[row["design"]][float(row[x])].append(float(row[y]))
    return {d: {k: statistics.median(v) for k, v in sorted(by.items())} for d, by in values.items()}


def slope(by):
    """Least squares through (producers, time): ns a producer, and the value at none."""
    fit = statistics.linear_regression(list(by), list(by.values()))
    return fit.slope, fit.intercept


def lines(by_design, **more):
    """A colour a design, in all drawings."""
    of = lambda design: {"name": design, "colour": DESIGNS.index(design), **more}
    return [{**of(design), "points": [[a, b] for a, b in by.items()]} for design, by in by_design.items()]


def latency(folder):
    rows = [row for row in read(folder, "latency.csv") if float(row["bytes"]) > 0]
    series = points(rows, "bytes", "median_ns")
    draw(folder / "latency.svg", "Ping-pong between two processes, half a round trip, median", width=720, series=lines(series),
         x={"label": "payload", "unit": "bytes", "scale": "log2"}, y={"label": "time", "unit": "ns", "scale": "log10"})
    return series


def insertion(folder, load):
    rows = [row for row in read(folder, "insertion.csv") if row["load"] == load]
    median, p99 = points(rows, "producers", "median_ns"), points(rows, "producers", "p99_ns")
    least = min(value for by in (median, p99) for one in by.values() for value in one.values())
    regressions = {}
    for design, by in p99.items():
        # Straight in a linear diagram, bent in this one.
        rise, start = slope(by)
        regressions[design] = {v: start + rise * v for v in range(1, 32, 2) if start + rise * v >= least}
    straight = [{**line, "name": "", "dashed": True} for line in lines(regressions) if len(line["points"]) > 1]
    draw(folder / f"insertion-{load}.svg", f"{load}: insertion of 8 messages", columns=2, width=980,
         x={"label": "producers", "ticks": [1, 8, 16, 24, 31]}, y={"label": "time", "unit": "ns", "scale": "log10"},
         panels=[{"title": "median", "height": 260, "series": lines(median)},
                 {"title": "99th percentile; dashed: linear regression", "height": 260, "series": lines(p99) + straight}])
    return median, p99


def memory(folder):
    series = points(read(folder, "memory.csv"), "ranks", "bytes")
    draw(folder / "memory.svg", "Receive queue memory of a rank", subtitle="msgq: 24 ranks a node", width=720, series=lines(series),
         x={"label": "ranks", "scale": "log10", "from": 2}, y={"unit": "bytes", "scale": "log2"})
    return series


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    ways = latency(folder)
    median, p99 = insertion(folder, "rounds")
    flood_median, flood_p99 = insertion(folder, "flood")
    bytes_by = memory(folder)
    with open(folder / "tables.md", "w") as file, contextlib.redirect_stdout(file):
        print_tables(folder, ways, median, p99, flood_median, flood_p99, bytes_by)


def print_tables(folder, ways, median, p99, flood_median, flood_p99, bytes_by):
    print("# Receive queues: the numbers\n\nWritten by `plot.py`.\n")
    print("| design | half round trip 8 B | 1 KiB | 8 KiB |\n|---|---|---|---|")
    for design, by in ways.items():
        print(f"| {design} | " + " | ".join(f"{by[b]:.0f} ns" if b in by else "" for b in (8, 1024, 8192)) + " |")
    for name, m, p in [("rounds", median, p99), ("flood", flood_median, flood_p99)]:
        print(f"\n| {name} | median, 1 producer | 31 producers | p99, 1 producer | 31 producers | p99 slope a producer |")
        print("|---|---|---|---|---|---|")
        for design in m:
            cells = [m[design][1], m[design][31], p[design][1], p[design][31]]
            print(f"| {design} | " + " | ".join(f"{ns:.0f} ns" for ns in cells) + f" | {slope(p[design])[0]:+.0f} ns |")
    print("\n| flood | messages a second, 1 producer | 31 producers | p99.9, 31 producers |\n|---|---|---|---|")
    flood = [row for row in read(folder, "insertion.csv") if row["load"] == "flood"]
    rate, p999 = points(flood, "producers", "messages_per_second"), points(flood, "producers", "p999_ns")
    for design, by in rate.items():
        print(f"| {design} | {by[1] / 1e6:.1f} M | {by[31] / 1e6:.1f} M | {p999[design][31] / 1e3:.0f} µs |")
    print()
    print("| ranks | " + " | ".join(bytes_by) + " |\n|---" + "|---" * len(bytes_by) + "|")
    for ranks in (2, 64, 1024, 10_000):
        print(f"| {ranks} | " + " | ".join(f"{by[ranks] / 1024:.0f} KiB" for by in bytes_by.values()) + " |")


main()
