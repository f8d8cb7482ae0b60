#!/usr/bin/env python3
"""Draws figures 1 (splits.csv), 2 and 3 (histograms.csv) and 4 to 6 (slowdowns.csv) beside this script. Given what `castell place --split search
cg:1000 --simulate --json` has printed, it writes splits.csv first."""

import csv
import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = ["#0b6e99", "#d9730d", "#6a4c93", "#b3261e", "#2e7d32", "#8d6e63", "#000000"]
WIDTH, HEIGHT, LEFT, TOP = 380, 220, 60, 50
STYLE = (
    "<style>.ink{fill:#24292f}.paper{fill:#fff}.grid{stroke:#d0d5da}@media(prefers-color-scheme:dark)"
    "{.ink{fill:#e6edf3}.paper{fill:#16191d}.grid{stroke:#3a4149}}text{font:12px sans-serif}</style>"
)
here = Path(__file__).parent


def write(name, width, height, body):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    (here / name).write_text("\n".join([head, STYLE, paper, *body, "</svg>", ""]))


def size_axis(left, top, first, last, marks):
    x = lambda size: left + (math.log2(max(size, 2.0**first)) - first) / (last - first) * WIDTH
    out = []
    for power in range(first, last + 1, 3):
        out.append(f'<text class="ink" x="{x(2.0**power):.1f}" y="{top + HEIGHT + 16}" text-anchor="middle">2^{power}</text>')
    for size in marks:
        out.append(f'<path class="grid" stroke-dasharray="4 3" d="M{x(size):.1f} {top}V{top + HEIGHT}"/>')
    return x, out


histograms = defaultdict(list)
for row in csv.DictReader((here / "histograms.csv").open()):
    histograms[row["program"]].append((float(row["from_bytes"]), float(row["to_bytes"]), float(row["accesses"])))
body = ['<text class="ink" x="60" y="20">Accesses by reuse distance in bytes (lowest bucket left out); dashed: 256 KiB and 20 MiB</text>']
for at, (name, buckets) in enumerate(histograms.items()):
    left = LEFT + at * (WIDTH + 60)
    x, axis = size_axis(left, TOP, 10, 29, (256 << 10, 20 << 20))
    body += [f'<text class="ink" x="{left}" y="{TOP - 10}">{escape(name)}</text>', *axis]
    shown = [b for b in buckets if b[0] >= 1024]
    most = max((b[2] for b in shown), default=1)
    for low, high, accesses in shown:
        tall = HEIGHT * accesses / most
        wide = max(x(high) - x(low), 1)
        body.append(f'<rect x="{x(low):.1f}" y="{TOP + HEIGHT - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" fill="{COLOURS[0]}"/>')
write("histograms.svg", LEFT + len(histograms) * (WIDTH + 60), TOP + HEIGHT + 40, body)

curves = [defaultdict(list), defaultdict(list)]
for row in csv.DictReader((here / "slowdowns.csv").open()):
    for curve, key in zip(curves, ("slowdown", "probe_slowdown")):
        curve[row["program"]].append((float(row["probe_mb"]), float(row[key])))
body = []
for at, (title, curve) in enumerate(zip(("4, 5: programs beside the probe", "6: the probe beside programs"), curves)):
    left = LEFT + at * (WIDTH + 60)
    most = max(value for points in curve.values() for _, value in points)
    y = lambda value: TOP + HEIGHT * (1 - (value - 0.9) / (most - 0.9))
    body.append(f'<text class="ink" x="{left}" y="{TOP - 10}">{title}, by MB of the probe</text>')
    for tick in (1, (1 + most) / 2, most):
        body.append(f'<path class="grid" d="M{left} {y(tick):.1f}H{left + WIDTH}"/>')
        body.append(f'<text class="ink" x="{left - 5}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
    for mb in (1, 2, 4, 8, 16, 32, 64):
        body.append(f'<text class="ink" x="{left + math.log2(mb) / 6 * WIDTH:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{mb}</text>')
    for colour, (name, points) in zip(COLOURS, curve.items()):
        path = "L".join(f"{left + math.log2(mb) / 6 * WIDTH:.1f} {y(value):.1f}" for mb, value in points)
        body.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
for at, name in enumerate(curves[0]):
    body.append(f'<text x="{LEFT + at % 4 * 200}" y="{TOP + HEIGHT + 40 + at // 4 * 16}" fill="{COLOURS[at]}">{escape(name)}</text>')
write("slowdowns.svg", LEFT + 2 * (WIDTH + 60), TOP + HEIGHT + 70, body)

if len(sys.argv) > 1:
    shares = json.loads(Path(sys.argv[1]).read_text())["shares"]
    rows = [[share["cores"][0], *(f"{of:.4f}" for of in (*share["efficiency"], share["combined"]))] for share in shares]
    with (here / "splits.csv").open("w") as file:
        csv.writer(file, lineterminator="\n").writerows([["search_cores", "search_efficiency", "cg_efficiency", "together"], *rows])
rows = [list(map(float, row)) for row in list(csv.reader((here / "splits.csv").open()))[1:]]
body = [f'<text class="ink" x="{LEFT}" y="{TOP - 10}">1: efficiency by cores of the search, of 16; the others have the solver</text>']
y = lambda value: TOP + HEIGHT * (1 - value / 1.25)
x = lambda cores: LEFT + (cores - 1) / 14 * WIDTH
for tick in (0, 0.5, 1):
    body.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{LEFT + WIDTH}"/>')
    body.append(f'<text class="ink" x="{LEFT - 5}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
for cores in range(1, 16, 2):
    body.append(f'<text class="ink" x="{x(cores):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{cores}</text>')
for at, name in enumerate(("search", "cg 1000^2", "together")):
    path = "L".join(f"{x(row[0]):.1f} {y(row[at + 1]):.1f}" for row in rows)
    body.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[at]}" stroke-width="2"/>')
    body.append(f'<text x="{LEFT + at * 120}" y="{TOP + HEIGHT + 40}" fill="{COLOURS[at]}">{name}</text>')
write("splits.svg", LEFT + WIDTH + 40, TOP + HEIGHT + 60, body)
