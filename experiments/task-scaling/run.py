"""What a task costs on 1 to all processors, under castell and the task runtimes that are installed.

    python3 experiments/task-scaling/run.py castell [--taskflow DIR] [--processors 16]      measures; minutes
    python3 experiments/task-scaling/run.py --read FILE.json...                             of `castell bench tasks --json`

    python3 experiments/task-scaling/run.py --draw                                          only scaling.svg, of scaling.csv

The others write scaling.csv, scaling.md and scaling.svg here. Medians; wall time over tasks.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

HERE = Path(__file__).parent
PROGRAMS = ["empty:tasks=100000", "fib:number=25", "axpy:elements=2097152,block=64", "axpy:elements=67108864,block=16384", "chains:tasks=50000", "wave:side=150", "chol:tiles=32"]
TITLES = {
    "empty": "one creator, empty tasks", "fib": "recursion with a wait in each task (Fibonacci)", "axpy 64": "a tree of halves, leaves of 64 elements",
    "axpy 16384": "a tree of halves, leaves of 16,384 elements", "chains": "one creator, 64 chains, empty tasks", "wave": "one creator, a wave front, empty tasks",
    "chol": "one creator, the graph of a Cholesky factorisation, empty tasks",
}
SUBJECTS = ["castell, tree", "castell, graph run again", "rayon", "oneTBB", "Taskflow, graph", "libomp", "libgomp"]


def measured(arguments):
    workers = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= arguments.processors]
    taskflow = ["--taskflow", arguments.taskflow] if arguments.taskflow else []
    for count in workers:
        command = [arguments.castell, "bench", "tasks", *PROGRAMS, "--workers", str(count), "--rounds", "3", "--samples", "2", "--json", *taskflow]
        yield from json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def named(row):
    block = row["params"].get("block")
    return f"{row['workload']} {block}" if block else row["workload"]


def is_drawn(subject):
    return any(subject == name or (subject.startswith(name + " ") and "," not in subject) for name in SUBJECTS)


def drawing(rows):
    rows = [row for row in rows if is_drawn(row["subject"])]
    subjects = sorted({row["subject"] for row in rows})
    panels = []
    for what in (what for what in TITLES if any(row["what"] == what for row in rows)):
        of = lambda subject: sorted([row["workers"], row["ns"]] for row in rows if (row["what"], row["subject"]) == (what, subject))
        series = [{"name": subject, "colour": at, "points": of(subject)} for at, subject in enumerate(subjects) if of(subject)]
        panels.append({"title": TITLES[what], "y": {"unit": "ns", "scale": "log10"}, "series": series})
    draw(HERE / "scaling.svg", "A task's cost by the number of processors", columns=2, panels=panels, x={"label": "workers", "scale": "log2"})


def table(rows):
    counts, lines = sorted({row["workers"] for row in rows}), ["ns a task (wall time over tasks), by workers", ""]
    for what in dict.fromkeys(row["what"] for row in rows):
        lines += [f"**{TITLES.get(what, what)}**", "", "| | " + " | ".join(map(str, counts)) + " |", "|---" * (len(counts) + 1) + "|"]
        for subject in dict.fromkeys(row["subject"] for row in rows if row["what"] == what):
            of = {row["workers"]: row["ns"] for row in rows if (row["what"], row["subject"]) == (what, subject)}
            lines.append(f"| {subject} | " + " | ".join(f"{of[count]:.1f}" if count in of else "" for count in counts) + " |")
        lines.append("")
    (HERE / "scaling.md").write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("castell", nargs="?", default="castell")
    parser.add_argument("--taskflow")
    parser.add_argument("--processors", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--read", nargs="+", type=Path)
    parser.add_argument("--draw", action="store_true")
    arguments = parser.parse_args()
    if arguments.draw:
        with open(HERE / "scaling.csv", newline="") as file:
            drawing([{**row, "workers": int(row["workers"]), "ns": float(row["ns"])} for row in csv.DictReader(file)])
        return
    found = [row for path in arguments.read for row in json.loads(path.read_text())] if arguments.read else list(measured(arguments))
    rows = [{"what": named(row), "subject": row["subject"], "workers": row["params"]["workers"], "ns": row["ns_per_task"]} for row in found]
    with open(HERE / "scaling.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    table(rows)
    drawing(rows)


main()
