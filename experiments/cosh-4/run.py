#!/usr/bin/env python3
"""Runs castell on the fitted table, and on ten programs of ours on its simulated chip, and draws figures 1 to 5 beside this script:

    python3 experiments/cosh-4/run.py target/release/castell"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
CASTELL = sys.argv[1]
GROUPS = {"low": ["DC", "EP", "UA"], "mid": ["BT", "IS", "MG", "SP"], "high": ["CG", "FT", "LU"]}
NAMES = "BT CG DC EP FT IS LU MG SP UA".split()
COLOURS = {"grey": "#9aa4b0", "orange": "#e69f00", "red": "#d55e00", "green": "#009e73", "blue": "#0072b2", "pink": "#cc79a7"}


def castell(*arguments):
    return json.loads(subprocess.run([CASTELL, "place", *map(str, arguments), "--json"], check=True, capture_output=True).stdout)


class Plot:
    """Curves and bars over two axes, as SVG."""

    def __init__(self, title, x, y, x_label, y_label):
        self.x, self.y, self.parts = x, y, []
        self.parts.append(f'<text x="60" y="24" font-size="15" font-weight="bold">{title}</text>')
        for step in range(6):
            value, other = x[0] + (x[1] - x[0]) * step / 5, y[0] + (y[1] - y[0]) * step / 5
            self.parts.append(f'<text x="{self.at_x(value):.1f}" y="352" text-anchor="middle">{value:g}</text>')
            self.parts.append(f'<text x="54" y="{self.at_y(other) + 4:.1f}" text-anchor="end">{other:g}</text>')
            self.parts.append(f'<path d="M60 {self.at_y(other):.1f}H680" stroke="#d5dae0"/>')
        self.parts.append(f'<text x="370" y="374" text-anchor="middle">{x_label}</text>')
        self.parts.append(f'<text x="60" y="42">{y_label}</text>')
        self.legend = 0

    def at_x(self, value):
        return 60 + 620 * (value - self.x[0]) / (self.x[1] - self.x[0])

    def at_y(self, value):
        return 335 - 285 * (value - self.y[0]) / (self.y[1] - self.y[0])

    def name(self, colour, text):
        self.parts.append(f'<rect x="{430 + 125 * (self.legend % 2)}" y="{8 + 16 * (self.legend // 2)}" width="10" height="10" fill="{COLOURS[colour]}"/>')
        self.parts.append(f'<text x="{445 + 125 * (self.legend % 2)}" y="{17 + 16 * (self.legend // 2)}">{text}</text>')
        self.legend += 1

    def curve(self, points, colour, text):
        path = "L".join(f"{self.at_x(x):.1f} {self.at_y(y):.1f}" for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[colour]}" stroke-width="2"/>')
        self.name(colour, text)

    def bar(self, start, end, height, colour):
        left, right, top = self.at_x(start), self.at_x(end), self.at_y(height)
        self.parts.append(f'<rect x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" height="{335 - top:.2f}" fill="{COLOURS[colour]}"/>')

    def write(self, name):
        head = '<svg xmlns="http://www.w3.org/2000/svg" width="700" height="385" viewBox="0 0 700 385" font-family="sans-serif" font-size="11"><rect width="700" height="385" fill="#fff"/>'
        (HERE / name).write_text(head + "\n".join(self.parts) + "</svg>\n")


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
        plot = Plot(f"Figure 2: {jobs} jobs", (0, 1), (0, 2.5), "combined use of the resource, of what all could use", "density")
        plot.curve([(0, 0), (0, 1), (1, 1), (1, 0)], "red", "the same job")
        steps = [step / 200 for step in range(201)]
        plot.curve([(x, jobs * density_of_sum(jobs, jobs * x)) for x in steps], "green", "different jobs")
        plot.write(name)


def combined():
    rows = [row for row in csv.reader(open(HERE / "table.csv")) if row and not row[0].startswith("#")]
    percent = {(row[0], name): float(field.rstrip("%")) for row in rows[1:] for name, field in zip(rows[0][1:], row[1:])}
    pairs = [(one, other) for at, one in enumerate(NAMES) for other in NAMES[at:]]
    return sorted((percent[pair] + percent[pair[::-1]], pair) for pair in pairs)


def figure_3():
    pairs = combined()
    plot = Plot("Figure 3: combined slowdown of the 55 pairs", (0, 55), (0, 100), "pairs", "percent")
    for at, (slowdown, (one, other)) in enumerate(pairs):
        plot.bar(at + 0.1, at + 0.9, max(slowdown, 0.5), "red" if one == other else "grey")
    plot.name("red", "twins")
    plot.name("grey", "others")
    plot.write("3.svg")


def histograms(sets, bin_width):
    def draw(title, name, shown):
        most = max(sets["all"]["histogram"])
        plot = Plot(title, (2, 14), (0, -(-most // 5000) * 5000), "average slowdown of a schedule, percent", "schedules")
        for key, colour, text in shown:
            plot.name(colour, text)
            for at, count in enumerate(sets[key]["histogram"]):
                if count:
                    plot.bar(at * bin_width * 100, (at + 1) * bin_width * 100, count, colour)
        plot.write(name)

    suffix = "_twins_by_pair_last_unchecked"
    draw("Figure 4", "4.svg", [("all", "grey", "twins"), ("no_twins_last_pair_unchecked", "orange", "no twins")])
    draw("Figure 5", "5.svg", [("all", "grey", "all"), ("no_twins_last_pair_unchecked", "orange", "no twins"), ("high" + suffix, "red", "high twins"), ("mid" + suffix, "green", "mid twins"), ("low" + suffix, "blue", "low twins")])


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
    most = max(sets["all"]["histogram"])
    plot = Plot("Ten of our programs, simulated", (0, 120), (0, -(-most // 10000) * 10000), "average slowdown of a schedule, percent", "schedules")
    for key, colour, text in [("all", "grey", "twins"), ("no_twins", "orange", "no twins")]:
        plot.name(colour, text)
        for at, count in enumerate(sets[key]["histogram"]):
            if count:
                plot.bar(at, at + 1, count, colour)
    chosen = percent(predicted["slowdown"]["average"])
    plot.parts.append(f'<path d="M{plot.at_x(chosen):.1f} 50V335" stroke="{COLOURS["blue"]}" stroke-width="2"/>')
    plot.name("blue", "chosen by predictions")
    plot.write("ours.svg")
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
