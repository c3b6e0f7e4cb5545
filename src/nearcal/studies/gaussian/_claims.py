"""The paper's claims on the Gaussian study."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal.studies._claims import Claim


def judge_claims(results: Mapping[str, Any]) -> list[Claim]:
    """Judge the claims of section 4.1 by means over seeds."""
    mean, values = results["mean"], results["values"]
    linear, everywhere, local = mean["linear"], mean["global"], mean["local"]
    p_values = [test["p_value"] for test in results["frosini_calibration"]]
    gap = {name: abs(measures["coverage"] - 95) for name, measures in mean.items()}
    return [
        Claim(
            "4.1",
            "Frosini's test rejects the uniformity of the linear model's PIT values at the 0.1% level.",
            {"p < 0.001 in every seed": max(p_values) < 0.001},
            f"largest p over seeds {max(p_values):.1g}",
            "table.md; figure 1 (d)",
        ),
        Claim(
            "4.1",
            "Global recalibration offers no significant improvement over the linear model in mean and spread.",
            {
                "MSE at least 95% of the linear model's": everywhere["mse"] > 0.95 * linear["mse"],
                "sMIS at least 95% of the linear model's": everywhere["smis"] > 0.95 * linear["smis"],
            },
            f"MSE {linear['mse']:.0f} → {everywhere['mse']:.0f}, sMIS {linear['smis']:.3f} → {everywhere['smis']:.3f}",
            "figure 2 (a), (b)",
        ),
        Claim(
            "4.1",
            "Local recalibration improves the estimates of the mean and of the standard deviation.",
            {
                "MSE below a tenth of the linear model's": local["mse"] < 0.1 * linear["mse"],
                "KL(true, predictive) below half of the linear model's": local["kl"] < 0.5 * linear["kl"],
            },
            f"MSE {linear['mse']:.0f} → {local['mse']:.0f}, KL {linear['kl']:.3f} → {local['kl']:.3f}",
            "figure 2 (c), (d)",
        ),
        Claim(
            "4.1",
            "Local recalibration performs best of the three models in all measures.",
            {
                "least MSE in every seed": _least(values, "mse"),
                "least KL(true, predictive) in every seed": _least(values, "kl"),
                "least KL(predictive, true) in every seed": _least(values, "kl_reverse"),
                "least sMIS in every seed": _least(values, "smis"),
                "mean coverage nearest to 95%": gap["local"] < min(gap["linear"], gap["global"]),
            },
            f"MSE {local['mse']:.0f}, KL {local['kl']:.3f} and {local['kl_reverse']:.3f}, sMIS {local['smis']:.3f}; "
            f"coverage {linear['coverage']:.2f} (linear), {everywhere['coverage']:.2f} (global), "
            f"{local['coverage']:.2f} (local)",
            "table.md",
        ),
    ]


def _least(values: Mapping[str, Any], key: str) -> bool:
    """Tell whether the local method has the least value in every seed."""
    others = np.minimum(values["linear"][key], values["global"][key])
    return bool((np.asarray(values["local"][key]) < others).all())
