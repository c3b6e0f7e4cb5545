"""Both base models, each recalibrated in four ways, and what is measured of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.diagnostics import coverage, density_curves, pit
from nearcal.distributions import Distribution
from nearcal.models import CalibratedModel, calibrate
from nearcal.models.adapters import ModelAdapter
from nearcal.recalibration import IsotonicRecalibrator, LocalRecalibrator, QuantileNetRecalibrator
from nearcal.scores import pinball, squared_error
from nearcal.studies._study import Outcome
from nearcal.studies._training import Schedule
from nearcal.studies.diamonds._data import Data, split
from nearcal.studies.diamonds._glm import GammaRegression
from nearcal.studies.diamonds._network import as_model, train_network

BASES = {"glm": "GLM", "nn": "NN"}
METHODS = {"base": "", "isotonic": "Isotonic", "density": "Density Estimation", "local": "Quantile"}
OWN_CHOICE = "chosen"
LEVELS = (0.90, 0.95, 0.99)
_CRPS_LEVELS = (np.arange(100) + 0.5) / 100  # the CRPS is twice the integral of the pinball loss over levels
HIGHLIGHTED = (4113.0, 18026.0)  # prices of the paper's two diamonds


def run_split(settings: Mapping[str, Any], seed: int) -> Outcome:
    """Fit both models on one split, recalibrate and measure."""
    train, cal, new = split(seed, settings["rows"])
    schedule = Schedule(**settings["training"])
    models: dict[str, tuple[ModelAdapter, Any, Any]] = {
        "glm": (GammaRegression.fitted(train.design, train.y), (cal.space, cal.design), (new.space, new.design)),
        "nn": (as_model(train_network(train, cal, schedule, seed)), cal.X, new.X),
    }
    numbers: dict[str, Any] = {}
    choices: dict[str, str] = {}
    arrays: dict[str, FloatArray] = {}
    for base, (model, X_cal, X_new) in models.items():
        dists, own = recalibrated(model, X_cal, X_new, cal, new, settings, seed)
        numbers |= {f"{base}_{method}": _measure(dist, new.y) for method, dist in dists.items()}
        choices[base] = own.reason
        if base == "nn" and seed == settings["drawn"]:
            arrays = for_figures({name: dists[name] for name in ("base", "local")}, new)
    return Outcome({"methods": numbers, "choices": choices}, arrays)


def recalibrated(
    model: ModelAdapter, X_cal: Any, X_new: Any, cal: Data, new: Data, settings: Mapping[str, Any], seed: int
) -> tuple[dict[str, Distribution], CalibratedModel]:
    """Return the distributions of the test set before and after each method, and nearcal's own choice."""
    own = calibrate(model, X_cal, cal.y)
    before_cal, before = own.base(X_cal), own.base(X_new)
    methods: dict[str, Any] = {
        "isotonic": IsotonicRecalibrator(),
        "density": QuantileNetRecalibrator(epochs=settings["density_epochs"], rng=seed),
        "local": LocalRecalibrator(k=settings["k"]),
    }
    dists = {"base": before}
    for name, method in methods.items():
        dists[name] = method.fit(before_cal, cal.y, cal.space).recalibrate(before, new.space)
    dists[OWN_CHOICE] = own.predict(X_new)
    return dists, own


def _measure(dist: Distribution, y: FloatArray) -> dict[str, float]:
    covered = coverage(dist, y, LEVELS)["coverage"]
    return {
        "rmse": np.sqrt(squared_error(dist, y).mean()),
        **{f"coverage_{100 * level:.0f}": share for level, share in zip(LEVELS, covered, strict=True)},
        "crps": 2 * pinball(dist, y, _CRPS_LEVELS).mean(),
    }


def for_figures(dists: Mapping[str, Distribution], new: Data) -> dict[str, FloatArray]:
    """Return what figure 5 draws: predictions, PIT values, and densities at the diamonds priced like the paper's."""
    rows = np.array([int(np.argmin(np.abs(new.y - price))) for price in HIGHLIGHTED])
    curves = density_curves({name: dist[rows] for name, dist in dists.items()})
    return {
        "space": new.space,
        "y": new.y,
        "mean": dists["base"].mean(),
        "highlighted": rows,
        **{f"pit_{name}": pit(dist, new.y, rng=0) for name, dist in dists.items()},
        **{f"curve_{name}": column for name, column in curves.columns.items()},
    }
