"""Beside a program of tasks, on two processors: two ranks that wait for half of the time, and a program that wants its processor back.

    cargo build -p castell-tasks --example phases --example hand_back && cargo build -p castell-comm --example waits
    python3 experiments/sharing/ranks.py target/debug/examples [ROUNDS]     writes ranks.csv and ranks.md
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from table import report, write

HERE = pathlib.Path(__file__).parent
CPUS = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CASTELL_")}
ENDLESS = 1_000_000
TASKS, TASK_US, PHASES = 400, 100, 25
COMPUTE_US, ROUNDS_OF_RANKS, CALLS, HAND_BACKS = 2000, 500, 20_000, 200


class Node:
    """The programs, with a board of their own."""

    def __init__(self, programs, board):
        self.programs, self.board = pathlib.Path(programs), board

    def start(self, shares, name, *words):
        more = {"CASTELL_SHARE": self.board} if shares else {}
        command = ["taskset", "-c", CPUS, self.programs / name, *map(str, words)]
        return subprocess.Popen(command, env=ENVIRONMENT | more, stdout=subprocess.PIPE, text=True)

    def figures(self, process):
        words = process.communicate()[0].split()
        return {name: float(value) for name, value in zip(words[::2], words[1::2])}

    def beside(self, shares, other, *words):
        """What a program prints beside another one that does not end by itself."""
        besides = self.start(shares, *other) if other else None
        if besides:
            subprocess.run(["sleep", "0.2"], check=True)
        figures = self.figures(self.start(shares, *words))
        if besides:
            besides.terminate()
            besides.wait()
        return figures


def measure(node):
    """One round: rows of what was measured, the way, and the figure."""
    tasks, ranks = ("phases", ENDLESS, TASKS, TASK_US, 0), ("waits", ENDLESS, COMPUTE_US)
    for way, shares, other in (("alone", False, None), ("alone, shared", True, None), ("Linux alone", False, tasks), ("shared", True, tasks)):
        waits = node.beside(shares, other, "waits", ROUNDS_OF_RANKS, COMPUTE_US)
        yield "rounds a second of the ranks", way, ROUNDS_OF_RANKS / waits["seconds"]
        yield "us until a rank that waits goes on, median", way, waits["late_us_median"]
        yield "us until a rank that waits goes on, p99", way, waits["late_us_p99"]
        yield "us a barrier, one behind the other", way, node.beside(shares, other, "waits", CALLS, 0)["call_us"]
        phases = node.beside(shares, ranks if other else None, "phases", PHASES, TASKS, TASK_US, 0)
        yield "phases a second of the tasks" + ("" if other else " alone"), way, PHASES / phases["seconds"]
        back = node.beside(shares, other, "hand_back", HAND_BACKS, 5)
        yield "us until an idle program's task begins, median", way, back["us_median"]
        yield "us until an idle program's task begins, p99", way, back["us_p99"]


def main():
    rounds, rows = int(sys.argv[2]) if len(sys.argv) > 2 else 5, []
    with tempfile.TemporaryDirectory() as folder:
        node = Node(sys.argv[1], folder + "/board")
        for number in range(rounds):
            for what, way, figure in measure(node):
                rows.append({"round": number, "what": what, "way": way, "figure": f"{figure:.3f}", "load": f"{os.getloadavg()[0]:.2f}"})
            write(rows, HERE / "ranks.csv")
    report(rows, HERE / "ranks.md")


main()
