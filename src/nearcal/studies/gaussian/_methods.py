"""The linear model before and after recalibration, and what is measured of each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.diagnostics import pit, uniformity_tests
from nearcal.distributions import Distribution
from nearcal.models import calibrate
from nearcal.recalibration import GlobalRecalibrator, LocalRecalibrator
from nearcal.scores import kl_divergence, squared_error
from nearcal.scores.arrays import score_interval
from nearcal.studies._study import Outcome
from nearcal.studies.gaussian._data import Data, generate, true_distribution, true_mean
from nearcal.studies.gaussian._model import LinearModel

METHODS = {"linear": "Linear", "global": "Globally Recalibrated Linear", "local": "Locally Recalibrated Linear"}
OWN_CHOICE = "chosen"
_SLICES = 6  # of equally many test rows, in the order of x


def run_seed(settings: Mapping[str, Any], seed: int) -> Outcome:
    """Fit, recalibrate and measure on the data of one seed."""
    train, cal, new = generate(settings["n"], seed)
    model = LinearModel.fitted(train)
    base = model.distribution(cal.x)
    own = calibrate(model, cal.x, cal.y)
    dists: dict[str, Distribution] = {
        "linear": model.distribution(new.x),
        "global": GlobalRecalibrator().fit(base, cal.y).recalibrate(model.distribution(new.x)),
        "local": LocalRecalibrator(k=settings["k"])
        .fit(base, cal.y, cal.x)
        .recalibrate(model.distribution(new.x), new.x),
        OWN_CHOICE: own.predict(new.x),
    }
    rows = evenly_spread(new.x, settings["kl_rows"])
    numbers = {
        name: _measure(dist, new, cal, rows, None if name == "linear" else len(cal.y)) for name, dist in dists.items()
    }
    uniformity = uniformity_tests(pit(base, cal.y), ["frosini"])
    return Outcome(
        {
            "methods": numbers,
            "model": {"intercept": model.intercept, "slope": model.slope, "sigma": model.sigma},
            "frosini_calibration": {"statistic": uniformity["statistic"][0], "p_value": uniformity["p_value"][0]},
            "choice": own.reason,
        },
        _for_figures(dists, new) if seed == 0 else {},
    )


def evenly_spread(x: FloatArray, count: int) -> IntArray:
    """Return rows at evenly spaced ranks of x: the Kullback-Leibler divergence is smooth in x and dear to compute."""
    places = ((np.arange(count) + 0.5) * len(x) / count).astype(np.int64)
    return np.argsort(x)[places]


def _measure(dist: Distribution, new: Data, cal: Data, rows: Any, n_cal: int | None) -> dict[str, float]:
    true = true_distribution(new.x[rows])
    lower, upper = dist.interval(0.95)
    covered = (lower <= new.y) & (new.y <= upper)
    slices = np.array_split(np.argsort(new.x), _SLICES)
    frosini = uniformity_tests(pit(dist, new.y, rng=0), ["frosini"], n_cal=n_cal)
    return {
        "mse": squared_error(dist, true_mean(new.x)).mean(),
        "kl": kl_divergence(true, dist[rows]).mean(),
        "kl_reverse": kl_divergence(true, dist[rows], reverse=True).mean(),
        "coverage": 100 * covered.mean(),
        "worst_slice": min(100 * covered[part].mean() for part in slices),
        "width": (upper - lower).mean(),
        "smis": score_interval(lower, upper, new.y, 0.95).mean() / np.abs(cal.y).mean(),
        "frosini_p_value": frosini["p_value"][0],
    }


def _for_figures(dists: Mapping[str, Distribution], new: Data) -> dict[str, FloatArray]:
    arrays = {"x": new.x, "y": new.y}
    for name in METHODS:
        arrays[f"mean_{name}"], arrays[f"std_{name}"] = dists[name].mean(), dists[name].std()
    return arrays
