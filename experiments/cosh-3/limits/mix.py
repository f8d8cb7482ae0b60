#!/usr/bin/env python3
"""Sessions of 24 programs at random, always the same: mix.py SLOWDOWNS.csv SECONDS_BETWEEN > mix.json"""
import csv
import json
import random
import sys

with open(sys.argv[1]) as table:
    programs = next(csv.reader(table))[1:]
random.seed(7)
at, sessions = 0.0, []
for _ in range(5000):
    at += random.expovariate(1 / float(sys.argv[2]))
    sessions.append({
        "submit_s": round(at, 1),
        "run_s": round(random.lognormvariate(4.5, 1.0), 1) + 1,
        "processes": random.choice([1, 2, 2, 4]),
        "program": random.choice(programs),
    })
json.dump({"sessions": sessions}, sys.stdout)
