"""Figures 2 to 5 of the paper about VarySched once more, on this machine: real processes, whose kernels a daemon starts.

    python3 experiments/cosh-6/run_real.py PREFIX     writes real.csv, real.md and real.svg
    python3 experiments/cosh-6/run_real.py --draw     only real.svg

PREFIX is where castell is installed (cargo xtask install). `examples/kernels/matrix.c` multiplies matrices on one core, all cores and a GPU,
`examples/kernels/paced.c` sleeps the paper's times, divided by 100.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("prefix", type=Path, nargs="?")
parser.add_argument("--draw", action="store_true", help="only the drawing, of the table that is there")
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--only", choices=["products", "paced"], help="run those anew, and take the others from the table")
parser.add_argument("--gpu", choices=["opencl", "cuda"], default="opencl", help="how products reach a GPU (default: opencl, where PoCL has the processors for one)")
parser.add_argument("--size", type=int, default=256, help="of the matrices (default: 256)")
parser.add_argument("--write", type=Path, default=Path(__file__).parent / "real", help="the table, tables and drawing, without an ending (default: real, here)")
ARGUMENTS = parser.parse_args()
if not ARGUMENTS.prefix and not ARGUMENTS.draw:
    parser.error("PREFIX is needed to run anything")
ROOT = Path(__file__).resolve().parent.parent.parent
PREFIX, ONLY = (ARGUMENTS.prefix or ROOT).resolve(), ARGUMENTS.only
TABLE = ARGUMENTS.write.with_suffix(".csv")
CASTELL = PREFIX / "bin/castell"
TIMES = ROOT / "vectors/strategy/kernel-times.csv"
FACTOR = 0.01
STRATEGIES = ["short-term", "long-term", "banking", "constraint", "plan-ahead"]
LEVELS = ["high", "low"]
RESOURCES = ["one_core", "all_cores", "gpu"]
# Processes: their application and how many runs of it.
PACED = {
    "100 products, paced": [("matrix_multiply", 50), ("matrix_multiply", 50)],
    "25 solvers, paced": [("lama_cg", 25)],
    "100 products and 25 solvers, paced": [("matrix_multiply", 50), ("matrix_multiply", 50), ("lama_cg", 25)],
}
PRODUCTS = "100 products, real"


def compiled(name, folder):
    program = folder / name
    subprocess.run(["gcc", "-std=c11", "-O3", "-march=native", "-pthread", "-I", ROOT / "examples", "-I", PREFIX / "include", ROOT / f"examples/kernels/{name}.c",
                    "-o", program, "-L", PREFIX / "lib", "-lcastell", f"-Wl,-rpath,{PREFIX / 'lib'}"], check=True)
    return program


def scaled(strategy, folder):
    """Banking refills its budget every five seconds; where all takes a hundredth, every twentieth."""
    if strategy != "banking":
        return strategy
    text = subprocess.run([CASTELL, "strategy", "list", strategy], check=True, capture_output=True, text=True).stdout
    assert "tick = 5," in text
    path = folder / "banking.luau"
    path.write_text(text.replace("tick = 5,", f"tick = {5 * FACTOR},"))
    return str(path)


def run(strategy, level, commands, folder):
    """What the programs say that a fresh daemon has had under this strategy, and the load of the machine before."""
    socket = Path(tempfile.mkdtemp(dir=folder)) / "daemon.sock"
    words = [word for resource in RESOURCES for word in ("--resource", resource)]
    daemon = subprocess.Popen([CASTELL, "daemon", "--socket", socket, *words, "--strategy", scaled(strategy, folder)], stderr=subprocess.PIPE, text=True)
    try:
        assert "listens at" in daemon.stderr.readline()
        subprocess.run([CASTELL, "strategy", "governor", level, "--socket", socket], check=True)
        load = os.getloadavg()[0]
        environment = {**os.environ, "CASTELL_DAEMON": str(socket)}
        begin = time.monotonic()
        started = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment) for command in commands]
        said = [program.communicate()[0] for program in started]
        took = time.monotonic() - begin
        assert all(program.returncode == 0 for program in started), said
        assert all("by the daemon" in text for text in said), said
        return said, took, load
    finally:
        daemon.terminate()
        daemon.wait()


def paced(program, strategy, level, workload, folder):
    said, took, load = run(strategy, level, [[program, TIMES, FACTOR, name, count] for name, count in PACED[workload]], folder)
    medians = [float(re.search(r"median ([\d.]+) s", text).group(1)) for text in said]
    # All start within milliseconds; connecting and ending counts, too.
    on = [sum(int(re.search(rf"(\d+) on {resource}", text).group(1)) for text in said) for resource in RESOURCES]
    return {"makespan_s": round(took, 4), "median_s": round(statistics.mean(medians[-2:] if len(medians) == 2 else medians[-1:]), 5), "on": on, "load": load}


def products(program, strategy, level, folder):
    said, _, load = run(strategy, level, [[program, ARGUMENTS.size, 100, 64, ARGUMENTS.gpu]], folder)
    text = said[0]
    on = [int(re.search(pattern, text).group(1)) for pattern in (r"(\d+) on one core", r"(\d+) on all", r"(\d+) on the GPU")]
    each = float(re.search(r"; ([\d.]+) us each", text).group(1))
    median = float(re.search(r"median (\d+) us", text).group(1))
    return {"makespan_s": round(each * 100 / 1e6, 4), "median_s": median / 1e6, "on": on, "load": load}


def simulated(workload, level):
    counts = {"matrix_multiply": 0, "lama_cg": 0}
    for name, count in PACED[workload]:
        counts[name] += count
    instances = [word for name, count in counts.items() for word in ("--instances", f"{name}={count}")]
    command = [CASTELL, "strategy", "simulate", *STRATEGIES, "--apps", TIMES, "--governor", level, *instances, "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["strategies"]
    return {strategy: one["makespan_s"] * FACTOR for strategy, one in zip(STRATEGIES, found)}


def measure():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        matrix, paces = compiled("matrix", folder), compiled("paced", folder)
        for repeat in range(ARGUMENTS.repeats):
            for workload in ([] if ONLY == "paced" else [PRODUCTS]) + ([] if ONLY == "products" else list(PACED)):
                for level in LEVELS:
                    for strategy in STRATEGIES:
                        found = products(matrix, strategy, level, folder) if workload == PRODUCTS else paced(paces, strategy, level, workload, folder)
                        one_core, all_cores, gpu = found["on"]
                        rows.append({"workload": workload, "governor": level, "strategy": strategy, "repeat": repeat, "makespan_s": found["makespan_s"],
                                     "median_s": found["median_s"], "one_core": one_core, "all_cores": all_cores, "gpu": gpu, "load": round(found["load"], 2)})
                        print(rows[-1], file=sys.stderr)
    return rows


def written(rows):
    if ONLY and TABLE.exists():
        with open(TABLE, newline="") as file:
            kept = [row for row in csv.DictReader(file) if (row["workload"] == PRODUCTS) != (ONLY == "products")]
        rows = sorted(rows + kept, key=lambda row: row["workload"])
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return read()


def read():
    with open(TABLE, newline="") as file:
        return list(csv.DictReader(file))


def all_of(rows, workload, level, strategy, key):
    return [float(row[key]) for row in rows if (row["workload"], row["governor"], row["strategy"]) == (workload, level, strategy)]


def table(rows):
    lines = ["Medians of the runs (the shortest to the longest); high / low.", ""]
    for workload in (workload for workload in [PRODUCTS, *PACED] if workload in {row["workload"] for row in rows}):
        expected = {level: simulated(workload, level) for level in LEVELS} if workload in PACED else None
        more = " | simulated |" if expected else " |"
        lines += [f"**{workload}**", "", "| strategy | makespan | median of one run | where (one core, all, GPU)" + more, "|---" * (5 if expected else 4) + "|"]
        for strategy in STRATEGIES:
            cells = []
            for key, digits in (("makespan_s", 2), ("median_s", 4)):
                parts = []
                for level in LEVELS:
                    values = all_of(rows, workload, level, strategy, key)
                    text = f"{statistics.median(values):.{digits}f} s"
                    parts.append(text + (f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if key == "makespan_s" else ""))
                cells.append(" / ".join(parts))
            where = (", ".join(f"{statistics.median(all_of(rows, workload, level, strategy, on)):.0f}" for on in RESOURCES) for level in LEVELS)
            cells.append(" / ".join(where))
            if expected:
                cells.append(" / ".join(f"{expected[level][strategy]:.2f} s" for level in LEVELS))
            lines.append(f"| {strategy} | " + " | ".join(cells) + " |")
        lines.append("")
    loads = [float(row["load"]) for row in rows]
    lines.append(f"Load of the machine ({os.cpu_count()} processors) before a run, mean over one minute: {min(loads):.1f} to {max(loads):.1f}, in the middle {statistics.median(loads):.1f}; "
                 f"{1 + max(int(row['repeat']) for row in rows)} runs each.")
    ARGUMENTS.write.with_suffix(".md").write_text("\n".join(lines) + "\n")


def drawing(rows):
    """Two bars a strategy, high and low, with the shortest and the longest run."""
    figures = [("2: makespan of 100 matrix products", PRODUCTS, "makespan_s"), ("3: median runtime of a matrix product", PRODUCTS, "median_s"),
               ("4: makespan of 25 solvers, paced (1/100)", "25 solvers, paced", "makespan_s"), ("5: median runtime of a solver, paced (1/100)", "25 solvers, paced", "median_s")]
    panels = []
    for title, workload, key in figures:
        def bar(strategy, level):
            runs = all_of(rows, workload, level, strategy, key)
            return [strategy, statistics.median(runs), min(runs), max(runs)]
        if workload in {row["workload"] for row in rows}:
            series = [{"name": level, "kind": "bars", "points": [bar(strategy, level) for strategy in STRATEGIES]} for level in LEVELS]
            panels.append({"title": title, "y": {"unit": "s"}, "series": series})
    draw(ARGUMENTS.write.with_suffix(".svg"), "Strategies with real processes", subtitle="Medians; lines: the shortest and the longest run.", columns=2, panels=panels)


if ARGUMENTS.draw:
    drawing(read())
else:
    rows = written(measure())
    table(rows)
    drawing(rows)
