#!/usr/bin/env python3
"""Writes the GOAL programs of this folder: patterns that real codes are made of.

    python3 generate.py            writes the files beside this script
    python3 generate.py --check    says which of them are not what it would write (exit code 1)

Each generator returns one Rank per process. Times in `calc` are nanoseconds.
"""

import sys
from pathlib import Path


class Rank:
    """One rank's operations, in order; every operation gets a label and the labels it requires."""

    def __init__(self):
        self.lines = []

    def add(self, label, operation, *requires):
        self.lines.append(f"{label}: {operation}")
        self.lines.extend(f"{label} requires {other}" for other in requires)
        return label


def text(name, comment, ranks):
    """The program as GOAL text."""
    out = [f"// {name}: {line}" if first else f"// {line}" for first, line in mark_first(comment)]
    out.append(f"num_ranks {len(ranks)}")
    for number, rank in enumerate(ranks):
        out += ["", f"rank {number} {{"] + rank.lines + ["}"]
    return "\n".join(out) + "\n"


def mark_first(lines):
    return [(index == 0, line) for index, line in enumerate(lines)]


def pingpong(rounds=100, size=8):
    """Two ranks, one message to and fro."""
    ranks = [Rank(), Rank()]
    last = [(), ()]
    for i in range(rounds):
        sent = ranks[0].add(f"ping{i}", f"send {size}b to 1 tag 0", *last[0])
        got = ranks[0].add(f"back{i}", f"recv {size}b from 1 tag 1", *last[0])
        last[0] = (sent, got)
        got = ranks[1].add(f"ping{i}", f"recv {size}b from 0 tag 0", *last[1])
        last[1] = (ranks[1].add(f"back{i}", f"send {size}b to 0 tag 1", got),)
    return ranks


def barrier(size=8):
    """Dissemination barrier (Bruck): in round s send to rank + 2^s, receive from rank - 2^s."""
    ranks = []
    for me in range(size):
        rank, before, distance, stage = Rank(), (), 1, 0
        while distance < size:
            rank.add(f"s{stage}", f"send 1b to {(me + distance) % size} tag {stage}", *before)
            before = (rank.add(f"r{stage}", f"recv 1b from {(me - distance) % size} tag {stage}", *before),)
            distance, stage = 2 * distance, stage + 1
        ranks.append(rank)
    return ranks


def halo(columns=4, rows=2, steps=20, edge=512, calc=400_000):
    """Five-point stencil on a grid of ranks: exchange edges, compute the inside meanwhile, then the rim."""
    directions = {"west": (-1, 0), "east": (1, 0), "north": (0, -1), "south": (0, 1)}
    opposite = {"west": "east", "east": "west", "north": "south", "south": "north"}
    tags = {name: number for number, name in enumerate(directions)}
    ranks = []
    for me in range(columns * rows):
        x, y = me % columns, me // columns
        neighbours = {
            name: (y + dy) * columns + x + dx
            for name, (dx, dy) in directions.items()
            if 0 <= x + dx < columns and 0 <= y + dy < rows
        }
        rank, before = Rank(), ()
        for step in range(steps):
            done = []
            for name, other in neighbours.items():
                done.append(rank.add(f"s{step}{name}", f"send {edge * 8}b to {other} tag {tags[name]}", *before))
                tag = tags[opposite[name]]
                done.append(rank.add(f"r{step}{name}", f"recv {edge * 8}b from {other} tag {tag}", *before))
            inside = rank.add(f"inside{step}", f"calc {calc}", *before)
            before = (rank.add(f"rim{step}", f"calc {calc // 8}", inside, *done),)
        ranks.append(rank)
    return ranks


def wavefront(columns=2, rows=2, sweeps=4, blocks=10, face=36_000, calc=2_000_000):
    """A transport sweep, as in neutron codes: from each of the eight corners of a box a wave of work runs through the
    grid of ranks, `blocks` planes one behind the other. A rank waits for its upwind neighbours in x and y, computes,
    and sends downwind. After each sweep all ranks agree on the error (recursive doubling)."""
    ranks = []
    for me in range(columns * rows):
        x, y = me % columns, me // columns
        rank, before = Rank(), ()
        for sweep in range(sweeps):
            for corner in range(8):
                dx, dy = (1 if corner & 1 else -1), (1 if corner & 2 else -1)
                upwind = [(name, xx, yy) for name, xx, yy in (("x", x - dx, y), ("y", x, y - dy))]
                downwind = [(name, xx, yy) for name, xx, yy in (("x", x + dx, y), ("y", x, y + dy))]
                inside = [(n, xx, yy) for n, xx, yy in upwind if 0 <= xx < columns and 0 <= yy < rows]
                onward = [(n, xx, yy) for n, xx, yy in downwind if 0 <= xx < columns and 0 <= yy < rows]
                for block in range(blocks):
                    at = f"{sweep}_{corner}_{block}"
                    tag = corner * 2
                    got = [
                        rank.add(f"r{n}{at}", f"recv {face}b from {yy * columns + xx} tag {tag + (n == 'y')}", *before)
                        for n, xx, yy in inside
                    ]
                    # Planes near the middle of the box hold more material.
                    work = calc + calc // 10 * min(block, blocks - 1 - block)
                    before = (rank.add(f"c{at}", f"calc {work}", *(got or before)),)
                    for n, xx, yy in onward:
                        rank.add(f"s{n}{at}", f"send {face}b to {yy * columns + xx} tag {tag + (n == 'y')}", *before)
            mask = 1
            while mask < columns * rows:
                sent = rank.add(f"es{sweep}_{mask}", f"send 8b to {me ^ mask} tag {100 + mask}", *before)
                got = rank.add(f"er{sweep}_{mask}", f"recv 8b from {me ^ mask} tag {100 + mask}", *before)
                before = (rank.add(f"e{sweep}_{mask}", "calc 50", sent, got),)
                mask *= 2
        ranks.append(rank)
    return ranks


def cholesky(tiles=8, potrf=100_000, trsm=250_000, syrk=250_000, gemm=450_000):
    """Tasks of a factorisation by tiles, right-looking: who last wrote a tile is waited for by those that read or write it."""
    rank, wrote = Rank(), {}

    def task(name, time, reads, writes):
        before = [wrote[tile] for tile in (*reads, writes) if tile in wrote]
        wrote[writes] = rank.add(name, f"calc {time}", *before)

    for k in range(tiles):
        task(f"potrf_{k}", potrf, (), (k, k))
        for i in range(k + 1, tiles):
            task(f"trsm_{i}_{k}", trsm, ((k, k),), (i, k))
        for i in range(k + 1, tiles):
            task(f"syrk_{i}_{k}", syrk, ((i, k),), (i, i))
            for j in range(k + 1, i):
                task(f"gemm_{i}_{j}_{k}", gemm, ((i, k), (j, k)), (i, j))
    return [rank]


PROGRAMS = {
    "cholesky": (["the tasks of a Cholesky factorisation of 8 x 8 tiles, on one rank: for `castell tasks simulate`"], cholesky),
    "pingpong": (["one message of 8 bytes to and fro, 100 times"], pingpong),
    "barrier": (["dissemination barrier of 8 ranks"], barrier),
    "halo": (["five-point stencil on 4 x 2 ranks, 20 steps, edges of 512 doubles"], halo),
    "wavefront": (
        ["transport sweep on 2 x 2 ranks: 4 sweeps from 8 corners through 10 planes,", "some 0.8 s of computing time"],
        wavefront,
    ),
}


def main():
    folder = Path(__file__).resolve().parent
    stale = []
    for name, (comment, generator) in PROGRAMS.items():
        path = folder / f"{name}.goal"
        program = text(name, comment, generator())
        if "--check" not in sys.argv[1:]:
            path.write_text(program)
        elif not path.exists() or path.read_text() != program:
            stale.append(path.name)
    if stale:
        sys.exit(f"not up to date: {' '.join(stale)}; run examples/goal/generate.py")


if __name__ == "__main__":
    main()
