#!/usr/bin/env python3
"""Draws figures 5 to 8 (errors of the predictors, sorted) from table-2.json and kernels.json, which `castell predict --json` printed."""

import json
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = ["#0b6e99", "#d9730d", "#6a4c93", "#b3261e"]
WIDTH, HEIGHT, LEFT, TOP = 330, 220, 60, 50
STYLE = (
    "<style>.ink{fill:#24292f}.paper{fill:#fff}.grid{stroke:#d0d5da}@media(prefers-color-scheme:dark)"
    "{.ink{fill:#e6edf3}.paper{fill:#16191d}.grid{stroke:#3a4149}}text{font:12px sans-serif}</style>"
)


def panel(left, title, curves):
    """Share of the pairs (x) whose error is at most y, up to 100 %."""
    out = [f'<text class="ink" x="{left}" y="{TOP - 10}">{escape(title)}</text>']
    for percent in (5, 30, 50, 100):
        y = TOP + HEIGHT * (1 - percent / 100)
        out.append(f'<path class="grid" d="M{left} {y:.1f}H{left + WIDTH}"/>')
        out.append(f'<text class="ink" x="{left - 5}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for at, (name, errors) in enumerate(curves.items()):
        count = len(errors)
        points = [(left + WIDTH * (i + 1) / count, TOP + HEIGHT * (1 - min(e, 1))) for i, e in enumerate(errors)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[at]}" stroke-width="2"/>')
        out.append(f'<text x="{left}" y="{TOP + HEIGHT + 20 + 16 * at}" fill="{COLOURS[at]}">{escape(name)}</text>')
    return out


here = Path(__file__).parent
for suite in ("table-2", "kernels"):
    predictors = {p["name"]: p for p in json.loads((here / f"{suite}.json").read_text())["predictors"]}
    names = [n for n in predictors if n != "SCN, by program" and "tells" not in n]
    panels = [("5: all pairs", {n: predictors[n]["errors"] for n in names})]
    for figure, at, letter in ((6, 0, "S"), (7, 1, "C"), (8, 2, "N")):
        curves = {n: predictors[n]["errors_beside_s_c_n"][at] for n in ("SCN, by pair", "sharing")}
        panels.append((f"{figure}: beside class {letter}", curves))
    width = LEFT + len(panels) * (WIDTH + 60)
    body = [f'<text class="ink" x="{LEFT}" y="20">Relative errors, sorted, over the share of the pairs ({suite})</text>']
    for at, (title, curves) in enumerate(panels):
        body += panel(LEFT + at * (WIDTH + 60), title, curves)
    height = TOP + HEIGHT + 90
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    (here / f"errors-{suite}.svg").write_text("\n".join([head, STYLE, paper, *body, "</svg>", ""]))
