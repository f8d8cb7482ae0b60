#!/usr/bin/env python3
"""Draws the thesis' figures from virtual.csv and measured.csv beside this script: left 48 processors in virtual time, right
this machine."""

import csv
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

FIGURES = {
    "3.1": ("multiaxpy-noop", ["original", "original, LIFO", "original, no successor", "original, neither"]),
    "3.3": ("cholesky", ["original", "original, LIFO", "original, no successor", "original, neither"]),
    "4.2": ("multiaxpy-noop", ["original", "static 20, FIFO", "static 20, LIFO"]),
    "4.3": ("cholesky", ["original", "static 20, FIFO", "static 20, LIFO"]),
    "4.4": ("multiaxpy-noop", ["original", "dynamic, FIFO", "dynamic, LIFO"]),
    "4.5": ("cholesky", ["original", "dynamic, FIFO", "dynamic, LIFO"]),
    "4.6": ("multiaxpy-noop", ["original", "balanced, FIFO", "balanced, LIFO"]),
    "4.8": ("cholesky", ["original", "balanced, FIFO", "balanced, LIFO"]),
    "5.2": ("multiaxpy-noop", ["original", "original, allocator"]),
    "5.3": ("cholesky", ["original", "original, allocator"]),
    "5.4": ("multiaxpy-noop", ["balanced, LIFO", "balanced, LIFO, allocator"]),
    "5.5": ("cholesky", ["balanced, LIFO", "balanced, LIFO, allocator"]),
    "6.1": ("multiaxpy-noop", ["original", "balanced, LIFO, allocator", "ours"]),
    "6.3": ("cholesky", ["original", "balanced, LIFO, allocator", "ours"]),
    "6.5": ("multiaxpy-recursive", ["original", "balanced, LIFO, allocator", "ours"]),
    "6.6": ("multiaxpy-10it", ["original", "balanced, LIFO, allocator", "ours"]),
}
PROFILES = {
    "3.2": "multiaxpy-noop, original",
    "3.4": "cholesky, original",
    "4.7": "multiaxpy-noop, the tree without the allocator",
    "4.9": "cholesky, the tree without the allocator",
    "6.2": "multiaxpy-noop, the tree with the allocator",
    "6.4": "cholesky, the tree with the allocator",
}


def drawing(path, figure, benchmark, names, sources):
    panel = lambda title, times: {"title": title, "y": {"unit": "ms", "scale": "log10"},
                                  "series": [{"name": name, "points": sorted(map(list, times[benchmark, name].items()))} for name in names]}
    unit = "rows of a tile" if benchmark == "cholesky" else "elements a block"
    draw(path, f"{benchmark}: time over {unit} (figure {figure})", columns=2, x={"label": unit, "scale": "log2"},
         panels=[panel(title, times) for title, times in sources])


def tail(name):
    """Of a long path what tells it from others."""
    return name if len(name) <= 66 else "…" + name[-65:]


def draw_profile(path, figure, benchmark, sources):
    panel = lambda colour, title, parts: {"title": title, "series": [{"kind": "bars", "labels": True, "colour": colour, "points": [[percent, tail(name)] for name, percent in parts]}]}
    draw(path, f"{benchmark}: where processors' time goes at the smallest block (figure {figure})", width=1000,
         panels=[{"x": {"unit": "%", "from": 0}, "y": {}, **panel(colour, *source)} for colour, source in enumerate(sources)])


def profiles(folder):
    sources = []
    titles = [
        ("virtual-profiles.csv", "48 processors, virtual time"),
        ("measured-profiles.csv", "the machine at hand, functions sampled"),
    ]
    for name, title in titles:
        if (folder / name).exists():
            parts = defaultdict(list)
            with open(folder / name, newline="") as file:
                for row in csv.DictReader(file):
                    parts[row["figure"]].append((row["part"], float(row["percent"])))
            sources.append((title, parts))
    for figure, benchmark in PROFILES.items():
        drawn = [(title, parts[figure]) for title, parts in sources]
        draw_profile(folder / f"{figure}.svg", figure, benchmark, drawn)


def main():
    folder = Path(__file__).parent
    sources = []
    titles = [("virtual.csv", "48 processors, virtual time"), ("measured.csv", "the machine at hand, measured")]
    for name, title in titles:
        if not (folder / name).exists():
            continue
        times = defaultdict(dict)
        with open(folder / name, newline="") as file:
            for row in csv.DictReader(file):
                times[row["benchmark"], row["curve"]][int(row["block"])] = float(row["ms"])
        sources.append((title, times))
    for figure, (benchmark, names) in FIGURES.items():
        drawing(folder / f"{figure}.svg", figure, benchmark, names, sources)
    profiles(folder)


if __name__ == "__main__":
    main()
