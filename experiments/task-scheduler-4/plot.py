#!/usr/bin/env python3
"""Draws the thesis' figures from virtual.csv and measured.csv beside this script: left 48 processors in virtual time, right
this machine. Needs nothing but Python."""

import csv
import math
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = ["#0b6e99", "#d9730d", "#6a4c93", "#b3261e"]
WIDTH, HEIGHT, GAP = 330, 250, 70
LEFT, TOP, BOTTOM = 66, 52, 92
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
STYLE = (
    "<style>.ink{fill:#24292f}.paper{fill:#fff}.grid{stroke:#d0d5da}@media(prefers-color-scheme:dark)"
    "{.ink{fill:#e6edf3}.paper{fill:#16191d}.grid{stroke:#3a4149}}</style>"
)


def axis(values, low, high):
    """A logarithmic axis from a power of two to a power of two."""
    first, last = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    return lambda value: low + (math.log2(value) - first) / (last - first or 1) * (high - low)


def block_name(block):
    return str(block) if block < 1024 else f"{block // 1024}k" if block < 1 << 20 else f"{block >> 20}M"


def time_name(ms):
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def panel(left, title, curves):
    right = left + WIDTH
    blocks = sorted({block for points in curves.values() for block in points})
    times = [time for points in curves.values() for time in points.values()]
    x, y = axis(blocks, left, right), axis(times, TOP + HEIGHT, TOP)
    out = [f'<text class="ink" x="{left}" y="{TOP - 10}">{escape(title)}</text>']
    ticks = [step * 10.0**power for power in range(-3, 7) for step in (1, 2, 5)]
    shown = [tick for tick in ticks if min(times) * 0.7 <= tick <= max(times) * 1.3 and TOP <= y(tick) <= TOP + HEIGHT]
    if len(shown) > 8:
        shown = [tick for tick in shown if f"{tick:e}".startswith("1")]
    for tick in shown:
        out.append(f'<path class="grid" d="M{left} {y(tick):.1f}H{right}"/>')
        out.append(f'<text class="ink" x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{time_name(tick)}</text>')
    for block in blocks[:: 2 if len(blocks) > 6 else 1]:
        out.append(
            f'<text class="ink" x="{x(block):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{block_name(block)}</text>'
        )
    for colour, points in zip(COLOURS, curves.values()):
        path = "L".join(f"{x(block):.1f} {y(time):.1f}" for block, time in sorted(points.items()))
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(b):.1f}" cy="{y(t):.1f}" r="2.5" fill="{colour}"/>' for b, t in points.items()]
    return out


def draw(figure, benchmark, names, sources):
    panels = [(title, {name: times[benchmark, name] for name in names}) for title, times in sources]
    width = LEFT + len(panels) * (WIDTH + GAP)
    height = TOP + HEIGHT + BOTTOM
    unit = "rows of a tile" if benchmark == "cholesky" else "elements a block"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        STYLE,
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="ink" x="{LEFT}" y="20" font-size="13">{escape(benchmark)}: time over {unit} (figure {figure})</text>',
    ]
    for number, (title, curves) in enumerate(panels):
        out += panel(LEFT + number * (WIDTH + GAP), title, curves)
    at = LEFT
    for colour, name in zip(COLOURS, names):
        out.append(f'<path d="M{at} {height - 30}h18" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text class="ink" x="{at + 24}" y="{height - 26}">{escape(name)}</text>')
        at += 50 + 6.4 * len(name)
    return "\n".join([*out, "</svg>"]) + "\n"


def bars(left, names, title, parts, colour):
    """Bars that begin at `left` with their names before it."""
    out = [f'<text class="ink" x="{left}" y="{TOP - 10}" font-weight="bold">{escape(title)}</text>']
    most = max(percent for _, percent in parts)
    for number, (name, percent) in enumerate(parts):
        y = TOP + number * 18
        name = name if len(name) <= names else "…" + name[1 - names :]
        out.append(f'<text class="ink" x="{left - 6}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{left}" y="{y + 2}" width="{percent / most * 160:.1f}" height="13" fill="{colour}"/>')
        out.append(f'<text class="ink" x="{left + percent / most * 160 + 5:.1f}" y="{y + 12}">{percent:.1f} %</text>')
    return out


def draw_profile(figure, benchmark, sources):
    (first, parts), *others = sources
    rows = max(len(parts) for _, parts in sources)
    width, height = 430 + len(others) * 690, TOP + rows * 18 + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        STYLE,
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="ink" x="12" y="20" font-size="13">{escape(benchmark)}: where processors\' time goes at the smallest'
        f" block (figure {figure})</text>",
        *bars(200, 34, first, parts, COLOURS[0]),
    ]
    for title, parts in others:
        out += bars(840, 66, title, parts, COLOURS[1])
    return "\n".join([*out, "</svg>"]) + "\n"


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
        (folder / f"{figure}.svg").write_text(draw_profile(figure, benchmark, drawn))


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
        (folder / f"{figure}.svg").write_text(draw(figure, benchmark, names, sources))
    profiles(folder)


if __name__ == "__main__":
    main()
