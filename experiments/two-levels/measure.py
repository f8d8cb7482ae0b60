"""Runs programs on hosts of labs and simulates them on what was measured of those hosts just before:
python3 experiments/two-levels/measure.py CASTELL RUN.json"""
import json
import pathlib
import subprocess
import sys
import tempfile

CASTELL, OUT = sys.argv[1:]
PROGRAMS = ["barrier:dissemination", "bcast:binomial", "bcast:two-level", "allreduce:recursive-doubling",
            "allreduce:two-level", "alltoall:linear"]
SIZES = [8, 8192, 65536]
#: Hosts, ranks.
PLACES = [(2, 2), (2, 4), (4, 4)]


def castell(*words):
    told = subprocess.run([CASTELL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    if told.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {told.stderr.decode()}")
    return json.loads(told.stdout)


rows = []
with tempfile.TemporaryDirectory(dir=".") as folder:
    for hosts, ranks in PLACES:
        levels = str(pathlib.Path(folder).resolve() / f"levels-{hosts}-{ranks}.toml")
        lab = ["lab", str(hosts), "--", CASTELL]
        models = castell(*lab, "tune", "hosts", "-o", levels, "--bytes", ",".join(map(str, SIZES)), "--json")
        for program in PROGRAMS:
            for size in SIZES if program != "barrier:dissemination" else SIZES[:1]:
                options = ["--ranks", str(ranks), "--bytes", str(size), "--json"]
                ran = castell(*lab, "run", program, *options, "--repeat", "30")
                simulated = castell("simulate", program, *options, "--hosts", str(hosts), "--levels", levels)
                rows.append({
                    "hosts": hosts, "ranks": ranks, "program": program, "bytes": size,
                    "predicted_ns": simulated["makespan_ps"] / 1e3, "median_ns": ran["repeat"]["median_ns"],
                    "min_ns": ran["repeat"]["min_ns"], "quartiles_ns": ran["repeat"]["quartiles_ns"],
                    "clock_error_ns": ran["clocks"]["error_ns"],
                    "within": models["within"]["model"], "between": models["between"]["model"],
                })
                print(rows[-1]["program"], hosts, ranks, size, file=sys.stderr)
pathlib.Path(OUT).write_text(json.dumps(rows, indent=1) + "\n")
