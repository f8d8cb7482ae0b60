"""How all experiments draw: a chart as docs/src/charts.md describes it, handed to `castell plot`.

The environment variable CASTELL says which castell that is; otherwise the one in target/release does it.
"""
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASTELL = os.environ.get("CASTELL", str(ROOT / "target/release/castell"))


def draw(path, title, **chart):
    """Draws into a file whose ending is .svg, .png or .pdf."""
    text = json.dumps({"title": title, **chart}, allow_nan=False)
    subprocess.run([CASTELL, "--force", "plot", "-", "-o", path], input=text, text=True, check=True)
