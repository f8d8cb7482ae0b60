"""Draws ratios.svg and writes table.md from run-*.json: python3 experiments/two-levels/plot.py"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

HERE = pathlib.Path(__file__).parent
RUNS = [json.loads(file.read_text()) for file in sorted(HERE.glob("run-*.json"))]


def label(row):
    size = "" if row["program"].startswith("barrier") else f" {row['bytes']} B"
    return f"{row['program']}{size}, {row['ranks']} ranks on {row['hosts']} hosts"


def table():
    lines = ["| program | run | predicted us | measured us: least, median | clocks' error us | predicted / measured: least, median |", "|---|---|---|---|---|---|"]
    for rows in zip(*RUNS):
        for number, row in enumerate(rows, 1):
            least, median = row["predicted_ns"] / row["min_ns"], row["predicted_ns"] / row["median_ns"]
            lines.append(f"| {label(row) if number == 1 else ''} | {number} | {row['predicted_ns'] / 1e3:.1f} | {row['min_ns'] / 1e3:.1f}, {row['median_ns'] / 1e3:.1f} | "
                         f"{row['clock_error_ns'] / 1e3:.1f} | {least:.2f}, {median:.2f} |")
    return "\n".join(lines) + "\n"


def drawing():
    series = []
    for colour, rows in enumerate(RUNS):
        for of, mark, key in (("the least of 30 rounds", "ring", "min_ns"), ("their median", "cross", "median_ns")):
            points = [[row["predicted_ns"] / row[key], label(row)] for row in rows]
            series.append({"name": f"run {colour + 1}: {of}", "kind": "dots", "mark": mark, "colour": colour, "points": points})
    draw(HERE / "ratios.svg", "Predicted over measured", width=860, x={"scale": "log2", "from": 1 / 16, "to": 4, "base": 1}, series=series)


(HERE / "table.md").write_text(table())
drawing()
