"""Two programs whose parallel phases alternate: sharing the processors, with half of them each, and as Linux has it.

    cargo build -p castell-tasks --example phases
    python3 experiments/sharing/run.py target/debug/examples/phases [ROUNDS] [--cpus 2] [--out DIR]     writes data.csv, table.md and sharing.svg
    python3 experiments/sharing/run.py --draw [--out DIR]     only table.md and sharing.svg, from data.csv
"""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

parser = argparse.ArgumentParser()
parser.add_argument("program", nargs="?")
parser.add_argument("rounds", type=int, nargs="?", default=9)
parser.add_argument("--cpus", type=int, default=2, help="an even number of processors")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
parser.add_argument("--draw", action="store_true", help="measure nothing")
ARGS = parser.parse_args()
if not ARGS.program and not ARGS.draw:
    parser.error("a program is needed to measure anything")
CPUS = sorted(os.sched_getaffinity(0))[: ARGS.cpus]
HALF = len(CPUS) // 2
# On all processors a phase takes as long as a pause.
PHASES, TASK_US, PAUSE_MS = 16, 100, 20
TASKS = len(CPUS) * PAUSE_MS * 1000 // TASK_US
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CASTELL_")}


def start(program, words, cpus=CPUS, board=None):
    more = {"CASTELL_SHARE": board} if board else {}
    command = ["taskset", "-c", ",".join(map(str, cpus)), program, *map(str, words)]
    return subprocess.Popen(command, env=ENVIRONMENT | more, stdout=subprocess.PIPE, text=True)


def seconds(process):
    return float(process.communicate()[0].split()[1])


def pair(program, cpus, board=None):
    """Phases a second of both together; the second begins when the first pauses for the first time."""
    delay = TASKS * TASK_US // len(CPUS) // 1000
    words = [PHASES, TASKS, TASK_US, PAUSE_MS]
    both = [start(program, words, cpus[0], board), start(program, [*words, delay], cpus[1], board)]
    return sum(PHASES / seconds(process) for process in both)


def alone(program, board=None):
    """Phases a second of one; with a board, another one is there that has nothing to do."""
    idle = start(program, [2, 10, 10, 3_600_000], board=board) if board else None
    rate = PHASES / seconds(start(program, [PHASES, TASKS, TASK_US, PAUSE_MS], board=board))
    if idle:
        idle.kill()
        idle.wait()
    return rate


def main():
    program, rows = ARGS.program, []
    with tempfile.TemporaryDirectory() as folder:
        board = folder + "/board"
        ways = {
            "shared": lambda: pair(program, [CPUS, CPUS], board),
            "halves": lambda: pair(program, [CPUS[:HALF], CPUS[HALF:]]),
            "Linux alone": lambda: pair(program, [CPUS, CPUS]),
            "one program": lambda: alone(program),
            "one program, the other idle": lambda: alone(program, board),
        }
        with open(ARGS.out / "data.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, ["round", "way", "phases_per_s", "load"])
            writer.writeheader()
            for number in range(ARGS.rounds):
                # In turns, and each time another one first.
                names = list(ways)[number % len(ways):] + list(ways)[:number % len(ways)]
                for name in names:
                    load = os.getloadavg()[0]
                    rows.append({"round": number, "way": name, "phases_per_s": f"{ways[name]():.3f}", "load": f"{load:.2f}"})
                    writer.writerow(rows[-1])
                    file.flush()


def report():
    with open(ARGS.out / "data.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    names = ["shared", "halves", "Linux alone", "one program", "one program, the other idle"]
    of = {name: [float(row["phases_per_s"]) for row in rows if row["way"] == name] for name in names}
    median = {name: statistics.median(values) for name, values in of.items()}
    paired = lambda one, other: statistics.median(a / b for a, b in zip(of[one], of[other]))
    lines = ["| way | phases a second, median | least | most |", "|---|---|---|---|"]
    lines += [f"| {name} | {median[name]:.1f} | {min(of[name]):.1f} | {max(of[name]):.1f} |" for name in names]
    lines += ["", "| ratio, median of the rounds' | |", "|---|---|"]
    for one, other in (("shared", "halves"), ("shared", "Linux alone"), ("one program, the other idle", "one program")):
        lines.append(f"| {one} to {other} | {paired(one, other):.2f} |")
    (ARGS.out / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    drawing(of, median)


def drawing(of, median):
    bars = {"name": "median", "kind": "bars", "labels": True, "points": [[name, value, min(of[name]), max(of[name])] for name, value in median.items()]}
    runs = {"name": "a run", "kind": "dots", "mark": "ring", "points": [[name, value] for name, values in of.items() for value in values]}
    draw(ARGS.out / "sharing.svg", "Phases a second", width=720, series=[bars, runs])


if not ARGS.draw:
    main()
report()
