"""Claims that the paper draws from several studies: in its background, its methods and its conclusion."""

from collections.abc import Mapping
from typing import Any

from nearcal.studies._claims import Claim

NEEDED = ("gaussian", "rosenbrock", "diamonds")

# (study, before, after) of every pair of the simulated examples
_PAIRS = {
    "Gaussian": ("gaussian", "linear", "local"),
    "Rosenbrock, WSIR": ("rosenbrock", "wsir", "wsir_local"),
    "Rosenbrock, MC dropout": ("rosenbrock", "dropout", "dropout_local"),
}
_WORST = {"gaussian": "worst_slice", "rosenbrock": "worst_cell"}


def judge_general_claims(results: Mapping[str, Any]) -> list[Claim]:
    """Judge them by the results of the Gaussian, Rosenbrock and diamonds studies."""
    mean = {name: results[name]["mean"] for name in NEEDED}
    pairs = {title: (mean[s][before], mean[s][after], _WORST[s]) for title, (s, before, after) in _PAIRS.items()}
    return [_weak(mean), _any_distribution(mean, pairs), _improves(pairs), _even(pairs), _nominal(mean)]


def _weak(mean: Mapping[str, Any]) -> Claim:
    everywhere, wsir = mean["gaussian"]["global"], mean["rosenbrock"]["wsir"]
    return Claim(
        "2",
        "Quantile calibration is too weak a notion: a model can be calibrated overall and wrong in places.",
        {
            "Gaussian, globally recalibrated: within 1 point of 95% overall, below 90% in the worst of six slices": abs(
                everywhere["coverage"] - 95
            )
            <= 1
            and everywhere["worst_slice"] < 90,
            "Rosenbrock, WSIR: within 2 points of 95% overall, below 85% in the worst of 24 cells": abs(
                wsir["coverage"] - 95
            )
            <= 2
            and wsir["worst_cell"] < 85,
        },
        f"overall and worst: {everywhere['coverage']:.1f}% and {everywhere['worst_slice']:.1f}% (Gaussian, global), "
        f"{wsir['coverage']:.1f}% and {wsir['worst_cell']:.1f}% (Rosenbrock, WSIR)",
        "gaussian and rosenbrock, table.md; figure 3 (e)",
    )


def _any_distribution(mean: Mapping[str, Any], pairs: Mapping[str, Any]) -> Claim:
    base, local = mean["diamonds"]["nn_base"], mean["diamonds"]["nn_local"]
    return Claim(
        "3, 5",
        "The method serves models with a likelihood and those with an empirical predictive distribution alike.",
        {
            **{f"{title}: MSE and sMIS lower": _lower(*pair[:2], "mse", "smis") for title, pair in pairs.items()},
            "diamonds, Gamma network: RMSE and CRPS lower": _lower(base, local, "rmse", "crps"),
        },
        "; ".join(f"{title}: MSE {b['mse']:.1f} → {a['mse']:.1f}" for title, (b, a, _) in pairs.items())
        + f"; diamonds, network: RMSE {base['rmse']:.1f} → {local['rmse']:.1f}",
        "gaussian, rosenbrock and diamonds, table.md",
    )


def _improves(pairs: Mapping[str, Any]) -> Claim:
    return Claim(
        "5",
        "In the simple examples recalibration improves MSE, coverage and interval score.",
        {
            f"{title}: {name}": met
            for title, (before, after, _) in pairs.items()
            for name, met in (
                ("MSE lower", _lower(before, after, "mse")),
                ("coverage nearer to 95%", abs(after["coverage"] - 95) < abs(before["coverage"] - 95)),
                ("sMIS lower", _lower(before, after, "smis")),
            )
        },
        "; ".join(
            f"{title}: coverage {b['coverage']:.2f} → {a['coverage']:.2f}, sMIS {b['smis']:.3f} → {a['smis']:.3f}"
            for title, (b, a, _) in pairs.items()
        ),
        "gaussian and rosenbrock, table.md",
    )


def _even(pairs: Mapping[str, Any]) -> Claim:
    return Claim(
        "5",
        "Recalibrated models cover evenly while their intervals get narrower.",
        {
            f"{title}: {name}": met
            for title, (before, after, worst) in pairs.items()
            for name, met in (
                ("coverage in the worst region nearer to 95%", abs(after[worst] - 95) < abs(before[worst] - 95)),
                ("mean width lower", _lower(before, after, "width")),
            )
        },
        "; ".join(
            f"{title}: worst region {b[worst]:.1f}% → {a[worst]:.1f}%, width {b['width']:.1f} → {a['width']:.1f}"
            for title, (b, a, worst) in pairs.items()
        ),
        "gaussian and rosenbrock, results.json; figure 3 (e), (f)",
    )


def _nominal(mean: Mapping[str, Any]) -> Claim:
    ros, dia = mean["rosenbrock"], mean["diamonds"]
    return Claim(
        "5",
        "Recalibration can help even where the observed coverage is close to nominal.",
        {
            "Rosenbrock, WSIR: coverage within 2 points of 95% before, and MSE 5% lower after": abs(
                ros["wsir"]["coverage"] - 95
            )
            <= 2
            and ros["wsir_local"]["mse"] < 0.95 * ros["wsir"]["mse"],
            "diamonds, network: coverage within 2 points of 95% before, and RMSE lower after": abs(
                dia["nn_base"]["coverage_95"] - 0.95
            )
            <= 0.02
            and _lower(dia["nn_base"], dia["nn_local"], "rmse"),
        },
        f"coverage before: {ros['wsir']['coverage']:.1f}% (WSIR), {100 * dia['nn_base']['coverage_95']:.1f}% "
        "(diamonds, network)",
        "rosenbrock and diamonds, table.md",
    )


def _lower(before: Mapping[str, float], after: Mapping[str, float], *measures: str) -> bool:
    return all(after[measure] < before[measure] for measure in measures)
