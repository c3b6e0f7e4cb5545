"""The table of section 4.1 beside the paper's figures, the comparison with the authors' R package, and the claims."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal_studies.gaussian.methods import METHODS, OWN_CHOICE
from nearcal_studies.study import Check, Claims
from nearcal_studies.tables import count, markdown_table, mean_and_sd

PAPER = {
    "linear": {"mse": 14546.25, "kl": 0.8455, "coverage": 93.78, "smis": 2.7475},
    "global": {"mse": 14763.29, "kl": 0.7353, "coverage": 94.65, "smis": 2.7391},
    "local": {"mse": 303.93, "kl": 0.1097, "coverage": 94.96, "smis": 2.0947},
}
# the authors' R package over 20 seeds
R_N, R_K, R_SEEDS = 100_000, 1000, 20
R_MEAN = {
    "linear": {"mse": 14585.0, "coverage": 93.82, "smis": 2.710},
    "global": {"mse": 14598.0, "coverage": 95.01, "smis": 2.692},
    "local": {"mse": 257.0, "coverage": 95.08, "smis": 2.039},
}
# standard deviations over seeds; those of the other two methods were not recorded
R_SD = {"local": {"mse": 82.0, "coverage": 0.30, "smis": 0.023}}
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
            f"{METHODS[name]}, {COLUMNS[key][0]}: standard errors from the R package",
            abs(ours - theirs) / error,
            "<",
            2,
        )
        for name, key, ours, theirs, error in _comparisons(values)
    ]


def _comparisons(values: Mapping[str, Any]) -> list[tuple[str, str, float, float, float]]:
    """Return method, measure, our mean, the R package's, and the standard error of their difference.

    Where the R package's standard deviation over seeds was not recorded, ours stands for it: data and method are the
    same.
    """
    rows = []
    for name, measures in R_MEAN.items():
        for key, theirs in measures.items():
            ours = np.asarray(values[name][key])
            sd = float(np.std(ours, ddof=1))
            sd_r = R_SD.get(name, {}).get(key, sd)
            error = float(np.sqrt(sd**2 / len(ours) + sd_r**2 / R_SEEDS))
            rows.append((name, key, float(ours.mean()), theirs, error))
    return rows


def judge_claims(results: Mapping[str, Any]) -> Claims:
    """Judge the claims of section 4.1 by means over seeds."""
    mean, values = results["mean"], results["values"]
    linear, everywhere, local = mean["linear"], mean["global"], mean["local"]
    gap = {name: abs(measures["coverage"] - 95) for name, measures in mean.items()}
    p_value = max(test["p_value"] for test in results["frosini_calibration"])
    return {
        "(4.1) Frosini's test rejects the uniformity of the linear model's PIT values at the 0.1% level.": [
            Check("largest p over seeds", p_value, "<", 0.001)
        ],
        "(4.1) Global recalibration offers no significant improvement over the linear model in mean and spread.": [
            Check(f"{COLUMNS[key][0]} relative to the linear model's", everywhere[key] / linear[key], ">", 0.95)
            for key in ("mse", "smis")
        ],
        "(4.1) Local recalibration improves the estimates of the mean and of the standard deviation.": [
            Check("MSE relative to the linear model's", local["mse"] / linear["mse"], "<", 0.1),
            Check("KL(true, predictive) relative to the linear model's", local["kl"] / linear["kl"], "<", 0.5),
        ],
        "(4.1) Local recalibration performs best of the three models in all measures.": [
            *(
                Check(f"{title} relative to the best other, largest over seeds", _worst_ratio(values, key), "<", 1)
                for key, title in (
                    ("mse", "MSE"),
                    ("kl", "KL(true, predictive)"),
                    ("kl_reverse", "KL(predictive, true)"),
                    ("smis", "sMIS"),
                )
            ),
            Check("mean coverage, points from 95%", gap["local"], "<", min(gap["linear"], gap["global"])),
        ],
    }


def _worst_ratio(values: Mapping[str, Any], key: str) -> float:
    others = np.minimum(values["linear"][key], values["global"][key])
    return float(np.max(np.asarray(values["local"][key]) / others))
