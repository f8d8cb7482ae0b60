"""Figures 2 to 5 of the paper about VarySched, the readings of banking, and castell's own strategy beside them.

    python3 experiments/cosh-6/run.py CASTELL TIMES.csv     writes figures.csv, readings.csv, tables.md, 2.svg to 5.svg and plans.svg
"""
import csv
import itertools
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CASTELL, TIMES = sys.argv[1:3]
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


def tables(rows, banking):
    def value(workload, level, strategy, key="makespan_s", model="alone"):
        return next(row[key] for row in rows if (row["workload"], row["governor"], row["strategy"], row["model"]) == (workload, level, strategy, model))

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
    return value


def bars(name, title, workload, value, key, model):
    """Two bars a strategy: high and low."""
    strategies = STRATEGIES
    values = [[value(workload, level, strategy, key, model) for level in LEVELS] for strategy in strategies]
    top = max(map(max, values))
    step = 10 ** len(str(int(top))) / 10
    step = next(s for s in (step / 10, step / 5, step / 2, step) if top / s <= 8)
    left, width, height = 60, 720, 260
    y = lambda seconds: 50 + height * (1 - seconds / (top * 1.05))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="370" viewBox="0 0 820 370" font-family="sans-serif" font-size="11" role="img">',
           '<rect width="820" height="370" fill="#fff"/>', f'<text x="20" y="24" font-size="15">{title}</text>']
    at = 0.0
    while at <= top * 1.05:
        out.append(f'<path d="M{left} {y(at):.1f}H{left + width}" stroke="#ddd"/><text x="{left - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{at:g} s</text>')
        at += step
    pitch = width / len(strategies)
    for column, (strategy, pair) in enumerate(zip(strategies, values)):
        x = left + column * pitch + pitch * 0.15
        for number, (seconds, colour) in enumerate(zip(pair, ("#0072b2", "#e69f00"))):
            wide = pitch * 0.33
            out.append(f'<rect x="{x + number * (wide + 3):.1f}" y="{y(seconds):.1f}" width="{wide:.1f}" height="{y(0) - y(seconds):.1f}" fill="{colour}"/>'
                       f'<text x="{x + number * (wide + 3) + wide / 2:.1f}" y="{y(seconds) - 4:.1f}" text-anchor="middle" font-size="9">{seconds:.4g}</text>')
        label = strategy.replace(":mask_devices=true", ", masked")
        out.append(f'<text x="{x + pitch * 0.35:.1f}" y="{y(0) + 16:.1f}" text-anchor="middle">{label}</text>')
    for number, (level, colour) in enumerate(zip(LEVELS, ("#0072b2", "#e69f00"))):
        out.append(f'<rect x="{left + number * 80}" y="342" width="12" height="12" fill="{colour}"/><text x="{left + 18 + number * 80}" y="352">{level}</text>')
    (HERE / name).write_text("\n".join(out) + "\n</svg>\n")


rows, banking = figures(), readings()
value = tables(rows, banking)
bars("2.svg", "Figure 2: makespan of 100 matrix products", "100 products", value, "makespan_s", "alone")
bars("3.svg", "Figure 3: median runtime of a matrix product, cores shared", "100 products", value, "execution_median_s", "shared cores")
bars("4.svg", "Figure 4: makespan of 100 solvers", "100 solvers", value, "makespan_s", "alone")
bars("5.svg", "Figure 5: median runtime of a solver (25), cores shared", "25 solvers", value, "execution_median_s", "shared cores")
subprocess.run([CASTELL, "--force", "strategy", "simulate", *STRATEGIES, "--apps", TIMES, "--svg", HERE / "plans.svg"], check=True, capture_output=True)
