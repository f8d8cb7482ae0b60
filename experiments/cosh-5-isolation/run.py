#!/usr/bin/env python3
"""Counts what README.md says and writes counts.csv and barrier.svg beside this script. Needs strace and valgrind.

    python3 run.py CASTELL PROGRAM     # PROGRAM is the example `isolation` of castell-bench
    python3 run.py --draw              # only barrier.svg, of counts.csv
"""
import csv
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

HERE = Path(__file__).resolve().parent
# Ranks, what, how many calls in the shorter run (the longer one does five times as many), and how many domains.
COUNTED = [(4, "barrier:0", 100, [0, 1, 2, 4]), (2, "pingpong:8", 200, [0, 1, 2]), (4, "alltoall:4096", 50, [0, 4])]
# Table 1 of the paper: MPI barrier of 16 ranks in k virtual machines, InfiniBand between them. us
PAPER = {0: 2.05, 1: 2.10, 2: 8.07, 4: 19.44, 8: 9.10, 16: 13.58}


def launch(castell, ranks, domains, command):
    isolate = ["--isolate", str(domains)] if domains else []
    words = [castell, "launch", "-n", str(ranks), "--bind", "0", "--timeout", "600s", *isolate, "--", *command]
    # With any limit the job has no pools of 16 GiB of addresses a rank, of which valgrind maps few.
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 45, 1 << 45))
    subprocess.run(words, check=True, capture_output=True, preexec_fn=limit)


def counted(castell, program, ranks, domains, what, calls):
    """System calls and instructions of all ranks. They share one processor, so that who waits gives way at once."""
    command = [program, str(calls), what]
    with tempfile.TemporaryDirectory() as folder:
        inside = f'exec strace -f -c -o {folder}/$CASTELL_RANK "$@"'
        launch(castell, ranks, domains, ["sh", "-c", inside, "sh", *command])
        entered = 0
        for path in Path(folder).iterdir():
            for line in path.read_text().splitlines():
                found = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
                entered += int(found[1]) if found and found[2] != "total" else 0
        inside = f'exec valgrind --tool=callgrind --callgrind-out-file=/dev/null --vgdb=no --log-file={folder}/i$CASTELL_RANK "$@"'
        launch(castell, ranks, domains, ["sh", "-c", inside, "sh", *command])
        logs = [path.read_text() for path in Path(folder).glob("i*")]
        executed = sum(int(re.search(r"Collected : (\d+)", log)[1]) for log in logs)
    return entered, executed


def counts(castell, program):
    rows = []
    for ranks, what, calls, all_domains in COUNTED:
        # Ping-pongs are done a hundred at a time, each both ways.
        messages = 2 if what.startswith("pingpong") else 1
        for domains in all_domains:
            few, many = (counted(castell, program, ranks, domains, what, times * calls) for times in (1, 5))
            entered, executed = ((after - before) / (4 * calls * messages) for before, after in zip(few, many))
            rows.append([ranks, what, domains, f"{entered:.3f}", f"{executed:.1f}"])
            print(rows[-1], file=sys.stderr, flush=True)
    with open(HERE / "counts.csv", "w", newline="") as file:
        head = ["ranks", "what", "domains", "system_calls", "instructions"]
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def drawing():
    """Barriers in multiples of the one without domains: the paper's times and our instructions."""
    with open(HERE / "counts.csv", newline="") as file:
        ours = {int(row["domains"]): float(row["instructions"]) for row in csv.DictReader(file) if row["what"] == "barrier:0"}
    series = [("paper, 16 ranks, InfiniBand between virtual machines: time", PAPER),
              ("castell, 4 ranks, shared memory between namespaces: instructions", ours)]
    of = lambda values: [[str(domains), value / values[0]] for domains, value in values.items()]
    draw(HERE / "barrier.svg", "Barriers in multiples of the one without domains", width=600, x={"label": "domains"}, y={"from": 0},
         series=[{"name": name, "points": of(values)} for name, values in series])


if sys.argv[1:] != ["--draw"]:
    counts(*(str(Path(path).resolve()) for path in sys.argv[1:3]))
drawing()
