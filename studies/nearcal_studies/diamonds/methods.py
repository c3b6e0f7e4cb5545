"""Both base models, each recalibrated in four ways, and what is measured of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.diamonds.data import Data, split
from nearcal_studies.diamonds.models import GammaRegression, as_model, train_network
from nearcal_studies.study import Outcome
from nearcal_studies.training import Schedule

BASES = {"glm": "GLM", "nn": "NN"}
METHODS = {"base": "", "isotonic": "Isotonic", "density": "Density Estimation", "local": "Quantile"}
OWN_CHOICE = "chosen"
LEVELS = (0.90, 0.95, 0.99)
_CRPS_LEVELS = (np.arange(100) + 0.5) / 100  # the CRPS is twice the integral of the pinball loss over levels
HIGHLIGHTED = (4113.0, 18026.0)  # prices of the paper's two diamonds


def run_split(settings: Mapping[str, Any]) -> Outcome:
    """Fit both models on one split, recalibrate and measure."""
    seed = settings["seed"]
    train, cal, new = split(seed, settings["rows"])
    schedule = Schedule(**settings["training"])
    models: dict[str, tuple[nc.adapters.ModelAdapter, Any, Any]] = {
        "glm": (GammaRegression.fitted(train.design, train.y), (cal.space, cal.design), (new.space, new.design)),
        "nn": (as_model(train_network(train, cal, schedule, seed)), cal.X, new.X),
    }
    numbers: dict[str, Any] = {}
    choices: dict[str, str] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for base, (model, X_cal, X_new) in models.items():
        dists, own = recalibrated(model, X_cal, X_new, cal, new, settings, seed)
        numbers |= {f"{base}_{method}": _measure(dist, new.y) for method, dist in dists.items()}
        choices[base] = own.reason
        if base == "nn" and seed == settings["drawn"]:
            arrays = for_figures({name: dists[name] for name in ("base", "local")}, new)
    return Outcome({"methods": numbers, "choices": choices}, arrays)


def recalibrated(
    model: nc.adapters.ModelAdapter,
    X_cal: Any,
    X_new: Any,
    cal: Data,
    new: Data,
    settings: Mapping[str, Any],
    seed: int,
) -> tuple[dict[str, nc.Distribution], nc.CalibratedModel]:
    """Return the distributions of the test set before and after each method, and nearcal's own choice."""
    own = recalibrators.calibrate(model, X_cal, cal.y)
    before_cal, before = own.base(X_cal), own.base(X_new)
    methods: dict[str, Any] = {
        "isotonic": nc.IsotonicRecalibrator(),
        "density": recalibrators.quantile_net(seed, epochs=settings["density_epochs"]),
        "local": recalibrators.local(settings["k"]),
    }
    dists = {"base": before}
    for name, method in methods.items():
        dists[name] = method.fit(before_cal, cal.y, cal.space).recalibrate(before, new.space)
    dists[OWN_CHOICE] = own.predict(X_new)
    return dists, own


def _measure(dist: nc.Distribution, y: NDArray[Any]) -> dict[str, float]:
    covered = nc.diagnostics.coverage(dist, y, LEVELS)["coverage"]
    return {
        "rmse": np.sqrt(nc.scores.squared_error(dist, y).mean()),
        **{f"coverage_{100 * level:.0f}": share for level, share in zip(LEVELS, covered, strict=True)},
        "crps": 2 * nc.scores.pinball(dist, y, _CRPS_LEVELS).mean(),
    }


def for_figures(dists: Mapping[str, nc.Distribution], new: Data) -> dict[str, NDArray[Any]]:
    """Return what figure 5 draws: predictions, PIT values, and densities at the diamonds priced like the paper's."""
    rows = np.array([int(np.argmin(np.abs(new.y - price))) for price in HIGHLIGHTED])
    curves = nc.diagnostics.density_curves({name: dist[rows] for name, dist in dists.items()})
    return {
        "space": new.space,
        "y": new.y,
        "mean": dists["base"].mean(),
        "highlighted": rows,
        **{f"pit_{name}": nc.diagnostics.pit(dist, new.y, rng=0) for name, dist in dists.items()},
        **{f"curve_{name}": column for name, column in curves.columns.items()},
    }
