"""Draws ratios.svg and writes tables.md from results.json and suites.json, and sixteen.md from sixteen.json:
python3 experiments/openmp-door/plot.py"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

HERE = pathlib.Path(__file__).parent


def read(name):
    return json.loads((HERE / name).read_text())


def case_of(row):
    params = dict(row["params"])
    if row["workload"] == "program":
        return params["program"]
    sizes = " ".join(f"{name}={value}" for name, value in params.items() if name not in ("workload", "workers"))
    return f"{row['workload']} {sizes}"


def pairs(rows):
    """By case, each subject with castell and the same without: (case, name, with, without)."""
    found = []
    rows = [row for row in rows if "cpu_ns" in row]
    for row, other in zip(rows, rows[1:]):
        if row["params"] != other["params"]:
            continue
        if row["subject"] == "castell on " + other["subject"] or row["subject"] == "with castell":
            name = "libgomp, whole programs" if row["subject"] == "with castell" else other["subject"]
            found.append((case_of(row), name, row, other))
    return found


PAIRS = pairs(read("results.json"))
NAMES = list(dict.fromkeys(name for _, name, _, _ in PAIRS))
CASES = list(dict.fromkeys(case for case, _, _, _ in PAIRS))


def ratio(row, other, key):
    return row[key] / other[key]


def short(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def table(rows, first, bold):
    """Lines of a table; ratios of `bold` above 1.05 stand out."""
    lines = [first, ""]
    lines += ["| case | library below | with castell | without | ratio | wall |", "|---|---|---|---|---|---|"]
    for case, name, row, other in pairs(rows):
        ratios = {key: ratio(row, other, key) for key in ("cpu_ns", "median_ns")}
        texts = {key: f"**{of:.2f}**" if key == bold and of > 1.05 else f"{of:.2f}" for key, of in ratios.items()}
        times = f"{short(row[bold])} | {short(other[bold])}"
        lines.append(f"| {case} | {name} | {times} | {texts['cpu_ns']} | {texts['median_ns']} |")
    metg = [row for row in rows if "metg_ns" in row]
    if metg:
        lines += ["", "| METG (50 %) | |", "|---|---|"]
        lines += [f"| {row['subject']} | {short(row['metg_ns']) if row['metg_ns'] else 'not reached'} |" for row in metg]
    return lines


def suites():
    lines = ["", "| suite | tests | built | pass without castell | pass with it |", "|---|---|---|---|---|"]
    for row in read("suites.json"):
        cells = [row[key] for key in ("suite", "tests", "built", "passed_without", "passed_with")]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return lines


def write(name, lines):
    (HERE / name).write_text("\n".join(lines) + "\n")


def drawing():
    of = lambda name: [[ratio(row, other, "cpu_ns"), case] for case, one, row, other in PAIRS if one == name]
    draw(HERE / "ratios.svg", "Time on processors with castell over that without", subtitle="Left of 1 castell needs less.", width=860,
         x={"scale": "log2", "from": 1 / 32, "to": 4, "base": 1}, y={"names": CASES}, series=[{"name": name, "kind": "dots", "points": of(name)} for name in NAMES])


OF_PROCESSORS = "A task, a barrier, or a whole program: time on processors with castell, without, and the ratio; the ratio of wall times."
write("tables.md", table(read("results.json"), OF_PROCESSORS, "cpu_ns") + suites())
OF_WALLS = "Sixteen threads: wall time of a task, a barrier, or a whole program with castell and without; the ratios of time on processors and of wall time."
write("sixteen.md", table(read("sixteen.json"), OF_WALLS, "median_ns"))
drawing()
