"""djsb under each policy: in the simulator beside the paper's ten rows, and for real on this machine beside the simulator.

    python3 experiments/cosh-2/run.py model CASTELL PAPER.csv     writes model.csv
    python3 experiments/cosh-2/run.py real CASTELL DJSB           writes real.csv (DJSB: examples/sessions/djsb.c, compiled)
    python3 experiments/cosh-2/run.py traces CASTELL TRACE...     writes traces.csv and traces.svg (traces: SWF, packed or not, or lublin:…)
    python3 experiments/cosh-2/run.py draw                        only traces.svg, from traces.csv
"""
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from figures import draw

HERE = Path(__file__).parent
MODELS = ["tight", "loose", "tight,bandwidth=20", "loose,bandwidth=20"]
# From four numbers of the paper: E of the simulation and of the analyses under wait, where neither is slowed down, are the expected
# slowdowns; E of the simulation under surpass tells how long the analyses take together (1.04 / 0.86 - 1 of the simulation); W under
# wait tells the constant.
EXPECTED = (1.04, 2.0)
ANALYSES, SIMULATION_S = 4, 1000
ANALYSIS_S = (1.04 / 0.86 - 1) * SIMULATION_S / ANALYSES
W_UNDER_WAIT = 0.55


def simulated(castell, policy, description, machine, *more):
    command = [castell, "session", "simulate", description, *machine, "--policy", policy, "--json", *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["policies"][0]


def model(castell, paper):
    machine = ["--nodes", "4", "--sockets", "2", "--cores", "10", "--threads", "2"]
    rows = []
    for row in csv.DictReader(line for line in open(paper) if not line.startswith("#")):
        threads = row["variant"] == "threads"
        policy = row["policy"] + ("+spread" if row["variant"] == "spread" else "")
        sizes = ("32x5", "8x4") if threads else ("160x1", "32x1")
        text = (f"djsb:simulation={sizes[0]}x{SIMULATION_S},analysis={sizes[1]}x{ANALYSIS_S:.3f},"
                f"analyses={ANALYSES},first=100,every=200")
        expected = ["--expected", f"{EXPECTED[0]},{EXPECTED[1]}"]
        waited = simulated(castell, "wait", text, machine)["w"]
        # W = K / (wait + K) with K of an analysis: solved for the wait, then for the K that gives the paper's W.
        wait_s = ANALYSIS_S * (1 / waited - 1)
        constant = ["--wait-constant", f"{wait_s * W_UNDER_WAIT / (1 - W_UNDER_WAIT):.3f}"]
        for name in MODELS:
            found = simulated(castell, policy, text, machine, "--model", name, *expected, *constant)
            out = {"policy": row["policy"], "variant": row["variant"], "model": name}
            for key, paper_key in [("e_simulation",) * 2, ("e_analysis",) * 2, ("w", "w"), ("d", "d")]:
                out[f"{key}_paper"], out[key] = row[paper_key], f"{found[key]:.2f}"
            rows.append(out)
    write(HERE / "model.csv", rows)


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


REPETITIONS, REAL_ANALYSES, ROUNDS = (6000, 1200), 2, 3


def one(castell, djsb, policy, socket, folder):
    """A simulation on both processors, analyses on one: execution times and waits, in seconds."""
    def session(name, slots, repetitions):
        script = f"date +%s.%N > {folder}/{name}; exec {djsb} {slots} {repetitions} > {folder}/{name}.out"
        return subprocess.Popen([castell, "session", "run", "-n", str(slots), "--policy", policy, "--socket", socket,
                                 "--", "sh", "-c", script], stderr=subprocess.DEVNULL)

    started = lambda name: float(Path(folder, name).read_text())
    simulation = session("simulation", 2, REPETITIONS[0])
    asked, analyses = {}, {}
    for index in range(REAL_ANALYSES):
        time.sleep(1)
        asked[index] = time.time()
        analyses[index] = session(f"analysis{index}", 1, REPETITIONS[1])
        if policy != "wait":
            analyses[index].wait()
    for process in [simulation, *analyses.values()]:
        assert process.wait() == 0
    took = lambda name: float(Path(folder, name + ".out").read_text())
    waits = [started(f"analysis{index}") - asked[index] for index in asked]
    return took("simulation"), statistics.mean(took(f"analysis{index}") for index in asked), statistics.mean(waits)


def alone(djsb, slots, repetitions):
    return float(subprocess.run([djsb, str(slots), str(repetitions)], check=True, capture_output=True, text=True).stdout)


def real(castell, djsb):
    policies = ["wait", "surpass", "overbook", "sidestep"]
    seen = {policy: [] for policy in policies}
    for _ in range(ROUNDS):
        for policy in policies:
            with tempfile.TemporaryDirectory() as folder:
                reference = alone(djsb, 2, REPETITIONS[0]), alone(djsb, 1, REPETITIONS[1])
                simulation, analysis, wait = one(castell, djsb, policy, f"{folder}/s.sock", folder)
                w = reference[1] / (max(wait, 0) + reference[1])
                seen[policy].append((reference[0] / simulation, reference[1] / analysis, w, *reference))
    rows = []
    for policy, samples in seen.items():
        e_simulation, e_analysis, w, t_simulation, t_analysis = (statistics.median(column) for column in zip(*samples))
        text = (f"djsb:simulation=2x1x{t_simulation},analysis=1x1x{t_analysis},analyses={REAL_ANALYSES},"
                f"first=1,every={1 + t_analysis}")
        found = simulated(castell, policy, text, ["--nodes", "1", "--cores", "2"])
        rows.append({"policy": policy, "e_simulation": f"{e_simulation:.2f}", "e_analysis": f"{e_analysis:.2f}", "w": f"{w:.2f}",
                     "d": f"{e_simulation * e_analysis * w:.2f}", "simulated_e_simulation": f"{found['e_simulation']:.2f}",
                     "simulated_e_analysis": f"{found['e_analysis']:.2f}", "simulated_w": f"{found['w']:.2f}",
                     "simulated_d": f"{found['d']:.2f}", "simulation_alone_s": f"{t_simulation:.2f}",
                     "analysis_alone_s": f"{t_analysis:.2f}"})
    write(HERE / "real.csv", rows)


# Processors of a node, where there is more than one.
SLOTS = {"LLNL-Atlas": 8, "HPC2N": 2, "hpc2n": 2, "lublin": 4}
POLICIES = ["wait", "surpass", "overbook", "sidestep", "give-way"]
KEYS = ["response_ms", "bounded_slowdown", "bounded_slowdown_p95", "bounded_slowdown_max", "fairness", "fairness_of_speeds", "suspensions"]


def traces(castell, *files):
    """Every policy on every trace, on nodes with as many slots as those of the machine had."""
    rows = []
    for file in files:
        name = Path(file).name.replace("-cln", "").removesuffix(".gz").removesuffix(".swf")
        slots = next((slots for start, slots in SLOTS.items() if name.startswith(start)), 1)
        command = [castell, "session", "simulate", file, "--cores", str(slots), "--json"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for row in report["policies"]:
            out = {"trace": name, "nodes": report["nodes"], "slots_of_a_node": slots, "sessions": row["sessions"],
                   "left_out": report["left_out"], "policy": row["policy"]}
            out.update({key: f"{row[key]:.6g}" for key in KEYS}, fingerprint=row["fingerprint"])
            rows.append(out)
        write(HERE / "traces.csv", rows)
    drawing()


def drawing():
    """A line a trace: mean response, and what 95 % of bounded slowdowns are below, both over those of wait, logarithmically."""
    with open(HERE / "traces.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    waits = {row["trace"]: row for row in rows if row["policy"] == "wait"}

    def panel(key, title):
        ratio = lambda row: float(row[key]) / float(waits[row["trace"]][key])
        of = lambda policy: [[ratio(row), row["trace"]] for row in rows if row["policy"] == policy]
        return {"title": title, "series": [{"name": policy, "kind": "dots", "points": of(policy)} for policy in POLICIES]}

    # Two decades below wait, two above; what is further out stands at the edge.
    draw(HERE / "traces.svg", "Every policy on every trace, over what wait has", columns=2,
         x={"scale": "log10", "from": 0.01, "to": 100, "base": 1},
         panels=[panel("response_ms", "mean response over wait's"), panel("bounded_slowdown_p95", "95 % of bounded slowdowns over wait's")])


if __name__ == "__main__":
    {"model": model, "real": real, "traces": traces, "draw": drawing}[sys.argv[1]](*sys.argv[2:])
