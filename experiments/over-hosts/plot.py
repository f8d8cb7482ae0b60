"""Draws ratios.svg and writes tables.md from run-*.json: python3 experiments/over-hosts/plot.py"""
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from figures import draw

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
    lines += memory()
    (HERE / "tables.md").write_text("\n".join(lines) + "\n")


def memory():
    """What ranks of one host have over TCP, by their number."""
    rows = [[float(word) for word in line.split(",")] for line in (HERE / "memory.csv").read_text().split()]
    lines = ["", "Memory of ranks on one host over TCP, KiB: the median, and the most", "",
             "| ranks | of its own | rank 0's own | of files | segment, touched | getrusage | a barrier, us |", "|---|---|---|---|---|---|---|"]
    for ranks in sorted({row[0] for row in rows}):
        of = lambda column: [row[column] for row in rows if row[0] == ranks]
        both = lambda column: f"{statistics.median(of(column)):.0f}, {max(of(column)):.0f}"
        own = [row[2] for row in rows if row[0] == ranks and row[1] != 0]
        first = next(row[2] for row in rows if row[0] == ranks and row[1] == 0)
        lines.append(f"| {ranks:.0f} | {statistics.median(own):.0f}, {max(own):.0f} | {first:.0f} | {both(3)} | {both(4)} | {both(5)} | {max(of(6)):.0f} |")
    return lines


def drawing():
    points = [[ratio, label(case)] for case in CASES for ratio in ratios(case)]
    draw(HERE / "ratios.svg", "castell over Open MPI, both runs", subtitle="Left of 1 castell is faster.", width=720,
         x={"scale": "log2", "from": 1 / 32, "to": 2**1.5, "base": 1}, series=[{"kind": "dots", "points": points}])


table()
drawing()
