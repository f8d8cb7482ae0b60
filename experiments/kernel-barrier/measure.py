"""A barrier in the kernels of 2, 4 and 8 hosts of a lab, in user space over TCP, and of an Open MPI over TCP, while processors idle and while all of them compute.

    python3 experiments/kernel-barrier/measure.py CASTELL MPICC MPIRUN [--rounds 3]     writes data.json; as root, where castell may put programs at interfaces
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("castell", type=pathlib.Path)
parser.add_argument("mpicc")
parser.add_argument("mpirun")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--runs", type=int, default=200)
ARGS = parser.parse_args()
CASTELL = ARGS.castell.resolve()
HERE = pathlib.Path(__file__).resolve().parent


def in_lab(hosts, *command, **environment):
    words = [str(CASTELL), "lab", str(hosts), "--", *command]
    return subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def castell(hosts, busy):
    words = [str(CASTELL), "launch", "-n", str(hosts), "--", str(CASTELL), "xdp", "eth0", "barrier:dissemination"]
    told = json.loads(in_lab(hosts, *words, "--only-kernel", "--json", "--runs", str(ARGS.runs), *["--busy"] * busy))
    return {key: told[key]["median_ns"] / 1e3 for key in ("kernel", "process", "user")}


def open_mpi(hosts, busy, folder):
    names = ",".join(f"h{host}:1" for host in range(1, hosts + 1))
    computing = len(os.sched_getaffinity(0)) if busy else 0
    words = [ARGS.mpirun, "--allow-run-as-root", "--bind-to", "none", "--host", names, "--mca", "btl", "tcp,self", "--mca", "mpi_yield_when_idle", "1"]
    told = in_lab(hosts, *words, str(folder / "barrier"), str(ARGS.runs), str(computing), OMPI_MCA_plm_rsh_agent=str(folder / "on-host"))
    return statistics.median(float(line) for line in told.split())


# All hosts of a lab see the working folder, and have a /tmp of their own.
with tempfile.TemporaryDirectory(dir=HERE) as folder:
    folder = pathlib.Path(folder)
    subprocess.run([ARGS.mpicc, "-O2", str(HERE / "barrier.c"), "-pthread", "-o", str(folder / "barrier")], check=True)
    script = folder / "on-host"
    script.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec {CASTELL} lab --on "$host" -- sh -c "$*"\n')
    script.chmod(0o755)
    rows = []
    for round in range(ARGS.rounds):
        for hosts in (2, 4, 8):
            for busy in (False, True):
                row = {"round": round, "hosts": hosts, "busy": busy, **castell(hosts, busy), "open_mpi": open_mpi(hosts, busy, folder)}
                print(row, flush=True)
                rows.append(row)
(HERE / "data.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
