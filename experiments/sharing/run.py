"""Two programs whose parallel phases alternate: sharing the processors, with half of them each, and as Linux has it.

    cargo build -p castell-tasks --example phases
    python3 experiments/sharing/run.py target/debug/examples/phases [ROUNDS] [--cpus 2] [--out DIR]     writes data.csv, table.md and sharing.svg
"""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("rounds", type=int, nargs="?", default=9)
parser.add_argument("--cpus", type=int, default=2, help="an even number of processors")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
ARGS = parser.parse_args()
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
    report(rows, list(ways))


def report(rows, names):
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
    draw(of, median)


def draw(of, median):
    top = max(max(values) for values in of.values()) * 1.1
    y = lambda value: 220 - 190 * value / top
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="260" font-family="sans-serif" font-size="12">',
             '<rect width="640" height="260" fill="white"/>', '<text x="10" y="18">phases a second (dots: runs; line: median)</text>']
    for index, (name, values) in enumerate(of.items()):
        x = 70 + 125 * index
        parts.append(f'<rect x="{x - 35}" y="{y(median[name]):.1f}" width="70" height="{220 - y(median[name]):.1f}" fill="#9ecae1"/>')
        parts.append(f'<line x1="{x - 35}" x2="{x + 35}" y1="{y(median[name]):.1f}" y2="{y(median[name]):.1f}" stroke="black"/>')
        parts += [f'<circle cx="{x}" cy="{y(value):.1f}" r="2.5" fill="#d94801"/>' for value in values]
        first, _, second = name.partition(", ")
        parts.append(f'<text x="{x}" y="236" text-anchor="middle">{first}</text>')
        parts.append(f'<text x="{x}" y="251" text-anchor="middle">{second}</text>')
        parts.append(f'<text x="{x + 38}" y="{y(median[name]) + 4:.1f}">{median[name]:.1f}</text>')
    parts.append('<line x1="20" x2="630" y1="220" y2="220" stroke="black"/></svg>')
    (ARGS.out / "sharing.svg").write_text("\n".join(parts) + "\n")


main()
