"""As run.py, with the same program of OpenMP's tasks: shared by castell, with half of the processors each, as Linux has it, and by DLB's LeWI.

    clang -O2 -fopenmp experiments/sharing/phases.c -o phases && cargo build --release -p castell-omp
    python3 experiments/sharing/openmp.py ./phases target/release/libcastell_omp.so [--rounds N] [--dlb libdlb.so] [--cpus 2] [--out DIR]     writes openmp.csv and openmp.md
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
parser.add_argument("door")
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--dlb")
parser.add_argument("--cpus", type=int, default=2, help="an even number of processors")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
ARGS = parser.parse_args()
CPUS = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[: ARGS.cpus]]
HALF = len(CPUS) // 2
ALL, HALVES = ",".join(CPUS), [",".join(CPUS[:HALF]), ",".join(CPUS[HALF:])]
# On all processors a phase takes as long as a pause.
PHASES, TASK_US, PAUSE_MS = 16, 100, 20
TASKS = len(CPUS) * PAUSE_MS * 1000 // TASK_US
NAMES = ("CASTELL_", "OMP_", "KMP_", "DLB_")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(NAMES)}


def pair(program, cpus, threads, more):
    """Phases a second of both together; the second begins when the first pauses for the first time."""
    words = [PHASES, TASKS, TASK_US, PAUSE_MS]
    delay = TASKS * TASK_US // len(CPUS) // 1000
    environment = ENVIRONMENT | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"} | more

    def start(cpus, *words):
        command = ["taskset", "-c", cpus, program, *map(str, words)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    both = [start(cpus[0], *words), start(cpus[1], *words, delay)]
    return sum(PHASES / float(process.communicate()[0].split()[1]) for process in both)


def main():
    program, rows = os.path.abspath(ARGS.program), []
    with tempfile.TemporaryDirectory() as folder:
        shared = {"CASTELL_SHARE": folder + "/board", "LD_PRELOAD": os.path.abspath(ARGS.door)}
        ways = {
            "castell, shared": lambda: pair(program, [ALL, ALL], len(CPUS), shared),
            "halves": lambda: pair(program, HALVES, HALF, {}),
            "Linux alone": lambda: pair(program, [ALL, ALL], len(CPUS), {}),
        }
        if ARGS.dlb:
            # Each comes with a half of its own and borrows the other one.
            dlb = {"DLB_ARGS": "--lewi --ompt --quiet", "LD_PRELOAD": os.path.abspath(ARGS.dlb)}
            ways["DLB (LeWI)"] = lambda: pair(program, HALVES, len(CPUS), dlb)
        with open(ARGS.out / "openmp.csv", "w", newline="") as file:
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


def report(rows, ways):
    of = {way: [float(row["phases_per_s"]) for row in rows if row["way"] == way] for way in ways}
    lines = ["| way | phases a second, median | least | most | castell's to it, median of the rounds' |", "|---|---|---|---|---|"]
    for way, values in of.items():
        ratio = statistics.median(own / other for own, other in zip(of[ways[0]], values))
        lines.append(f"| {way} | {statistics.median(values):.1f} | {min(values):.1f} | {max(values):.1f} | {ratio:.2f} |")
    (ARGS.out / "openmp.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


main()
