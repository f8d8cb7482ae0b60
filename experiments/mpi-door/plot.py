"""Draws ratios.svg and writes tables.md from results.json: python3 experiments/mpi-door/plot.py"""
import json
import math
import pathlib

HERE = pathlib.Path(__file__).parent
ROWS = json.loads((HERE / "results.json").read_text())
MPIS = sorted({row["mpi"] for row in ROWS})
CASES = list(dict.fromkeys((row["ranks"], row["operation"], row["started"], row["bytes"]) for row in ROWS))
OF = {(row["ranks"], row["operation"], row["started"], row["bytes"], row["mpi"]): row for row in ROWS}


def label(case):
    ranks, operation, started, size = case
    return f"{'i' if started else ''}{operation}{'' if operation == 'barrier' else f' {size}'}, {ranks} ranks"


def table():
    lines = ["us with castell (ratio to the same MPI alone / to the best MPI alone)", ""]
    lines += ["| | " + " | ".join(MPIS) + " |", "|---" * (len(MPIS) + 1) + "|"]
    for case in CASES:
        cells = []
        for mpi in MPIS:
            row = OF[case + (mpi,)]
            text = f"{row['castell_ns'] / 1e3:.3g} ({row['ratio']:.2f} / {row['ratio_to_best']:.2f})"
            cells.append(f"**{text}**" if row["ratio"] > 1.05 else text)
        lines.append(f"| {label(case)} | " + " | ".join(cells) + " |")
    (HERE / "tables.md").write_text("\n".join(lines) + "\n")


def drawing():
    left, width, step, top = 150, 600, 14, 40
    height = top + step * len(CASES) + 20
    colours = ["#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#6a4c93"]

    def x(ratio):
        return left + width * (min(max(math.log2(ratio), -5), 2) + 5) / 7

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 30}" height="{height}" font-family="sans-serif" font-size="10">']
    out.append(f'<rect width="{left + width + 30}" height="{height}" fill="white"/>')
    for power in range(-5, 3):
        colour = "#333" if power == 0 else "#ddd"
        out.append(f'<line x1="{x(2.0**power)}" x2="{x(2.0**power)}" y1="{top - 8}" y2="{height - 15}" stroke="{colour}"/>')
        out.append(f'<text x="{x(2.0**power)}" y="{height - 4}" text-anchor="middle">{2.0**power:g}</text>')
    for at, mpi in enumerate(MPIS):
        out.append(f'<circle cx="{left + 110 * at}" cy="12" r="4" fill="{colours[at]}"/><text x="{left + 8 + 110 * at}" y="16">{mpi}</text>')
    for at, case in enumerate(CASES):
        y = top + step * at
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{label(case)}</text>')
        for which, mpi in enumerate(MPIS):
            out.append(f'<circle cx="{x(OF[case + (mpi,)]["ratio"]):.1f}" cy="{y}" r="3.5" fill="{colours[which]}" fill-opacity="0.8"/>')
    out.append("</svg>")
    (HERE / "ratios.svg").write_text("\n".join(out) + "\n")


table()
drawing()
