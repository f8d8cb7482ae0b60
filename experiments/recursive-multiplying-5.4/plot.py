#!/usr/bin/env python3
"""Draws counts.svg and efficiency.svg and prints the means and the table, from schedules.csv beside this script.

Needs nothing but Python.
"""

import csv
import math
from pathlib import Path

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 40, 40
STYLE = (
    "<style>svg{font:12px system-ui,sans-serif;background:#fff;color:#222}text{fill:currentColor}"
    ".axis{stroke:#999}.title{font-weight:600}"
    "@media(prefers-color-scheme:dark){svg{background:#1b1d21;color:#ddd}.axis{stroke:#666}}</style>"
)


def efficiency(row, cost, best="best_cost"):
    """Percent of the best schedule's speed; one rank has nothing to do."""
    return 100.0 if row["ranks"] == "1" else 100 * float(row[best]) / float(row[cost])


def drawing(title, series, low, high, ticks, scale):
    """Points over the number of ranks; a series is (name, colour, values)."""

    def x(ranks):
        return LEFT + (WIDTH - LEFT - RIGHT) * ranks / 1024

    def y(value):
        share = (scale(value) - scale(low)) / (scale(high) - scale(low))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        f"{STYLE}<title>{title}</title>",
        f'<text class="title" x="{LEFT}" y="16">{title}</text>',
    ]
    for value in ticks:
        at = y(value)
        out.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    for ranks in range(0, 1025, 128):
        out.append(f'<text x="{x(ranks):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{ranks}</text>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">ranks</text>')
    for index, (name, colour, values) in enumerate(series):
        dots = "".join(f"M{x(ranks):.1f} {y(value):.1f}h0" for ranks, value in values if value >= low)
        out.append(f'<path d="{dots}" stroke="{colour}" stroke-width="2.4" stroke-linecap="round" fill="none"/>')
        left = LEFT + 170 * index
        out.append(f'<circle cx="{left}" cy="28" r="4" fill="{colour}"/><text x="{left + 8}" y="32">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    folder = Path(__file__).parent
    with open(folder / "schedules.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    colours = ["#0b6e99", "#d9730d", "#6a4c93"]
    kinds = ["factored", "collapsed", "merged"]
    counted = [
        (kind, colour, [(int(row["ranks"]), float(row[kind])) for row in rows])
        for kind, colour in zip(kinds, colours)
    ]
    ticks = [1, 10, 100, 1000, 10_000, 100_000]
    svg = drawing("Schedules for a number of ranks (factors without order)", counted, 1, 1e6, ticks, math.log)
    (folder / "counts.svg").write_text(svg)
    names = {"recursive doubling": "doubling_cost", "heuristic, descending": "descending_cost", "heuristic": "heuristic_cost"}
    speeds = [
        (name, colour, [(int(row["ranks"]), efficiency(row, cost)) for row in rows])
        for (name, cost), colour in zip(names.items(), ["#6a4c93", "#d9730d", "#0b6e99"])
    ]
    svg = drawing("Percent of the best schedule's speed, c = 2.911", speeds, 40, 100, range(40, 101, 10), float)
    (folder / "efficiency.svg").write_text(svg)

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
