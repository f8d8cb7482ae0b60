"""Draws ratios.svg and writes table.md from run-*.json: python3 experiments/two-levels/plot.py"""
import json
import math
import pathlib

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
    left, width, step = 390, 420, 18
    height = 60 + step * len(RUNS[0])
    x = lambda ratio: left + width * (math.log2(min(max(ratio, 1 / 16), 4)) + 4) / 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 30}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="18">predicted / measured: o the least of 30 rounds, x their median; a colour a run</text>']
    for power in range(-4, 3):
        ratio = 2.0 ** power
        out.append(f'<line x1="{x(ratio):.1f}" x2="{x(ratio):.1f}" y1="40" y2="{height - 14}" stroke="{"#444" if power == 0 else "#ddd"}"/>')
        out.append(f'<text x="{x(ratio):.1f}" y="36" text-anchor="middle">{ratio:g}</text>')
    for at, rows in enumerate(zip(*RUNS)):
        y = 54 + step * at
        out.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{label(rows[0])}</text>')
        for row, colour in zip(rows, ["#1b6ca8", "#c25b12"]):
            out.append(f'<circle cx="{x(row["predicted_ns"] / row["min_ns"]):.1f}" cy="{y}" r="4" fill="none" stroke="{colour}" stroke-width="2"/>')
            out.append(f'<text x="{x(row["predicted_ns"] / row["median_ns"]):.1f}" y="{y + 4}" text-anchor="middle" fill="{colour}">x</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


(HERE / "table.md").write_text(table())
(HERE / "ratios.svg").write_text(drawing())
