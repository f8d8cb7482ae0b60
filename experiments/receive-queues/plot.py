#!/usr/bin/env python3
"""Draws latency.svg, insertion-rounds.svg, insertion-flood.svg and memory.svg from the CSV files beside this script,
and writes tables.md.

Needs nothing but Python. The designs were measured in several turns: a point is the median over the turns of the turn's
quantile.
"""

import contextlib
import csv
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

COLOURS = {"scmp": "#0b6e99", "smsg": "#d9730d", "msgq": "#6a4c93", "rlock": "#b3261e", "lane": "#4d7c0f"}
WIDTH, HEIGHT = 460, 340
LEFT, RIGHT, TOP, BOTTOM = 76, 70, 40, 48


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


class Axis:
    """Maps values to pixels; logarithmic unless said otherwise."""

    def __init__(self, low, high, first, last, log=True):
        self.log, self.first, self.last = log, first, last
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)

    def __call__(self, value):
        at = math.log10(value) if self.log else value
        return self.first + (at - self.low) / (self.high - self.low) * (self.last - self.first)


def text(x, y, content, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{content}</text>'


def spread(labels):
    """Moves labels apart that would lie on each other."""
    placed = []
    for y, name in sorted(labels):
        placed.append((max(y, placed[-1][0] + 12) if placed else y, name))
    return placed


def panel(left, title, series, x, y, x_label, y_label, x_ticks, y_ticks, lines=()):
    """One diagram: series is design -> {x: y}, lines are (design, x0, y0, x1, y1)."""
    out = [text(left + (LEFT + WIDTH - RIGHT) / 2, 20, title, more='font-weight="600"')]
    for value, label in y_ticks:
        out.append(f'<line x1="{x.first:.1f}" x2="{x.last:.1f}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        out.append(text(x.first - 6, y(value) + 4, label, "end"))
    for value, label in x_ticks:
        out.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{y.first:.1f}" y2="{y.first + 4:.1f}" stroke="#555"/>')
        out.append(text(x(value), y.first + 17, label))
    out.append(f'<line x1="{x.first:.1f}" x2="{x.last:.1f}" y1="{y.first:.1f}" y2="{y.first:.1f}" stroke="#555"/>')
    out.append(text((x.first + x.last) / 2, y.first + 36, x_label))
    middle = (y.first + y.last) / 2
    out.append(text(left + 14, middle, y_label, more=f'transform="rotate(-90 {left + 14} {middle:.1f})"'))
    for design, x0, y0, x1, y1 in lines:
        out.append(
            f'<line x1="{x(x0):.1f}" y1="{y(y0):.1f}" x2="{x(x1):.1f}" y2="{y(y1):.1f}" stroke="{COLOURS[design]}" '
            'stroke-dasharray="2 4"/>'
        )
    labels = []
    for design, by in series.items():
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in by.items())
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[design]}" stroke-width="1.8"/>')
        for a, b in by.items():
            out.append(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.4" fill="{COLOURS[design]}"/>')
        last = list(by)[-1]
        labels.append((y(by[last]) + 4, (x(last) + 6, design)))
    for at, (right, design) in spread(labels):
        out.append(text(right, at, design, "start", f'fill="{COLOURS[design]}" font-weight="600"'))
    return "\n".join(out)


def frame(left):
    return left + LEFT, left + WIDTH - RIGHT


def write(path, panels):
    width = WIDTH * len(panels)
    body = "\n".join(panels)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def decades(low, high, unit):
    return [(10**e, unit(10**e)) for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def nanoseconds(value):
    return f"{value / 1e6:g} ms" if value >= 1e6 else f"{value / 1e3:g} µs" if value >= 1e3 else f"{value:g} ns"


def size(value):
    for bound, unit in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]:
        if value >= bound:
            return f"{value / bound:g} {unit}"
    return f"{value:g} B"


def bounds(*series):
    values = [value for s in series for by in s.values() for value in by.values()]
    return 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))


def latency(folder):
    rows = [row for row in read(folder, "latency.csv") if float(row["bytes"]) > 0]
    series = points(rows, "bytes", "median_ns")
    low, high = bounds(series)
    x, y = Axis(8, 8192, *frame(0)), Axis(low, high, HEIGHT - BOTTOM, TOP)
    ticks = [(v, size(v)) for v in (8, 64, 512, 4096)]
    write(folder / "latency.svg", [panel(0, "Ping-pong between two processes, half a round trip, median", series, x, y,
          "payload", "time", ticks, decades(low, high, nanoseconds))])
    return series


def insertion(folder, load):
    rows = [row for row in read(folder, "insertion.csv") if row["load"] == load]
    median, p99 = points(rows, "producers", "median_ns"), points(rows, "producers", "p99_ns")
    low, high = bounds(median, p99)
    panels = []
    for i, (title, series) in enumerate([("median", median), ("99th percentile, with linear regression", p99)]):
        x = Axis(0, 32, *frame(i * WIDTH), log=False)
        y = Axis(low, high, HEIGHT - BOTTOM, TOP)
        lines = []
        if i == 1:
            for design, by in series.items():
                # Straight in a linear diagram, bent in this one.
                rise, start = slope(by)
                at = [(v, start + rise * v) for v in range(1, 32, 2) if start + rise * v >= low]
                lines += [(design, *a, *b) for a, b in zip(at, at[1:])]
        panels.append(panel(i * WIDTH, f"{load}: insertion of 8 messages, {title}", series, x, y, "producers",
                            "time", [(v, v) for v in (1, 8, 16, 24, 31)], decades(low, high, nanoseconds), lines))
    write(folder / f"insertion-{load}.svg", panels)
    return median, p99


def memory(folder):
    series = points(read(folder, "memory.csv"), "ranks", "bytes")
    low, high = 1 << 12, 1 << 26
    x, y = Axis(2, 10_000, *frame(0)), Axis(low, high, HEIGHT - BOTTOM, TOP)
    write(folder / "memory.svg", [panel(0, "Receive queue memory of a rank (msgq: 24 ranks a node)", series, x, y, "ranks",
          "bytes", [(v, v) for v in (2, 10, 100, 1000, 10_000)], [(1 << e, size(1 << e)) for e in range(12, 27, 2)])])
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
