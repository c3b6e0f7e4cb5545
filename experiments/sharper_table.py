"""The tables of sharper.py, and whether what was promised is kept."""

import numpy as np

TITLES = {
    "crps": "CRPS / base",
    "pit_error": "PIT error",
    "coverage95": "coverage of 95%",
    "regional_error": "regional error",
    "worst_region": "worst region",
}


def as_markdown(rows):
    """Return the tables of base models, of sets, and the verdicts."""
    bases, methods = list(dict.fromkeys(r["base"] for r in rows)), list(dict.fromkeys(r["method"] for r in rows))
    seeds, sets = sorted({r["seed"] for r in rows}), list(dict.fromkeys(r["set"] for r in rows))
    lines = [
        f"Seeds {', '.join(map(str, seeds))}; {len({(r['set'], r['base'], r['seed']) for r in rows})} runs of "
        f"{len(sets)} sets and {len(bases)} base models. CRPS relative to the base model's of the same run, geometric "
        "mean over sets of the mean over seeds; PIT error, the mean distance of PIT values from uniform ones; coverage "
        "of 95% intervals; error of the coverage of 90% intervals over regions of 50 judged rows or more on average "
        "(ten at most), mean over regions; coverage of 90% intervals in the worst region. All but CRPS are means over "
        "sets of means over seeds.",
    ]
    for base in bases:
        lines += ["", f"**{base}**", "", "| method | " + " | ".join(TITLES.values()) + " |", "|---" * 6 + "|"]
        for method in methods:
            figures = [overall(rows, key, base, method) for key in TITLES]
            cells = [f"{figures[0]:.3f}", f"{figures[1]:.4f}", *(f"{100 * figure:.1f}" for figure in figures[2:])]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines += ["", "CRPS relative to the base model's, means over seeds, by set:", ""]
    shown = [method for method in methods if method != "base"]
    lines += [
        "| set | base model | seeds | " + " | ".join(shown) + " | default chose |",
        "|---" * (len(shown) + 4) + "|",
    ]
    for name in sets:
        for base in bases:
            own = [r for r in rows if r["set"] == name and r["base"] == base]
            if own:
                cells = [f"{of_set(rows, 'crps', base, method, name):.3f}" for method in shown]
                choice = next(r["choice"] for r in own if r["method"] == "default")
                count = len({r["seed"] for r in own})
                lines.append(f"| {name} | {base} | {count} | " + " | ".join(cells) + f" | {choice} |")
    return "\n".join([*lines, "", *verdicts(rows, bases, methods)]) + "\n"


def as_readme(rows):
    """Return what the README shows: relative CRPS by base model, and the other figures over all of them."""
    methods = {"global": "global", "isotonic": "isotonic", "paper": "the paper's, tuned", "default": "default"}
    bases = list(dict.fromkeys(r["base"] for r in rows))
    lines = ["| CRPS / base | " + " | ".join(methods.values()) + " |", "|---" * (len(methods) + 1) + "|"]
    for base in bases:
        cells = [f"{overall(rows, 'crps', base, method):.3f}" for method in methods]
        lines.append(f"| {base} | " + " | ".join(cells) + " |")
    for key, title in (("coverage95", "coverage of 95%"), ("regional_error", "regional error, points")):
        cells = [f"{100 * np.mean([overall(rows, key, base, method) for base in bases]):.1f}" for method in methods]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def of_set(rows, key, base, method, name):
    """Return the mean over seeds of a figure; of the CRPS relative to the base model's."""
    own = {r["seed"]: r for r in rows if (r["set"], r["base"], r["method"]) == (name, base, method)}
    if key != "crps":
        return np.mean([r[key] for r in own.values()])
    of_base = {r["seed"]: r["crps"] for r in rows if (r["set"], r["base"], r["method"]) == (name, base, "base")}
    return np.mean([r["crps"] / of_base[seed] for seed, r in own.items()])


def overall(rows, key, base, method):
    """Return the mean over sets, of the CRPS the geometric mean."""
    names = dict.fromkeys(r["set"] for r in rows if r["base"] == base)
    values = [of_set(rows, key, base, method, name) for name in names]
    return np.exp(np.mean(np.log(values))) if key == "crps" else np.mean(values)


def verdicts(rows, bases, methods):
    """Return a line a promise: kept or not, with the figures."""
    pairs = list(dict.fromkeys((r["base"], r["set"]) for r in rows))
    ratio = {base: overall(rows, "crps", base, "default") / overall(rows, "crps", base, "paper") for base in bases}
    worst = max(pairs, key=lambda pair: of_set(rows, "crps", pair[0], "default", pair[1]))
    worst_ratio = of_set(rows, "crps", worst[0], "default", worst[1])
    pit = {method: np.mean([overall(rows, "pit_error", base, method) for base in bases]) for method in methods}
    regional = {
        method: np.mean([overall(rows, "regional_error", base, method) for base in bases]) for method in methods
    }
    rivals = {method: regional[method] for method in methods if method != "default"}
    best = min(rivals, key=rivals.get)
    error = standard_error(rows, best)
    coverage = coverage_with_adjustment(rows)
    least, mean = min(coverage, key=coverage.get), np.mean(list(coverage.values()))
    return [
        judged(
            max(ratio.values()) < 1,
            "The default beats the paper's local recalibration on the geometric mean of CRPS for every base model: "
            + ", ".join(f"{base} {value:.3f}" for base, value in ratio.items()),
        ),
        judged(
            pit["default"] <= 1.2 * pit["global"],
            f"PIT error of the default {pit['default']:.4f}, within 20% of global recalibration's {pit['global']:.4f} "
            f"(the paper's local: {pit['paper']:.4f})",
        ),
        judged(
            worst_ratio <= 1.01,
            f"Never worse than the base model by more than 1%, mean over seeds: at worst {worst_ratio:.3f} "
            f"({worst[1]}, {worst[0]}); of single runs {worse_runs(rows)}",
        ),
        judged(
            regional["default"] <= rivals[best] + 2 * error,
            f"Regional error of the default {100 * regional['default']:.2f} points, the lowest or within two standard "
            f"errors ({100 * error:.2f}) of it: best of the others {best} {100 * rivals[best]:.2f}",
        ),
        judged(
            0.94 <= mean <= 0.96 and coverage[least] >= 0.92,
            f"Coverage of 95% intervals of the default where it adjusts, on {len(coverage)} sets: {100 * mean:.1f} on "
            f"average, lowest {100 * coverage[least]:.1f} ({least})",
        ),
    ]


def worse_runs(rows):
    """Return how many runs, and which at worst, the default makes more than 1% worse than the base model."""
    crps = {(r["set"], r["base"], r["seed"], r["method"]): r["crps"] for r in rows}
    ratios = {key[:3]: value / crps[*key[:3], "base"] for key, value in crps.items() if key[3] == "default"}
    worst = max(ratios, key=ratios.get)
    count = sum(ratio > 1.01 for ratio in ratios.values())
    return f"{count} of {len(ratios)} are, at worst {ratios[worst]:.3f} ({worst[0]}, {worst[1]}, seed {worst[2]})"


def judged(is_kept, what):
    """Return one line of the list of verdicts."""
    return f"- {'Kept' if is_kept else 'NOT KEPT'}: {what}."


def coverage_with_adjustment(rows):
    """Return the mean coverage of 95% intervals by set, over the runs in which the default chose the adjustment."""
    adjusted = [r for r in rows if r["method"] == "default" and "adjustment 'linear'" in r["choice"]]
    return {
        name: np.mean([r["coverage95"] for r in adjusted if r["set"] == name])
        for name in dict.fromkeys(r["set"] for r in adjusted)
    }


def standard_error(rows, method):
    """Return the standard error of the mean difference in regional error between the default and another method."""
    of = {(r["set"], r["base"], r["seed"], r["method"]): r["regional_error"] for r in rows}
    differences = [value - of[*key[:3], method] for key, value in of.items() if key[3] == "default"]
    return np.std(differences) / np.sqrt(len(differences))
