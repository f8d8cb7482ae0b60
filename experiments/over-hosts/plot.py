"""Draws ratios.svg and writes tables.md from run-*.json: python3 experiments/over-hosts/plot.py"""
import json
import math
import pathlib

HERE = pathlib.Path(__file__).parent
RUNS = [json.loads(file.read_text()) for file in sorted(HERE.glob("run-*.json"))]
CASTELL, ENCRYPTED, PEER = "castell, tcp", "castell, tcp+tls", "Open MPI 4.1.4"


def times(run):
    """Medians in us, by case and subject."""
    case = lambda row: tuple(row["params"][name] for name in ("hosts", "ranks", "bytes")) + (row["workload"],)
    return {(case(row), row["subject"]): row["median_ns"] / 1e3 for row in run}


TIMES = [times(run) for run in RUNS]
CASES = list(dict.fromkeys(case for case, subject in TIMES[0] if subject == PEER))


def label(case):
    hosts, ranks, size, operation = case
    size = {65536: "64 KiB", 1048576: "1 MiB"}.get(size, f"{size} B")
    return f"{operation}{'' if operation == 'barrier' else f' {size}'}, {hosts} hosts × {ranks // hosts}"


def ratios(case, one=CASTELL, other=PEER):
    return [run[case, one] / run[case, other] for run in TIMES if (case, one) in run and (case, other) in run]


def table():
    lines = ["us, medians of three rounds, in each of two runs", "", 
             "| | castell | encrypted | Open MPI | castell / Open MPI | encrypted / castell |", "|---|---|---|---|---|---|"]
    for case in CASES:
        of = lambda subject: ", ".join(f"{run[case, subject]:.3g}" for run in TIMES if (case, subject) in run)
        ratio = lambda one, other: ", ".join(f"{ratio:.2f}" for ratio in ratios(case, one, other))
        lines.append(f"| {label(case)} | {of(CASTELL)} | {of(ENCRYPTED)} | {of(PEER)} | {ratio(CASTELL, PEER)} | {ratio(ENCRYPTED, CASTELL)} |")
    lines += ["", "A bare socket, half a round trip on 2 hosts, us", "", "| bytes | spinning | asleep |", "|---|---|---|"]
    for size in sorted({case[2] for case in CASES if case[3] == "pingpong"}):
        of = lambda way: ", ".join(f"{run[(2, 2, size, 'pingpong'), f'a bare socket, {way}']:.3g}" for run in TIMES)
        lines.append(f"| {size} | {of('spinning')} | {of('sleeping')} |")
    (HERE / "tables.md").write_text("\n".join(lines) + "\n")


def drawing():
    left, width, step, top = 200, 480, 16, 30
    height = top + step * len(CASES) + 20
    x = lambda ratio: left + width * (min(max(math.log2(ratio), -5), 1.5) + 5) / 6.5
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" height="{height}" font-family="sans-serif" font-size="10">']
    out.append(f'<rect width="{left + width + 20}" height="{height}" fill="white"/>')
    out.append(f'<text x="{left}" y="14">castell / Open MPI, both runs; left of 1 castell is faster</text>')
    for power in range(-5, 2):
        colour = "#333" if power == 0 else "#ddd"
        out.append(f'<line x1="{x(2.0**power)}" x2="{x(2.0**power)}" y1="{top - 8}" y2="{height - 15}" stroke="{colour}"/>')
        out.append(f'<text x="{x(2.0**power)}" y="{height - 4}" text-anchor="middle">{2.0**power:g}</text>')
    for at, case in enumerate(CASES):
        y = top + step * at
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{label(case)}</text>')
        for ratio in ratios(case):
            out.append(f'<circle cx="{x(ratio):.1f}" cy="{y}" r="3.5" fill="#1b6ca8" fill-opacity="0.7"/>')
    out.append("</svg>")
    (HERE / "ratios.svg").write_text("\n".join(out) + "\n")


table()
drawing()
