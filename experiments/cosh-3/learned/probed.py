"""What a probe foretells of pairs of kernels.c's programs, beside what they do to each other when both are stopped and continued by turns.

    python3 experiments/cosh-3/learned/probed.py castell FOLDER [SECONDS]

A daemon (--learn probe) has a moment for itself, then each program runs alone for so many seconds (90). After that two at a time run on two processors; the
neighbour is stopped and goes on, a dozen times each, pairs in turn, and the pace of the other is what it writes a second of processor time.
"""
import json, os, signal, statistics, subprocess, sys, tempfile, time

castell, folder = sys.argv[1], sys.argv[2]
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 90.0
names = ["triad", "chase", "solver", "spin"]
kernels = {"triad": 0, "chase": 1, "matrix": 2, "solver": 3, "spin": 4}
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.c")
work = tempfile.mkdtemp()
for name in names:
    subprocess.run(["cc", "-O2", f"-DKERNEL={kernels[name]}", "-o", f"{work}/{name}", source], check=True)
learned, sock = f"{work}/learned", f"{work}/d.sock"


def known():
    said = subprocess.run([castell, "learned", "--json", "--learned", learned], capture_output=True, text=True)
    return json.loads(said.stdout) if said.returncode == 0 else {}


def probed(name):
    return next((of["probed"] for of in known().get("programs", []) if of["name"] == name), None) or {}


def pace(pid, wait):
    def now():
        with open(f"/proc/{pid}/io") as file:
            written = int(next(line for line in file if line.startswith("wchar")).split()[1])
        with open(f"/proc/{pid}/schedstat") as file:
            return written, int(file.read().split()[0])
    one = now()
    time.sleep(wait)
    other = now()
    return (other[0] - one[0]) / max(1, other[1] - one[1])


daemon = subprocess.Popen([castell, "daemon", "--session-policy", "overbook", "--learn", "probe", "--socket", sock, "--learned", learned])
time.sleep(1)
begun = time.time()
while not known().get("probes") and time.time() - begun < 60:
    time.sleep(1)
costs = {}
for name in names:
    session = subprocess.Popen([castell, "session", "run", "-n", "1", "--socket", f"{work}/d.sessions.sock", "--", f"{work}/{name}"])
    begun = time.time()
    while time.time() - begun < seconds and probed(name).get("meetings", 0) < 24:
        time.sleep(3)
    costs[name] = time.time() - begun
    session.terminate()
    session.wait()
time.sleep(7)
state = known()
print(subprocess.run([castell, "learned", "--learned", learned], capture_output=True, text=True).stdout)
for name in names:
    of = probed(name)
    print(f"{name}: {of.get('meetings', 0)} meetings in {costs[name]:.0f} s, stood still for {of.get('still_s', 0):.2f} s")
daemon.terminate()
daemon.wait()

ratios = {}
for turn in range(12):
    for own in names:
        for other in names:
            pids = []
            for cpu, name in enumerate([own, other]):
                pids.append(subprocess.Popen(["taskset", "-c", str(cpu), f"{work}/{name}"]))
            time.sleep(0.3)
            paces = {}
            for alone in ([True, False] if turn % 2 else [False, True]):
                os.kill(pids[1].pid, signal.SIGSTOP if alone else signal.SIGCONT)
                time.sleep(0.02)
                paces[alone] = pace(pids[0].pid, 0.2)
            ratios.setdefault((own, other), []).append(paces[True] / max(1e-12, paces[False]))
            for pid in pids:
                pid.kill()
                pid.wait()
rows = ["| program | beside | foretold | measured (quartiles of 12) |", "|---|---|---|---|"]
for (own, other), of in ratios.items():
    of.sort()
    said = subprocess.run([castell, "learned", "predict", own, other, "--json", "--learned", learned], capture_output=True, text=True)
    said = json.loads(said.stdout)["predictions"][0]["pairs"] if said.returncode == 0 and own != other else []
    told = f"{said[0]['said']['low']:.2f} to {said[0]['said']['high']:.2f}" if said and said[0]["said"]["foretold"] else "-"
    rows.append(f"| {own} | {other} | {told} | {statistics.median(of):.3f} ({of[3]:.3f} to {of[8]:.3f}) |")
text = "\n".join(rows)
print(text)
with open(os.path.join(folder, "probed.md"), "w") as file:
    file.write(text + "\n")
