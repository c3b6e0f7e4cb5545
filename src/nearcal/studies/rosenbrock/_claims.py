"""The paper's claims on the Rosenbrock study."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal.studies._claims import Claim


def judge_claims(results: Mapping[str, Any]) -> list[Claim]:
    """Judge the claims of section 4.2 by means over seeds."""
    mean = results["mean"]
    wsir, dropout, true = mean["wsir"], mean["dropout"], mean["true"]
    local = {name: mean[f"{name}_local"] for name in ("wsir", "dropout")}
    low = {
        name: float(np.mean([seed[name] for seed in results["mean_where_x2_is_negative"]]))
        for name in ("wsir", "wsir_local", "true")
    }
    excess = {name: mean[name]["mse"] - true["mse"] for name in ("wsir", "dropout", "wsir_local", "dropout_local")}
    return [
        Claim(
            "4.2",
            "Recalibration decreases predictions for low x₂, which the network overestimated.",
            {
                "mean prediction over x₂ < 0 above the true mean before": low["wsir"] > low["true"],
                "and lower after": low["wsir_local"] < low["wsir"],
            },
            f"mean over x₂ < 0: {low['wsir']:.2f} (WSIR), {low['wsir_local']:.2f} (recalibrated), {low['true']:.2f} "
            "(true)",
            "figure 3 (c), (d)",
        ),
        Claim(
            "4.2",
            "WSIR has a smaller MSE than MC dropout.",
            {"WSIR's mean MSE is smaller": wsir["mse"] < dropout["mse"]},
            f"MSE {wsir['mse']:.2f} and {dropout['mse']:.2f}",
            "table.md",
        ),
        Claim(
            "4.2",
            "The recalibrated methods are closest to the true model by a large margin.",
            {
                f"{title}: excess MSE over the true model's below half of that before": excess[f"{name}_local"]
                < 0.5 * excess[name]
                for name, title in (("wsir", "WSIR"), ("dropout", "MC dropout"))
            },
            "MSE "
            + ", ".join(f"{mean[name]['mse']:.2f} ({name.replace('_local', ', recalibrated')})" for name in mean),
            "table.md",
        ),
        Claim(
            "4.2",
            "MC dropout's intervals are too wide: the largest coverage and the largest interval score.",
            {
                "MC dropout's coverage is the largest": dropout["coverage"]
                > max(wsir["coverage"], *(of["coverage"] for of in local.values())),
                "MC dropout's sMIS is the largest": dropout["smis"]
                > max(wsir["smis"], *(of["smis"] for of in local.values())),
            },
            f"coverage {dropout['coverage']:.1f}% (WSIR {wsir['coverage']:.1f}%), sMIS {dropout['smis']:.3f} (WSIR "
            f"{wsir['smis']:.3f})",
            "table.md",
        ),
        Claim(
            "4.2",
            "Coverage and interval score of the recalibrated methods are very close to those of the true model.",
            {
                "coverage within 1 point of the true model's, both": all(
                    abs(of["coverage"] - true["coverage"]) <= 1 for of in local.values()
                ),
                "sMIS within 8% of the true model's, both": all(
                    abs(of["smis"] / true["smis"] - 1) <= 0.08 for of in local.values()
                ),
            },
            f"coverage {local['wsir']['coverage']:.2f}, {local['dropout']['coverage']:.2f}, true "
            f"{true['coverage']:.2f}; sMIS {local['wsir']['smis']:.3f}, {local['dropout']['smis']:.3f}, true "
            f"{true['smis']:.3f}",
            "table.md",
        ),
        Claim(
            "4.2",
            "The network covers about 95% overall but misses whole areas; recalibrated, its misses are spread evenly.",
            {
                "WSIR's overall coverage within 2 points of 95%": abs(wsir["coverage"] - 95) <= 2,
                "its worst of 24 cells is below 85%": wsir["worst_cell"] < 85,
                "after recalibration the worst cell is above 88%": local["wsir"]["worst_cell"] > 88,
            },
            f"overall {wsir['coverage']:.1f}% → {local['wsir']['coverage']:.1f}%; worst cell {wsir['worst_cell']:.1f}% "
            f"→ {local['wsir']['worst_cell']:.1f}% (true model {true['worst_cell']:.1f}%)",
            "figure 3 (e), (f)",
        ),
    ]
