#!/usr/bin/env python3
"""How long `sbatch` takes, without castell's plug-in and with it, in turns, on a quiet machine and on a busy one:

    python3 experiments/slurm-submission/run.py target/release/castell

Starts two Slurms of ten nodes of two slots on this host (needs Slurm's daemons, and root as they do). The nodes are said to be there, but no
slurmd runs: what a submission costs is the controller's business, and jobs that wait are what `castell-place` looks at."""

import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASTELL = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
HOST = socket.gethostname().split(".")[0]


def free_port():
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return there.getsockname()[1]


class Slurm:
    def __init__(self, folder, plugin):
        self.folder = pathlib.Path(folder)
        (self.folder / "state").mkdir(parents=True)
        script = self.folder / "castell-place"
        text = (ROOT / "packaging/slurm/castell-place").read_text()
        runtime = f"XDG_RUNTIME_DIR={self.folder}; export XDG_RUNTIME_DIR\nPATH={CASTELL.parent}:/usr/local/bin"
        script.write_text(text.replace("PATH=/usr/local/bin", runtime, 1))
        script.chmod(0o755)
        text = (ROOT / "packaging/slurm/job_submit.lua").read_text()
        (self.folder / "job_submit.lua").write_text(text.replace("/etc/slurm/castell-place", str(script)))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        names = [f"n{number}" for number in range(1, 11)]
        nodes = "".join(f"NodeName={n} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 State=UNKNOWN\n" for n in names)
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text(
            f"ClusterName=castell\nSlurmctldHost={HOST}(127.0.0.1)\nSlurmctldPort={free_port()}\nAuthType=auth/none\nCredType=cred/none\n"
            f"SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool.%n\n"
            f"SlurmctldPidFile={folder}/slurmctld.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            f"JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSwitchType=switch/none\n"
            f"MpiDefault=none\nSchedulerType=sched/backfill\nSlurmdParameters=config_overrides\n{plugin}{nodes}"
            f"PartitionName=main Nodes={','.join(names)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:1\n"
        )
        log = open(self.folder / "slurmctld.out", "w")
        self.daemon = subprocess.Popen(["/usr/sbin/slurmctld", "-D", "-f", self.conf], env=self.environment(), stdout=log, stderr=log)
        while subprocess.run(["sinfo"], env=self.environment(), capture_output=True).returncode != 0:
            time.sleep(0.2)

    def environment(self):
        return {"SLURM_CONF": str(self.conf), "PATH": "/usr/bin:/bin:/usr/sbin"}

    def submit(self, at):
        begin = time.monotonic()
        words = ["sbatch", "-n1", "-J", f"p{at % 10}", "--output=/dev/null", "--wrap", f"srun ./p{at % 10} input"]
        subprocess.run(words, env=self.environment(), check=True, capture_output=True, cwd=self.folder)
        return (time.monotonic() - begin) * 1e3

    def controller(self):
        """Milliseconds that the controller itself took for a submission, on average since the last reset."""
        said = subprocess.run(["sdiag"], env=self.environment(), check=True, capture_output=True, text=True).stdout
        line = next(line for line in said.splitlines() if "REQUEST_SUBMIT_BATCH_JOB" in line)
        return int(re.search(r"ave_time:(\d+)", line)[1]) / 1e3


def row(name, slurms):
    times = [[], []]
    for slurm in slurms:
        subprocess.run(["sdiag", "-r"], env=slurm.environment(), check=True, capture_output=True)
    for at in range(ROUNDS):
        for which in (0, 1) if at % 2 else (1, 0):
            times[which].append(slurms[which].submit(at))
    median = [statistics.median(of) for of in times]
    more = sorted(one - other for other, one in zip(*times))
    inside = [slurm.controller() for slurm in slurms]
    print(
        f"| {name} | {median[0]:.1f} | {median[1]:.1f} | {statistics.median(more):.1f} | {more[int(len(more) * 0.95)]:.1f} "
        f"| {max(times[0]):.0f} | {max(times[1]):.0f} | {inside[0]:.2f} | {inside[1]:.2f} |"
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        plugin = f"JobSubmitPlugins=lua\nEpilogSlurmctld={folder}/with/castell-place\n"
        slurms = [Slurm(f"{folder}/without", ""), Slurm(f"{folder}/with", plugin)]
        try:
            print("| ms | without | with | more, median | more, 95 % | longest without | longest with | controller without | controller with |\n|---|---|---|---|---|---|---|---|---|")
            row("quiet", slurms)
            load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
            try:
                row("four busy processes", slurms)
            finally:
                for one in load:
                    one.kill()
                    one.wait()
        finally:
            for slurm in slurms:
                slurm.daemon.terminate()
                slurm.daemon.wait()
            time.sleep(2)


main()
