"""Turn the results into a Markdown page and a plot.

    python benchmarks/draw.py

Reads results/*.json; writes results/benchmarks.md, results/cost.png and the table of the README.
"""

import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from timing import RESULTS, load

LABELS = {"n": "calibration points n (d = 5, k = 1000)", "d": "dimensions d (n = 1e5, k = 1000)"}
LABELS["k"] = "neighbours k (n = 1e5, d = 5)"


def table(rows):
    """Return a Markdown table of costs in microseconds per row."""
    names = list(rows[0]["costs"])
    lines = [f"| n, d, k, eps | {' | '.join(names)} | best rival / nearcal |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        costs = [f"{row['costs'][name]:.1f}" if name in row["costs"] else "" for name in names]
        case = f"{row['n']:.0e}, {row['d']}, {row['k']}, {row['eps']:g}".replace("e+0", "e")
        lines.append(f"| {case} | {' | '.join(costs)} | **{row['ratio']:.1f}** |")
    return "\n".join(lines)


def plot(sweeps, path):
    """Plot cost against n, d and k."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for ax, (name, rows) in zip(axes, sweeps.items(), strict=True):
        ax.loglog([row[name] for row in rows], [row["costs"]["nearcal"] for row in rows], "o-", color="black")
        ax.set_xlabel(LABELS[name])
        ax.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("microseconds per row, one thread")
    figure.savefig(path, dpi=150)


def describe_threads(results):
    """Return a Markdown table of what a second thread brings."""
    lines = ["| n, d, k | speed-up |", "|---|---:|"]
    for row in results["rows"]:
        case = f"{row['n']:.0e}, {row['d']}, {row['k']}".replace("e+0", "e")
        lines.append(f"| {case} | {row['speed-up']:.2f} |")
    lines += [f"| the machine, {name} | {ratio:.2f} |" for name, ratio in results["machine"].items()]
    return "\n".join(lines)


def describe_footprint(results):
    """Return a Markdown list of the footprint."""
    lines = []
    for name, values in results.items():
        if isinstance(values, dict) and name != "versions":
            lines.append(f"- {name}: " + ", ".join(f"{key} {value:.4g}" for key, value in values.items()))
    return "\n".join(lines)


def describe_approximation(results):
    """Return a Markdown table of the eps study."""
    lines = ["| index | eps | µs per row | speed relative to exact | recall | mean CRPS |", "|---|---|---|---|---|---|"]
    for row in results["rows"]:
        lines.append(
            f"| {row['index']} | {row['eps']:g} | {row['microseconds per row']:.0f} | "
            f"{row['speed relative to exact']:.2f} | {row['recall']:.3f} | {row['crps']:.4f} |"
        )
    return "\n".join(lines)


def describe_growth(sweep):
    """Say how the cost of a row grows with the calibration set."""
    costs = {row["n"]: row["costs"]["nearcal"] for row in sweep}
    first, last = costs[10_000], costs[1_000_000]
    return (
        f"From 10,000 to 1,000,000 calibration points (d = {sweep[0]['d']}, k = {sweep[0]['k']}) the cost of a row "
        f"grows {last / first:.1f} times, from {first:.0f} to {last:.0f} µs."
    )


def describe_roofline(results):
    """Return Markdown on how far the high-dimensional search is from its arithmetic."""
    floors = results["bare matrix product, microseconds per row"]
    ours = results["nearcal end to end, microseconds per row"]
    megabytes = results["bytes of float64 coordinates of the k nearest"] / 1e6
    return (
        f"At n = {results['n']:.0e}, d = {results['d']} nothing can be pruned: every query needs "
        f"{results['multiply-adds per row']:.0e} multiply-adds, and the coordinates of the k nearest alone are "
        f"{megabytes:.1f} MB. A bare matrix product, without selecting, weighing or summarising anything, takes "
        f"{floors['float32']:.0f} µs a row in float32 and {floors['float64']:.0f} µs in float64 here (one thread). "
        f"nearcal takes {ours:.0f} µs for the whole recalibration, {ours / floors['float32']:.1f} times the bare "
        "float32 product, by rounding to 16-bit integers first and measuring in float64 only what may be near."
    )


def describe_corrections(results):
    """Return a Markdown table of what the local-linear correction and relevance scaling cost a query."""
    names = list(results["cases"][0]["costs"])
    lines = ["| n, d, k | " + " | ".join(names) + " |", "|---" + "|---:" * len(names) + "|"]
    for row in results["cases"]:
        case = f"{row['n']:.0e}, {row['d']}, {row['k']}".replace("e+0", "e")
        cells = [f"{cost:.0f} ({cost / row['costs']['plain']:.2f})" for cost in row["costs"].values()]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def describe_tuning(results):
    """Return Markdown on the time to tune."""
    lines = ["| | before, s | now, s | ratio |", "|---|---:|---:|---:|"]
    for name, own in results["seconds"].items():
        ratio = own["after"] / own["before"]
        lines.append(f"| {name} | {own['before']:.1f} | {own['after']:.1f} | {ratio:.2f} |")
    setting = (
        "Seconds of processor on one thread, the least of the rounds that the results name, beside the version before "
        "racing; 10,000 calibration points and layers of 8, 200, 100, 50 and 1 columns, but for the trees."
    )
    return "\n".join([setting, "", *lines])


def readme_table(rows):
    """Return the exact single-threaded cases as a short Markdown table."""
    lines = [
        "| calibration points | dimensions | k | best of the others, µs a row | nearcal | ratio |",
        "|---" * 6 + "|",
    ]
    for row in rows:
        if row["eps"]:
            continue
        best = row["ratio"] * row["costs"]["nearcal"]
        ours = row["costs"]["nearcal"]
        lines.append(f"| {row['n']:,} | {row['d']} | {row['k']} | {best:.0f} | {ours:.0f} | {row['ratio']:.1f} |")
    return "\n".join(lines)


def update_readme(table_text):
    """Put the table between its markers in the README."""
    path = RESULTS.parents[1] / "README.md"
    marked = re.compile(r"(<!-- bench -->\n).*?(<!-- /bench -->)", flags=re.DOTALL)
    path.write_text(marked.sub(lambda found: f"{found[1]}{table_text}\n{found[2]}", path.read_text()))


def main():
    """Write the page and the plot from whatever results there are."""
    parts = ["# Benchmarks", "Generated by `scripts/bench`. Mean, standard deviation and 95% interval of each row."]
    engine = load("engine")
    if engine:
        for title in ("one thread, processor time", "all cores, wall time"):
            parts += [f"## Microseconds per row: {title} ({engine['cores']} cores)", table(engine[title])]
        update_readme(readme_table(engine["one thread, processor time"]))
        plot(engine["sweeps"], RESULTS / "cost.png")
        parts += ["## Cost against n, d and k", describe_growth(engine["sweeps"]["n"]), "![cost](cost.png)"]
    threads = load("threads")
    if threads:
        title = f"## Throughput with {threads['cores']} threads relative to one, median of {threads['rounds']} rounds"
        parts += [title, describe_threads(threads)]
    roofline = load("roofline")
    if roofline:
        parts += ["## Roofline in high dimension", describe_roofline(roofline)]
    footprint = load("footprint")
    if footprint:
        parts += ["## Memory, latency, first call", describe_footprint(footprint)]
    approximation = load("approximation")
    if approximation:
        parts += ["## Approximate search (n = 1e5, d = 20, k = 1000)", describe_approximation(approximation)]
    corrections = load("corrections")
    if corrections:
        title = "## Local-linear correction and relevance, microseconds per row (relative to plain)"
        parts += [title, describe_corrections(corrections)]
    tuning = load("tuning")
    if tuning:
        parts += ["## Tuning", describe_tuning(tuning)]
    (RESULTS / "benchmarks.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
