"""The table of section 4.1 beside the paper's figures, and the comparison with the authors' R package."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal.studies._markdown import count, markdown_table, mean_and_sd
from nearcal.studies._study import Check
from nearcal.studies.gaussian._methods import METHODS, OWN_CHOICE
from nearcal.studies.gaussian._paper import PAPER, R_K, R_MEAN, R_N, R_SD, R_SEEDS

COLUMNS = {"mse": ("MSE", 1), "kl": ("KL", 4), "coverage": ("Coverage (%)", 2), "smis": ("sMIS", 4)}
ROWS = {**METHODS, OWN_CHOICE: "nearcal's own choice"}


def tabulate(settings: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Return the tables and what must be said of them."""
    values, exact = results["values"], results["population"]
    frosini = max(test["p_value"] for test in results["frosini_calibration"])
    return "\n\n".join(
        [
            f"n = {settings['n']:,}, split 80/10/10; k = {settings['k']:,}; mean (standard deviation) over "
            f"{count(settings['seeds'], 'seed')}. MSE to the true mean; coverage and sMIS of 95% intervals.",
            _main_table(values),
            f"Exact figures of the linear model with endless data, by quadrature: MSE {exact['mse']:.1f}, coverage "
            f"{exact['coverage']:.2f}%.",
            "KL is the mean over test rows of KL(true, predictive); the other direction, KL(predictive, true), is in "
            "the second table. Both are by quadrature over normal scores of the true distribution, on "
            f"{settings['kl_rows']} test rows at evenly spaced ranks of x, with a kernel estimate for the density of "
            "recalibrated distributions. The paper does not say which direction or estimator it used: its KL column "
            "cannot be reproduced.",
            _second_table(values),
            f"Frosini's test of the linear model's PIT values in the calibration set: p at most {frosini:.1g} over all "
            "seeds. The second table has the test on new data; after recalibration it allows for the calibration set's "
            "own sampling error.",
            f"nearcal's own choice (first seed): {results['choices'][0]}",
            *([_r_table(values)] if _is_comparable(settings) else []),
        ]
    )


def _main_table(values: Mapping[str, Any]) -> str:
    columns: dict[str, list[str]] = {"Model": list(ROWS.values())}
    for key, (title, digits) in COLUMNS.items():
        columns[title] = [mean_and_sd(values[name][key], digits) for name in ROWS]
        columns[f"{title}, paper"] = [f"{PAPER[name][key]:.{digits}f}" if name in PAPER else "" for name in ROWS]
    return markdown_table(columns)


def _second_table(values: Mapping[str, Any]) -> str:
    return markdown_table(
        {
            "Model": list(ROWS.values()),
            "KL(true, predictive)": [mean_and_sd(values[name]["kl"], 4) for name in ROWS],
            "KL(predictive, true)": [mean_and_sd(values[name]["kl_reverse"], 4) for name in ROWS],
            "Frosini p < 0.001": [_share(values[name]["frosini_p_value"], 0.001) for name in ROWS],
            "Frosini p < 0.05": [_share(values[name]["frosini_p_value"], 0.05) for name in ROWS],
        }
    )


def _share(p_values: Sequence[float], level: float) -> str:
    return f"{sum(p < level for p in p_values)} of {len(p_values)}"


def _r_table(values: Mapping[str, Any]) -> str:
    rows = _comparisons(values)
    return "Against the authors' R package, recalibratiNN, on 20 seeds of its own:\n\n" + markdown_table(
        {
            "Model": [METHODS[name] for name, *_ in rows],
            "measure": [COLUMNS[key][0] for _, key, *_ in rows],
            "nearcal": [f"{ours:.{COLUMNS[key][1]}f}" for _, key, ours, *_ in rows],
            "R package": [f"{theirs:g}" for *_, theirs, _ in rows],
            "difference in standard errors": [f"{(ours - theirs) / error:+.2f}" for *_, ours, theirs, error in rows],
        }
    )


def _is_comparable(settings: Mapping[str, Any]) -> bool:
    """Tell whether a run has the sizes of the R package's, and seeds enough for a standard error."""
    return settings["n"] == R_N and settings["k"] == R_K and len(settings["seeds"]) > 1


def agreement_with_r(settings: Mapping[str, Any], values: Mapping[str, Any]) -> list[Check]:
    """Tell whether the means are within two standard errors of those of the R package."""
    if not _is_comparable(settings):
        return []
    return [
        Check(
            f"{METHODS[name]}, {COLUMNS[key][0]}: within 2 standard errors of the R package",
            f"{ours:.{COLUMNS[key][1]}f} against {theirs:g} ± {error:.2g}",
            bool(abs(ours - theirs) <= 2 * error),
        )
        for name, key, ours, theirs, error in _comparisons(values)
    ]


def _comparisons(values: Mapping[str, Any]) -> list[tuple[str, str, float, float, float]]:
    """Return method, measure, our mean, the R package's, and the standard error of their difference.

    Where the R package's standard deviation over seeds was not recorded, ours stands for it: data and method are the
    same.
    """
    found = []
    for name, measures in R_MEAN.items():
        for key, theirs in measures.items():
            ours = np.asarray(values[name][key])
            sd = float(np.std(ours, ddof=1))
            sd_r = R_SD.get(name, {}).get(key, sd)
            error = float(np.sqrt(sd**2 / len(ours) + sd_r**2 / R_SEEDS))
            found.append((name, key, float(ours.mean()), theirs, error))
    return found
