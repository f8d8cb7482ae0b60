#!/usr/bin/env python3
"""Draws figures 5 to 8 (errors of the predictors, sorted) from table-2.json and kernels.json, which `castell predict --json` printed."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw


def panel(title, curves):
    """Share of the pairs (x) whose error is at most y, up to 100 %."""
    share = lambda errors: [[100 * (at + 1) / len(errors), 100 * error] for at, error in enumerate(errors)]
    return {"title": title, "series": [{"name": name, "points": share(errors)} for name, errors in curves.items()]}


here = Path(__file__).parent
for suite in ("table-2", "kernels"):
    predictors = {p["name"]: p for p in json.loads((here / f"{suite}.json").read_text())["predictors"]}
    names = [n for n in predictors if n != "SCN, by program" and "tells" not in n]
    panels = [panel("5: all pairs", {n: predictors[n]["errors"] for n in names})]
    for figure, at, letter in ((6, 0, "S"), (7, 1, "C"), (8, 2, "N")):
        curves = {n: predictors[n]["errors_beside_s_c_n"][at] for n in ("SCN, by pair", "sharing")}
        panels.append(panel(f"{figure}: beside class {letter}", curves))
    draw(here / f"errors-{suite}.svg", f"Relative errors, sorted, over the share of the pairs ({suite})", columns=2, panels=panels,
         x={"label": "share of the pairs", "unit": "%", "from": 0, "to": 100}, y={"label": "error", "unit": "%", "from": 0, "to": 100})
