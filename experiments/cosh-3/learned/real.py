#!/usr/bin/env python3
"""A quarter of an hour of real sessions through a real daemon that learns: two at a time, each 12 to 40 seconds of one of five kernels.

    real.py CASTELL MINUTES FOLDER      writes learned.json, learned.txt and learned.svg into FOLDER
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

castell, minutes, out = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
here, draw = Path(__file__).parent, random.Random(1)
work = Path(tempfile.mkdtemp())
names = ["triad", "chase", "matrix", "solver", "spin"]
for number, name in enumerate(names):
    subprocess.run(["cc", "-O2", f"-DKERNEL={number}", "-o", work / name, here / "kernels.c"], check=True)
socket, learned = work / "daemon.sock", work / "learned"
daemon = subprocess.Popen([castell, "daemon", "--socket", socket, "--learned", learned])
while not (work / "daemon.sessions.sock").exists():
    time.sleep(0.05)
running, ended, end = {}, 0, time.time() + 60 * minutes
while time.time() < end:
    for session, until in list(running.items()):
        if time.time() >= until:
            session.terminate()
            session.wait()
            del running[session]
            ended += 1
    # Now and then one is alone for a while.
    if len(running) < 2 and draw.random() < 0.1:
        words = [castell, "session", "run", "--slots", "1", "--socket", work / "daemon.sessions.sock", "--", work / draw.choice(names)]
        running[subprocess.Popen(words)] = time.time() + draw.uniform(12, 40)
    time.sleep(1)
for session in running:
    session.terminate()
    session.wait()
time.sleep(6)
daemon.terminate()
daemon.wait()
print(f"{ended} sessions in {minutes:g} minutes")
ask = [castell, "learned", "--learned", learned]
(out / "learned.json").write_bytes(subprocess.run([*ask, "--json"], check=True, capture_output=True).stdout)
text = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
(out / "learned.txt").write_text(text)
print(text)
subprocess.run([*ask, "--svg", out / "learned.svg", *(["--force"] if (out / "learned.svg").exists() else [])], check=True)
