"""An unmodified MPI program whose ranks wait for half of the time, on two processors, beside a program of tasks: as its MPI has it, through castell, and sharing.

    cargo xtask install --prefix PREFIX --mpi mpicc && cargo build -p castell-tasks --example phases
    mpicc -O2 experiments/sharing/waits.c -o waits
    python3 experiments/sharing/mpi.py PREFIX target/debug/examples/phases [--rounds 5] -- mpirun -n 2 ./waits     writes mpi.csv and mpi.md
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

from table import report, write

HERE = pathlib.Path(__file__).parent
TASKS, TASK_US, PHASES, ENDLESS = 400, 100, 25, 1_000_000
COMPUTE_US, ROUNDS_OF_RANKS, CALLS = 2000, 500, 20_000


class Node:
    """The programs, bound to two processors, with a board of their own."""

    def __init__(self, arguments, board):
        self.castell, self.phases, self.ranks = arguments.prefix / "bin/castell", arguments.phases, arguments.ranks
        self.cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
        self.plain = {name: value for name, value in os.environ.items() if not name.startswith("CASTELL_")}
        self.board = board

    def start(self, words, shares):
        more = {"CASTELL_SHARE": self.board} if shares else {}
        return subprocess.Popen(["taskset", "-c", self.cpus, *map(str, words)], env=self.plain | more, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def beside(self, other, words, shares):
        """What a program prints beside another one that does not end by itself."""
        besides = self.start(other, shares) if other else None
        if besides:
            subprocess.run(["sleep", "1"], check=True)
        process = self.start(words, shares)
        text = process.communicate()[0].split()
        if besides:
            besides.terminate()
            besides.wait()
        assert process.returncode == 0, words
        return {name: float(value) for name, value in zip(text[::2], text[1::2])}


def measure(node):
    """One round: rows of what was measured, the way, and the figure."""
    tasks = [node.phases, ENDLESS, TASKS, TASK_US, 0]
    through = [node.castell, "mpi", "--always", "--"]
    sharing = [node.castell, "mpi", "--share", "--"]
    for way, start, other, shares in (("the MPI alone", [], None, False), ("castell alone", through, None, False), ("castell alone, shared", sharing, None, True),
                                      ("the MPI, beside tasks", [], tasks, False), ("castell, beside tasks", through, tasks, False), ("shared", sharing, tasks, True)):
        ranks = [*start, *node.ranks]
        waits = node.beside(other, [*ranks, ROUNDS_OF_RANKS, COMPUTE_US], shares)
        yield "rounds a second of the ranks", way, ROUNDS_OF_RANKS / waits["seconds"]
        yield "us until a rank that waits goes on, median", way, waits["late_us_median"]
        yield "us until a rank that waits goes on, p99", way, waits["late_us_p99"]
        calls = CALLS if not other else CALLS // 10
        yield "us a barrier, one behind the other", way, node.beside(other, [*ranks, calls, 0], shares)["call_us"]
        if other:
            phases = node.beside([*ranks, ENDLESS, COMPUTE_US], [node.phases, PHASES, TASKS, TASK_US, 0], shares)
            yield "phases a second of the tasks", way, PHASES / phases["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("phases", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("ranks", nargs="+", help="how the MPI program is started, without its arguments")
    arguments, rows = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as folder:
        node = Node(arguments, folder + "/board")
        for number in range(arguments.rounds):
            for what, way, figure in measure(node):
                rows.append({"round": number, "what": what, "way": way, "figure": f"{figure:.3f}", "load": f"{os.getloadavg()[0]:.2f}"})
            write(rows, HERE / "mpi.csv")
    report(rows, HERE / "mpi.md")


main()
