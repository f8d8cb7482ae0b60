#!/usr/bin/env python3
"""Draws figures 1 (splits.csv), 2 and 3 (histograms.csv) and 4 to 6 (slowdowns.csv) beside this script. Given what `castell place --split search
cg:1000 --simulate --json` has printed, it writes splits.csv first."""

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

here = Path(__file__).parent

histograms = defaultdict(list)
for row in csv.DictReader((here / "histograms.csv").open()):
    if float(row["from_bytes"]) >= 1024:
        histograms[row["program"]].append([float(row["from_bytes"]), float(row["to_bytes"]), float(row["accesses"])])
marks = [{"at": 256 << 10, "text": "256 KiB"}, {"at": 20 << 20, "text": "20 MiB"}]
draw(here / "histograms.svg", "Accesses by reuse distance in bytes", subtitle="from 1 KiB on", columns=2,
     x={"unit": "bytes", "scale": "log2", "marks": marks, "from": 1024, "to": 1 << 29},
     panels=[{"title": name, "y": {}, "series": [{"kind": "histogram", "points": buckets}]} for name, buckets in histograms.items()])

curves = [defaultdict(list), defaultdict(list)]
for row in csv.DictReader((here / "slowdowns.csv").open()):
    for curve, key in zip(curves, ("slowdown", "probe_slowdown")):
        curve[row["program"]].append([float(row["probe_mb"]), float(row[key])])
draw(here / "slowdowns.svg", "Slowdowns of programs and of a probe beside each other", columns=2, width=980,
     x={"label": "probe", "unit": "MB", "scale": "log2"},
     panels=[{"title": title, "y": {"label": "time / time alone", "base": 1}, "series": [{"name": name, "points": points} for name, points in curve.items()]}
             for title, curve in zip(("4, 5: programs beside the probe", "6: the probe beside programs"), curves)])

if len(sys.argv) > 1:
    shares = json.loads(Path(sys.argv[1]).read_text())["shares"]
    rows = [[share["cores"][0], *(f"{of:.4f}" for of in (*share["efficiency"], share["combined"]))] for share in shares]
    with (here / "splits.csv").open("w") as file:
        csv.writer(file, lineterminator="\n").writerows([["search_cores", "search_efficiency", "cg_efficiency", "together"], *rows])
rows = [list(map(float, row)) for row in list(csv.reader((here / "splits.csv").open()))[1:]]
draw(here / "splits.svg", "1: efficiency by cores of the search, of 16", subtitle="The others have the solver.", width=620,
     x={"label": "cores of the search", "ticks": list(range(1, 16, 2))}, y={"label": "efficiency", "from": 0, "base": 1},
     series=[{"name": name, "points": [[row[0], row[at + 1]] for row in rows]} for at, name in enumerate(("search", "cg 1000^2", "together"))])
