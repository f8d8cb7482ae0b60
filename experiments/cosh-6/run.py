"""Figures 2 to 5 of the paper about VarySched, the readings of banking, and castell's own strategy beside them.

    python3 experiments/cosh-6/run.py CASTELL TIMES.csv     writes figures.csv, readings.csv, tables.md, 2.svg to 5.svg and plans.svg
    python3 experiments/cosh-6/run.py --draw                only 2.svg to 5.svg, from figures.csv
"""
import csv
import itertools
import json
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

HERE = Path(__file__).parent
DRAWS_ONLY = sys.argv[1:] == ["--draw"]
CASTELL, TIMES = (None, None) if DRAWS_ONLY else sys.argv[1:3]
STRATEGIES = ["short-term", "long-term", "banking", "constraint", "constraint:mask_devices=true", "plan-ahead"]
LEVELS = ["high", "low"]
MATRIX, SOLVER = "matrix_multiply", "lama_cg"
# Which instances: the paper says 24, 25 and 100 of the solver.
WORKLOADS = {
    "100 products": {MATRIX: 100, SOLVER: 0},
    "24 solvers": {MATRIX: 0, SOLVER: 24},
    "25 solvers": {MATRIX: 0, SOLVER: 25},
    "100 solvers": {MATRIX: 0, SOLVER: 100},
    "100 products and 25 solvers": {MATRIX: 100, SOLVER: 25},
    # Not of the paper; `plan-ahead` was rewritten with such mixes in view.
    "100 products and 5 solvers": {MATRIX: 100, SOLVER: 5},
    "500 products and 25 solvers": {MATRIX: 500, SOLVER: 25},
}
# A kernel on the GPU needs a core besides (section 3.3); four cores are shared by all.
SHARED = ["--cores", "4", "--uses", "one_core=1", "--uses", "all_cores=4", "--uses", "gpu=1"]


def simulated(strategies, workload, level, *more):
    instances = [word for name, count in WORKLOADS[workload].items() for word in ("--instances", f"{name}={count}")]
    command = [CASTELL, "strategy", "simulate", *strategies, "--apps", TIMES, "--governor", level, *instances, *more, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["strategies"]


def bound(workload, resources):
    """No plan ends sooner: the time at which enough could be done if every instance could be split (bisection over a small
    linear program that is solved by going through all ways to give each resource one kind first)."""
    times = {row["application"]: row for row in csv.DictReader(line for line in open(TIMES) if not line.startswith("#"))}
    todo = [(name, count) for name, count in WORKLOADS[workload].items() if count]

    def enough(end):
        # The fastest way to do the first kind is the one that costs least of the second; with one kind all work on that.
        if len(todo) == 1:
            return sum(end / float(times[todo[0][0]][r + "_s"]) for r in resources) >= todo[0][1]
        (one, ones), (other, others) = todo
        left, done = ones, 0.0
        for r in sorted(resources, key=lambda r: float(times[one][r + "_s"]) / float(times[other][r + "_s"])):
            seconds = min(end, left * float(times[one][r + "_s"]))
            left -= seconds / float(times[one][r + "_s"])
            done += (end - seconds) / float(times[other][r + "_s"])
        return left < 1e-9 and done >= others

    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def figures():
    rows = []
    for workload, level, model in itertools.product(WORKLOADS, LEVELS, ["alone", "shared cores"]):
        for found in simulated(STRATEGIES, workload, level, *(SHARED if model == "shared cores" else [])):
            rows.append({"workload": workload, "governor": level, "model": model, "strategy": found["strategy"],
                         "makespan_s": found["makespan_s"], "wait_s": found["wait_s"], "execution_median_s": found["execution_median_s"]})
    for workload in WORKLOADS:
        for found in simulated(STRATEGIES, workload, "low", "--forbid", "low:gpu"):
            rows.append({"workload": workload, "governor": "low, GPU forbidden to all", "model": "alone", "strategy": found["strategy"],
                         "makespan_s": found["makespan_s"], "wait_s": found["wait_s"], "execution_median_s": found["execution_median_s"]})
    write(HERE / "figures.csv", rows)
    return rows


def readings():
    """All readings of banking: one budget or one a resource, decisions at any time or at ticks, free resources only or queues."""
    rows = []
    for shared, at_ticks, queue in itertools.product(["true", "false"], repeat=3):
        row = {"budget": "one" if shared == "true" else "one a resource", "decides": "at ticks" if at_ticks == "true" else "at any time",
               "goes to": "queues" if queue == "true" else "free resources"}
        for workload, level in itertools.product(list(WORKLOADS)[:4], LEVELS):
            found = simulated([f"banking:shared={shared},at_ticks={at_ticks},queue={queue}"], workload, level)[0]
            row[f"{workload}, {level}"] = found["makespan_s"]
        rows.append(row)
    write(HERE / "readings.csv", rows)
    return rows


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def reader(rows):
    """Finds a number."""
    def value(workload, level, strategy, key="makespan_s", model="alone"):
        return next(float(row[key]) for row in rows if (row["workload"], row["governor"], row["strategy"], row["model"]) == (workload, level, strategy, model))
    return value


def tables(rows, banking):
    value = reader(rows)
    lines = ["Makespans in seconds, high / low:", "", "| strategy | " + " | ".join(WORKLOADS) + " |", "|---|" + "---|" * len(WORKLOADS)]
    for strategy in STRATEGIES:
        cells = (f"{value(w, 'high', strategy):.1f} / {value(w, 'low', strategy):.1f}" for w in WORKLOADS)
        lines.append(f"| {strategy} | " + " | ".join(cells) + " |")
    lines.append("| no plan ends before | " + " | ".join(f"{bound(w, ['one_core', 'all_cores', 'gpu']):.1f}" for w in WORKLOADS) + " |")
    lines += ["", "The same under low if the GPU is forbidden to all:", "", "| strategy | " + " | ".join(WORKLOADS) + " |", "|---|" + "---|" * len(WORKLOADS)]
    for strategy in STRATEGIES:
        cells = (f"{value(w, 'low, GPU forbidden to all', strategy):.1f}" for w in WORKLOADS)
        lines.append(f"| {strategy} | " + " | ".join(cells) + " |")
    lines.append("| no plan ends before | " + " | ".join(f"{bound(w, ['one_core', 'all_cores']):.1f}" for w in WORKLOADS) + " |")
    lines += ["", "How much sooner under banking than under constraint, low:", "", "| solvers | constraint | constraint, GPU masked |", "|---|---|---|"]
    for workload in ["24 solvers", "25 solvers", "100 solvers"]:
        ratio = [value(workload, "low", other) / value(workload, "low", "banking") for other in STRATEGIES[3:5]]
        lines.append(f"| {workload.split()[0]} | {ratio[0]:.2f} | {ratio[1]:.2f} |")
    lines += ["", "Median runtimes of one instance in seconds, high / low, where cores are shared (wait: mean, where they are not):", "",
              "| strategy | 100 products | 25 solvers | wait, 100 products and 25 solvers |", "|---|---|---|---|"]
    for strategy in STRATEGIES:
        cells = [f"{value(w, 'high', strategy, 'execution_median_s', 'shared cores'):.2f} / {value(w, 'low', strategy, 'execution_median_s', 'shared cores'):.2f}"
                 for w in ("100 products", "25 solvers")]
        both = "100 products and 25 solvers"
        lines.append(f"| {strategy} | {cells[0]} | {cells[1]} | {value(both, 'high', strategy, 'wait_s'):.1f} / {value(both, 'low', strategy, 'wait_s'):.1f} |")
    lines += ["", "Readings of banking, makespans in seconds, high / low:", "", "| budget | decides | goes to | " + " | ".join(list(WORKLOADS)[:4]) + " |", "|---" * 7 + "|"]
    for row in banking:
        cells = (f"{row[w + ', high']:.1f} / {row[w + ', low']:.1f}" for w in list(WORKLOADS)[:4])
        lines.append(f"| {row['budget']} | {row['decides']} | {row['goes to']} | " + " | ".join(cells) + " |")
    (HERE / "tables.md").write_text("\n".join(lines) + "\n")


def bars(name, title, workload, key, model):
    """Two bars a strategy: high and low."""
    with open(HERE / "figures.csv", newline="") as file:
        value = reader(list(csv.DictReader(file)))
    of = lambda level: [[strategy.replace(":mask_devices=true", ", masked"), value(workload, level, strategy, key, model)] for strategy in STRATEGIES]
    draw(HERE / name, title, width=820, y={"unit": "s"},
         series=[{"name": level, "kind": "bars", "labels": True, "points": of(level)} for level in LEVELS])


if not DRAWS_ONLY:
    tables(figures(), readings())
    subprocess.run([CASTELL, "--force", "strategy", "simulate", *STRATEGIES, "--apps", TIMES, "--svg", HERE / "plans.svg"], check=True, capture_output=True)
bars("2.svg", "Figure 2: makespan of 100 matrix products", "100 products", "makespan_s", "alone")
bars("3.svg", "Figure 3: median runtime of a matrix product, cores shared", "100 products", "execution_median_s", "shared cores")
bars("4.svg", "Figure 4: makespan of 100 solvers", "100 solvers", "makespan_s", "alone")
bars("5.svg", "Figure 5: median runtime of a solver (25), cores shared", "25 solvers", "execution_median_s", "shared cores")
