#!/usr/bin/env python3
"""Real programs, given as NAME=COMMAND, under castell's tools; what comes out is added to real.json beside this script.

real.py profile NAME=COMMAND…    class and flows from a sample, and exact distances (--exact SECONDS: given up then; 0: not at all)
real.py probe NAME=COMMAND…      each beside a probe
real.py pairs NAME=COMMAND…      each beside each of them, measured, and what is predicted from the profiles
real.py simulate NAME=COMMAND…   traces of all of them on the simulated chip, beside one another (--scale), and predictors trained on that
real.py draw

CASTELL names the castell that is used. --folder keeps profiles and traces between the steps.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
from figures import CASTELL, draw

HERE = Path(__file__).parent
KEPT = HERE / "real.json"


def load_average():
    return float(Path("/proc/loadavg").read_text().split()[0])


def castell(*words, seconds=None):
    """What castell prints as JSON, or why there is none."""
    try:
        done = subprocess.run([CASTELL, *map(str, words)], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"ended after {seconds:.0f} s"
    try:
        return json.loads(done.stdout), None
    except json.JSONDecodeError:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"


def alone(command, runs=3):
    """Processor time of the fastest of a few runs: others may have the processors meanwhile. Seconds."""
    times = []
    for _ in range(runs):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        if status:
            sys.exit(f"{shlex.join(command)} ended with {running.returncode}")
        times.append(used.ru_utime + used.ru_stime)
    return min(times)


def busiest(distances):
    return max(distances["programs"], key=lambda program: program["accesses"])


def curve(program):
    """Miss ratio by size: corners in blocks. First accesses always miss."""
    all_accesses, hits, corners = program["accesses"], 0, [[1, 1.0]]
    for _, to, accesses in program["distances_blocks"]:
        hits += accesses
        corners.append([to, round(1 - hits / all_accesses, 6)])
    return corners


def of_distances(distances):
    program = busiest(distances)
    ratios = {f"L{cache['level']}": round(ratio, 6) for cache, ratio in zip(distances["caches"], program["miss_ratios"])}
    return {"accesses": program["accesses"], "blocks": program["blocks"], "miss_ratios": ratios,
            "standard_error": program["miss_ratio_error"]}


def profile(programs, arguments, kept):
    for name, command in programs.items():
        own = kept.setdefault("programs", {}).setdefault(name, {"command": Path(command[0]).name + " " + shlex.join(command[1:])})
        own["load"] = load_average()
        own["seconds_alone"] = round(alone(command), 4)
        start = time.monotonic()
        told, why = castell("profile", "--json", "--by", "distances", "--keep", "--name", name, "--profiles", arguments.folder, "--", *command)
        own["profile_seconds"] = round(time.monotonic() - start, 2)
        if told:
            keys = ("class", "because", "confidence", "memory_llc_bytes_s", "llc_l2_bytes_s", "l2_l1_bytes_s", "reuse_llc", "reuse_l2")
            own["profile"] = {key: told[key] for key in keys} | {"phases": len(told["phases"]), "notes": told["notes"]}
        else:
            own["profile"] = {"error": why}
        for key, words in (("sample", ["--sample", "0.01"]), ("exact", []))[: 2 if arguments.exact > 0 else 1]:
            start = time.monotonic()
            seen, why = castell("distances", "--json", *words, "--", *command, seconds=arguments.exact if key == "exact" else None)
            own[key] = of_distances(seen) if seen else {"error": why}
            own[key]["seconds"] = round(time.monotonic() - start, 2)
        save(kept)
        print(name, own["seconds_alone"], own["profile"].get("class"), own["sample"], flush=True)


def probe(programs, arguments, kept):
    for name, command in programs.items():
        load = load_average()
        told, why = castell("slowdown", "--json", "--pairs", arguments.pairs, "--keep", "--profiles", arguments.folder, "--", *command)
        points = [{"bytes": point["bytes"], "program": point["program"], "probe": point["probe"]} for point in told["points"]] if told else []
        kept.setdefault("beside_a_probe", {})[name] = {"load": load, "points": points, "error": why}
        save(kept)
        print(name, load, [(p["bytes"], round(p["program"]["slowdown"], 3), p["program"]["effect"]) for p in points], why, flush=True)


def pairs(programs, arguments, kept):
    cpus = sorted(os.sched_getaffinity(0))
    kept["pairs"] = read().get("pairs", [])
    for name, command in programs.items():
        for other, neighbour in programs.items():
            again = "while " + shlex.join(neighbour) + " > /dev/null; do :; done"
            running = subprocess.Popen(["taskset", "-c", str(cpus[-1]), "sh", "-c", again], start_new_session=True)
            load = load_average()
            try:
                told, why = castell("slowdown", "--json", "--pairs", arguments.pairs, "--who", running.pid, "--", *command)
            finally:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            forecast, _ = castell("predict", "--json", "--train", arguments.folder, name, other)
            measured = {key: told["neighbours"][0][key] for key in ("slowdown", "low", "high", "effect")} if told else {"error": why}
            row = {"program": name, "beside": other, "load": load, "measured": measured}
            if forecast:
                row["sharing"] = {key: forecast["programs"][0]["sharing"][key] for key in ("slowdown", "low", "high", "cannot_tell")}
            kept["pairs"] = [pair for pair in kept["pairs"] if (pair["program"], pair["beside"]) != (name, other)] + [row]
            save(kept)
            print(name, other, load, measured, row.get("sharing"), flush=True)


def simulate(programs, arguments, kept):
    """Caches of the chip are divided by --scale. What an access costs is what it took in the run alone: on a machine in whose caches the program has room."""
    folder, words, paces = Path(arguments.folder), [], {}
    for name, command in programs.items():
        trace = folder / f"{name}.trace"
        if not trace.exists():
            castell("distances", "--json", "--trace", trace, "--", *command)
        seen, _ = castell("distances", "--json", "--from-trace", trace)
        paces[name] = round(alone(command, 5) / busiest(seen)["accesses"] * 1e12)
        kept.setdefault("small", {})[name] = {"command": Path(command[0]).name + " " + shlex.join(command[1:]), "access_ps": paces[name],
                                              **of_distances(seen), "curve": curve(busiest(seen))}
        words += ["--trace", f"{name}={trace},ps={paces[name]}"]
        print(name, paces[name], flush=True)
    save(kept)
    chip = folder / "chip"
    told, why = castell("predict", "--json", "--scale", arguments.scale, "--keep", chip, *words)
    if not told:
        sys.exit(why)
    kept["simulated"] = {"scale": arguments.scale, "programs": told["programs"], "constants": told["constants"],
                         "mean_slowdown_of_s_c_n_beside_s_c_n": told["mean_slowdown_of_s_c_n_beside_s_c_n"],
                         "predictors": [{key: predictor[key] for key in predictor if not key.startswith("errors")} for predictor in told["predictors"]]}
    rows = []
    for name in programs:
        for other in programs:
            both, _ = castell("predict", "--json", "--train", chip, name, other)
            one = both["programs"][0]
            rows.append({"program": name, "beside": other, "scn": one["scn"] and one["scn"]["slowdown"],
                         "sharing": {key: one["sharing"][key] for key in ("slowdown", "low", "high", "cannot_tell")}})
    table = [line.split(",") for line in (chip / "slowdowns.csv").read_text().splitlines()]
    truth = {(row[0], other): float(cell) for row in table[1:] for other, cell in zip(table[0][1:], row[1:])}
    for row in rows:
        row["simulated"] = truth[row["program"], row["beside"]]
    kept["simulated"]["pairs"] = rows
    save(kept)


def draw_all(kept):
    names = list(kept["small"])
    draw(HERE / "curves.svg", "Miss ratio by cache size of real programs", subtitle="every access; small inputs", columns=2, width=980,
         x={"label": "cache", "unit": "bytes", "scale": "log2", "from": 4096, "to": 1 << 25}, y={"label": "misses", "unit": "%", "from": 0},
         panels=[{"title": "", "series": [{"name": name, "points": [[size * 64, 100 * ratio] for size, ratio in kept["small"][name]["curve"] if 64 <= size <= 1 << 19]}
                                          for name in part]} for part in (names[:len(names) // 2], names[len(names) // 2:])])
    rows = kept["simulated"]["pairs"]
    dots = lambda of: [[row["simulated"], of(row)] for row in rows if of(row) is not None]
    most = max(row["simulated"] for row in rows) * 1.05
    draw(HERE / "simulated.svg", "Slowdowns of pairs of real programs: predicted over simulated", columns=2, width=980,
         subtitle=f"traces on the simulated chip, caches divided by {kept['simulated']['scale']}",
         x={"label": "simulated", "from": 1, "to": most}, y={"label": "predicted", "from": 1, "to": most},
         panels=[{"title": title, "series": [{"name": "a pair", "kind": "dots", "points": dots(of)},
                                             {"name": "as simulated", "points": [[1, 1], [most, most]]}]}
                 for title, of in (("by class (SCN)", lambda row: row["scn"]), ("by distances and bandwidths", lambda row: row["sharing"]["slowdown"]))])


def read():
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def save(own):
    """Adds what a step has to what is kept: another step may have added something meanwhile."""
    kept = read()
    for key, value in own.items():
        kept[key] = {**kept.get(key, {}), **value} if isinstance(value, dict) else value
    # Two numbers stay on a line.
    KEPT.write_text(re.sub(r"\[\s+(-?[\d.e+-]+),\s+(-?[\d.e+-]+)\s+\]", r"[\1, \2]", json.dumps(kept, indent=1)) + "\n")


STEPS = {"profile": profile, "probe": probe, "pairs": pairs, "simulate": simulate}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("step", choices=[*STEPS, "draw"])
parser.add_argument("programs", nargs="*", metavar="NAME=COMMAND")
parser.add_argument("--folder", default="real-programs")
parser.add_argument("--exact", type=float, default=120, help="seconds after which exact distances are given up; 0: not tried")
parser.add_argument("--pairs", type=int, default=11)
parser.add_argument("--scale", type=int, default=16)
arguments = parser.parse_intermixed_args()
if arguments.step == "draw":
    draw_all(read())
else:
    Path(arguments.folder).mkdir(exist_ok=True)
    named = dict(word.split("=", 1) for word in arguments.programs)
    STEPS[arguments.step]({name: shlex.split(command) for name, command in named.items()}, arguments, {})
