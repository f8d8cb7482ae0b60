"""Draws barrier.svg and writes tables.md from data.json: python3 experiments/kernel-barrier/plot.py"""
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

HERE = pathlib.Path(__file__).parent
ROWS = json.loads((HERE / "data.json").read_text())
SUBJECTS = {"kernel": "in the kernel, by its clock", "process": "in the kernel, from process to process", "user": "castell over TCP", "open_mpi": "Open MPI over TCP"}
HOSTS = sorted({row["hosts"] for row in ROWS})


def times(hosts, busy, subject):
    return [row[subject] for row in ROWS if row["hosts"] == hosts and row["busy"] == busy]


def table():
    lines = ["us, median over the rounds of medians of runs (least, most)"]
    for busy, title in ((False, "Processors idle"), (True, "All processors compute")):
        lines += ["", title, "", "| hosts | " + " | ".join(SUBJECTS.values()) + " | process to process / Open MPI |", "|---|" + "---|" * (len(SUBJECTS) + 1)]
        for hosts in HOSTS:
            cells = [f"{statistics.median(found):.4g} ({min(found):.4g}, {max(found):.4g})" for found in (times(hosts, busy, subject) for subject in SUBJECTS)]
            ratio = statistics.median(times(hosts, busy, "process")) / statistics.median(times(hosts, busy, "open_mpi"))
            lines.append(f"| {hosts} | " + " | ".join(cells) + f" | {ratio:.3g} |")
    (HERE / "tables.md").write_text("\n".join(lines) + "\n")


def drawing():
    series = []
    for subject, name in SUBJECTS.items():
        for busy in (False, True):
            points = [[hosts, statistics.median(times(hosts, busy, subject))] for hosts in HOSTS]
            series.append({"name": f"{name}, all compute" if busy else name, "points": points, **({} if busy else {"dashed": True})})
    draw(HERE / "barrier.svg", "A barrier, processors idle and computing", width=860, x={"label": "hosts", "scale": "log2"},
         y={"label": "us", "scale": "log10"}, series=series)


table()
drawing()
