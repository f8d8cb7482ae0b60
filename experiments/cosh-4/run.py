#!/usr/bin/env python3
"""Runs castell on the fitted table, and on ten programs of ours on its simulated chip, and draws figures 1 to 5 beside this script:

    python3 experiments/cosh-4/run.py target/release/castell"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

HERE = pathlib.Path(__file__).parent
CASTELL = sys.argv[1]
GROUPS = {"low": ["DC", "EP", "UA"], "mid": ["BT", "IS", "MG", "SP"], "high": ["CG", "FT", "LU"]}
# Colours.
TWINS, NO_TWINS, OTHERS = 3, 1, 7
NAMES = "BT CG DC EP FT IS LU MG SP UA".split()
def castell(*arguments):
    return json.loads(subprocess.run([CASTELL, "place", *map(str, arguments), "--json"], check=True, capture_output=True).stdout)


def figure(name, title, x, y, series, **marks):
    """A figure of series: (colour, name, points and how they are drawn)."""
    draw(HERE / name, title, width=720, x={"label": x[0], "from": x[1], "to": x[2], **marks}, y={"label": y, "from": 0},
         series=[{"colour": colour, "name": text, **more} for colour, text, more in series])


def bars(counts, bin_width):
    """How many schedules are between which slowdowns, in percent."""
    return {"kind": "histogram", "points": [[at * bin_width * 100, (at + 1) * bin_width * 100, count] for at, count in enumerate(counts) if count]}


def figure_1():
    """A computes, B is bound by memory: beside itself it takes twice as long."""
    table = HERE / "figure-1.csv"
    bad = castell("A:2,B:2", "--slowdowns", table, "--rule", "first-fit")["slowdown"]["average"]
    good = castell("A:2,B:2", "--slowdowns", table)["slowdown"]["average"]
    subprocess.run([CASTELL, "place", "A:2,B:2", "--slowdowns", table, "--rule", "first-fit", "--svg", HERE / "1a.svg"], check=True, capture_output=True)
    subprocess.run([CASTELL, "place", "A:2,B:2", "--slowdowns", table, "--svg", HERE / "1b.svg"], check=True, capture_output=True)
    return (bad - 1) * 100, (good - 1) * 100


def density_of_sum(jobs, x):
    """The density of a sum of uniform numbers between 0 and 1 (Irwin and Hall)."""
    total, binomial, factorial = 0.0, 1, 1
    for k in range(jobs):
        if x > k:
            total += (-1) ** k * binomial * (x - k) ** (jobs - 1)
        binomial = binomial * (jobs - k) // (k + 1)
        factorial *= max(k, 1)
    return total / factorial


def figure_2():
    for jobs, name in ((2, "2a.svg"), (4, "2b.svg")):
        # Of the mean, so that both curves lie between 0 and 1.
        steps = [step / 200 for step in range(201)]
        same, different = [[0, 0], [0, 1], [1, 1], [1, 0]], [[x, jobs * density_of_sum(jobs, jobs * x)] for x in steps]
        figure(name, f"Figure 2: {jobs} jobs", ("combined use of the resource, of what all could use", 0, 1), "density",
               [(TWINS, "the same job", {"points": same}), (NO_TWINS, "different jobs", {"points": different})])


def combined():
    rows = [row for row in csv.reader(open(HERE / "table.csv")) if row and not row[0].startswith("#")]
    percent = {(row[0], name): float(field.rstrip("%")) for row in rows[1:] for name, field in zip(rows[0][1:], row[1:])}
    pairs = [(one, other) for at, one in enumerate(NAMES) for other in NAMES[at:]]
    return sorted((percent[pair] + percent[pair[::-1]], pair) for pair in pairs)


def figure_3():
    pairs = combined()
    of = lambda are_twins: [[at + 0.1, at + 0.9, max(slowdown, 0.5)] for at, (slowdown, (one, other)) in enumerate(pairs) if (one == other) == are_twins]
    figure("3.svg", "Figure 3: combined slowdown of the 55 pairs", ("pairs", 0, 55), "percent",
           [(colour, text, {"kind": "histogram", "points": of(are_twins)}) for colour, text, are_twins in [(TWINS, "twins", True), (OTHERS, "others", False)]])


def histograms(sets, bin_width):
    axis, suffix = ("average slowdown of a schedule, percent", 2, 14), "_twins_by_pair_last_unchecked"
    shown = lambda colour, text, key: (colour, text, bars(sets[key]["histogram"], bin_width))
    no_twins = shown(NO_TWINS, "no twins", "no_twins_last_pair_unchecked")
    figure("4.svg", "Figure 4", axis, "schedules", [shown(OTHERS, "twins", "all"), no_twins])
    kinds = [shown(colour, f"{kind} twins", kind + suffix) for colour, kind in [(TWINS, "high"), (2, "mid"), (0, "low")]]
    figure("5.svg", "Figure 5", axis, "schedules", [shown(OTHERS, "all", "all"), no_twins, *kinds])


# Four that stream, four that live by the shared cache, two that do neither.
OURS = {"streams": ["triad", "jacobi_l", "sum", "floyd_l"], "cache": ["chase", "mvt", "hash_s", "merge"], "neither": ["options", "matmul_tiled"]}


def our_programs():
    """All ways to place ten of castell's own programs on the simulated chip, and what rules without its truth make of them."""
    names = [name for group in OURS.values() for name in group]
    jobs = ",".join(f"{name}:2" for name in names)
    groups = [word for name, programs in OURS.items() for word in ("--group", f"{name}={','.join(programs)}")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([CASTELL, "predict", "--simulate", "kernels", "--keep", folder], check=True, capture_output=True)
        truth = f"{folder}/slowdowns.csv"
        answer = castell(jobs, "--all", "--slowdowns", truth, *groups, "--bin", 1)
        predicted = castell(jobs, "--rule", "predicted", "--profiles", folder, "--slowdowns", truth)
        rows = list(csv.reader(open(truth)))
        columns = [rows[0].index(name) for name in names]
        table = [[row[0], *(row[column] for column in columns)] for row in rows if row[0] in names]
        table.sort(key=lambda row: names.index(row[0]))
    with open(HERE / "ours-table.csv", "w") as file:
        csv.writer(file, lineterminator="\n").writerows([["program", *names], *table])
    sets = answer["sets"]
    chosen = percent(predicted["slowdown"]["average"])
    figure("ours.svg", "Ten of our programs, simulated", ("average slowdown of a schedule, percent", 0, 120), "schedules",
           [(OTHERS, "twins", bars(sets["all"]["histogram"], 0.01)), (NO_TWINS, "no twins", bars(sets["no_twins"]["histogram"], 0.01))],
           marks=[{"at": chosen, "text": "chosen by predictions"}])
    write_sets("ours.csv", sets)
    return chosen, percent(predicted["other_rules"]["optimum"]["average"])


def percent(factor):
    return (factor - 1) * 100


def write_sets(name, sets):
    with open(HERE / name, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["subset", "schedules", "best", "average", "worst"])
        for key, found in sets.items():
            writer.writerow([key, found["ways"], *(f"{percent(found[of]):.2f}" for of in ("best", "average", "worst"))])
    print((HERE / name).read_text())


def main():
    bad, good = figure_1()
    print(f"figure 1: {bad:.0f} % and {good:.0f} % on average")
    figure_2()
    figure_3()
    jobs = ",".join(f"{name}:2" for name in NAMES)
    groups = [word for name, programs in GROUPS.items() for word in ("--group", f"{name}={','.join(programs)}")]
    answer = castell(jobs, "--all", "--slowdowns", HERE / "table.csv", *groups)
    histograms(answer["sets"], answer["bin"])
    write_sets("results.csv", answer["sets"])
    pairs = [slowdown for slowdown, _ in combined()]
    print(f"55 pairs: {pairs[0]:.2f} to {pairs[-1]:.2f} %, mean {sum(pairs) / 55:.2f} %, worst three {pairs[-3:]}")
    optimum = castell(jobs, "--slowdowns", HERE / "table.csv")
    print(f"optimum {100 * (optimum['slowdown']['average'] - 1):.2f} %, proved: {optimum['proved_optimum']}")
    chosen, best = our_programs()
    print(f"our programs: chosen by predictions {chosen:.2f} %, optimum {best:.2f} %")


main()
