"""What a task costs on 1 to all processors, under castell and the task runtimes that are installed.

    python3 experiments/task-scaling/run.py castell [--taskflow DIR] [--processors 16]      measures; minutes
    python3 experiments/task-scaling/run.py --read FILE.json...                             of `castell bench tasks --json`

Both write scaling.csv, scaling.md and scaling.svg here. Medians; wall time over tasks.
"""
import argparse
import csv
import json
import math
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = ["empty:tasks=100000", "fib:number=25", "axpy:elements=2097152,block=64", "axpy:elements=67108864,block=16384", "chains:tasks=50000", "wave:side=150", "chol:tiles=32"]
TITLES = {
    "empty": "one creator, empty tasks", "fib": "recursion with a wait in each task (Fibonacci)", "axpy 64": "a tree of halves, leaves of 64 elements",
    "axpy 16384": "a tree of halves, leaves of 16,384 elements", "chains": "one creator, 64 chains, empty tasks", "wave": "one creator, a wave front, empty tasks",
    "chol": "one creator, the graph of a Cholesky factorisation, empty tasks",
}
COLOURS = {"castell, tree": "#d55e00", "castell, graph run again": "#e69f00", "rayon": "#0072b2", "oneTBB": "#009e73", "Taskflow, graph": "#cc79a7", "libomp": "#56b4e9", "libgomp": "#7f7f7f"}


def measured(arguments):
    workers = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= arguments.processors]
    taskflow = ["--taskflow", arguments.taskflow] if arguments.taskflow else []
    for count in workers:
        command = [arguments.castell, "bench", "tasks", *PROGRAMS, "--workers", str(count), "--rounds", "3", "--samples", "2", "--json", *taskflow]
        yield from json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def named(row):
    block = row["params"].get("block")
    return f"{row['workload']} {block}" if block else row["workload"]


def colour(subject):
    return next((colour for name, colour in COLOURS.items() if subject == name or (subject.startswith(name + " ") and "," not in subject)), None)


def panel(out, rows, what, x, y):
    """Logarithmic on both sides."""
    rows = [row for row in rows if row["what"] == what and colour(row["subject"])]
    counts, times = sorted({row["workers"] for row in rows}), [row["ns"] for row in rows]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    width, height = 330, 190
    across = lambda count: x + 44 + width * math.log2(count) / max(1, math.log2(counts[-1]))
    up = lambda ns: y + 24 + height * (1 - (math.log10(ns) - low) / (high - low))
    out.append(f'<text x="{x}" y="{y + 12}" font-size="12">{TITLES[what]}</text>')
    for power in range(low, high + 1):
        out.append(f'<path d="M{x + 44} {up(10**power):.1f}H{x + 44 + width}" stroke="#ddd"/><text x="{x + 40}" y="{up(10**power) + 3:.1f}" text-anchor="end">{10.0**power:g} ns</text>')
    for count in counts:
        out.append(f'<text x="{across(count):.1f}" y="{y + height + 38}" text-anchor="middle">{count}</text>')
    for subject in sorted({row["subject"] for row in rows}, key=lambda name: name.startswith("castell")):
        points = sorted((row["workers"], row["ns"]) for row in rows if row["subject"] == subject)
        wide = 2.5 if subject.startswith("castell") else 1.3
        path = "L".join(f"{across(count):.1f} {up(ns):.1f}" for count, ns in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour(subject)}" stroke-width="{wide}"><title>{subject}</title></path>')
        out += [f'<circle cx="{across(count):.1f}" cy="{up(ns):.1f}" r="{wide}" fill="{colour(subject)}"/>' for count, ns in points]


def draw(rows):
    present = [what for what in TITLES if any(row["what"] == what for row in rows)]
    height = 40 + 245 * math.ceil(len(present) / 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{height}" viewBox="0 0 800 {height}" font-family="sans-serif" font-size="10" role="img">', f'<rect width="800" height="{height}" fill="#fff"/>']
    for number, what in enumerate(present):
        panel(out, rows, what, 10 + 395 * (number % 2), 8 + 245 * (number // 2))
    subjects = sorted({row["subject"] for row in rows if colour(row["subject"])})
    left = 16
    for subject in subjects:
        out.append(f'<path d="M{left} {height - 16}h16" stroke="{colour(subject)}" stroke-width="3"/><text x="{left + 20}" y="{height - 12}" font-size="9">{subject}</text>')
        left += 36 + 5 * len(subject)
    (HERE / "scaling.svg").write_text("\n".join(out) + "\n</svg>\n")


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
    arguments = parser.parse_args()
    found = [row for path in arguments.read for row in json.loads(path.read_text())] if arguments.read else list(measured(arguments))
    rows = [{"what": named(row), "subject": row["subject"], "workers": row["params"]["workers"], "ns": row["ns_per_task"]} for row in found]
    with open(HERE / "scaling.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    table(rows)
    draw(rows)


main()
