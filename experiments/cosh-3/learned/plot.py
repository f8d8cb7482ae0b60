#!/usr/bin/env python3
"""Draws the error of predictions over a simulated day: plot.py day.csv day.svg"""

import csv
import sys
from pathlib import Path

LEFT, TOP, WIDTH, HEIGHT = 60, 60, 640, 260
STYLE = (
    "<style>.ink{fill:#24292f}.paper{fill:#fff}.grid{stroke:#d0d5da}@media(prefers-color-scheme:dark)"
    "{.ink{fill:#e6edf3}.paper{fill:#16191d}.grid{stroke:#3a4149}}text{font:12px sans-serif}</style>"
)
rows = list(csv.DictReader(open(sys.argv[1])))
lines = [("learned (truth)", "#0b6e99"), ("median (truth)", "#d9730d"), ("no contention (truth)", "#6a4c93")]
# Hours differ in how much is seen: three hours together, weighted by it.
parts = [rows[at : at + 3] for at in range(0, 24, 3)]


def mean(part, name):
    count = sum(int(row["observations"]) for row in part)
    return sum(float(row[name]) * int(row["observations"]) for row in part) / count if count else None


most = max(mean(part, name) or 0 for part in parts for name, _ in lines)
out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{TOP + HEIGHT + 50}" role="img">{STYLE}',
    '<rect class="paper" width="100%" height="100%"/>',
    f'<text class="ink" x="{LEFT}" y="20">mean error of predictions against the truth, three hours each of a simulated day</text>',
]
for percent in range(0, int(most * 100) + 10, 10):
    y = TOP + HEIGHT * (1 - percent / 100 / (most * 1.05))
    out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{LEFT + WIDTH}"/>')
    out.append(f'<text class="ink" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
for at in range(0, 25, 3):
    out.append(f'<text class="ink" x="{LEFT + WIDTH * at / 24:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{at} h</text>')
for number, (name, colour) in enumerate(lines):
    points = [((3 * at + 1.5) / 24, mean(part, name)) for at, part in enumerate(parts)]
    path = "L".join(f"{LEFT + WIDTH * x:.1f} {TOP + HEIGHT * (1 - y / (most * 1.05)):.1f}" for x, y in points if y is not None)
    out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    out.append(f'<text x="{LEFT + 200 * number}" y="{TOP - 18}" fill="{colour}">{name.replace(" (truth)", "")}</text>')
Path(sys.argv[2]).write_text("\n".join([*out, "</svg>"]) + "\n")
