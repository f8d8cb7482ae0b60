"""Rows of what was measured, the way, and the figure: as they are, and as a table of medians."""
import csv
import statistics


def write(rows, path):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def report(rows, path):
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = ["| medians of the rounds | " + " | ".join(ways) + " |", "|---|" + "---|" * len(ways)]
    for what in dict.fromkeys(row["what"] for row in rows):
        of = lambda way: [float(row["figure"]) for row in rows if (row["what"], row["way"]) == (what, way)]
        cells = [f"{statistics.median(of(way)):.1f}" if of(way) else "" for way in ways]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    lines += ["", f"Load while it was measured: {min(float(row['load']) for row in rows):.1f} to {max(float(row['load']) for row in rows):.1f}."]
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
