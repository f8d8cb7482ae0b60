"""Figures 4 to 6 on this machine: `castell slowdown` for the solver and the search.

run.py CASTELL: builds both programs with gcc and writes measured.csv beside this file.
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAMS = [("solver 500", "solver", "500", "200"), ("solver 1000", "solver", "1000", "45"), ("solver 2000", "solver", "2000", "12"),
            ("search", "search", "1024", "9000000")]


def measure(castell, folder):
    for name in ("solver", "search"):
        subprocess.run(["gcc", "-O2", "-o", folder / name, HERE / f"{name}.c"], check=True)
    for name, binary, *arguments in PROGRAMS:
        command = [castell, "slowdown", "--json", "--sizes", "512K,4M,16M,32M,64M", "--", folder / binary, *arguments]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for point in json.loads(output)["points"]:
            for who in ("program", "probe"):
                of = point[who]
                yield [name, point["bytes"] >> 10, who, *(f"{of[key]:.3f}" for key in ("slowdown", "low", "high")), of["pairs"], of["effect"]]


def main(castell):
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measure(castell, pathlib.Path(folder)))
    with open(HERE / "measured.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["program", "probe_kib", "who", "slowdown", "low", "high", "pairs", "effect"])
        out.writerows(rows)
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main(*sys.argv[1:])
