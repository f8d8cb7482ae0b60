"""Draws ratios.svg and writes tables.md from results.json: python3 experiments/mpi-door/plot.py"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

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
    of = lambda mpi: [[OF[case + (mpi,)]["ratio"], label(case)] for case in CASES]
    draw(HERE / "ratios.svg", "Time with castell over the same MPI's own", subtitle="Left of 1 castell is faster.", width=800,
         x={"scale": "log2", "from": 1 / 32, "to": 4, "base": 1}, series=[{"name": mpi, "kind": "dots", "points": of(mpi)} for mpi in MPIS])


table()
drawing()
