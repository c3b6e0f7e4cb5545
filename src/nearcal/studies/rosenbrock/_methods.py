"""Two ways to read a distribution off the network, each before and after recalibration, and the true model."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.distributions import Distribution, Samples
from nearcal.models import adapters, calibrate
from nearcal.recalibration import LocalRecalibrator
from nearcal.scores import squared_error
from nearcal.scores.arrays import score_interval
from nearcal.studies._study import Outcome
from nearcal.studies.rosenbrock._data import Data, generate, true_distribution
from nearcal.studies.rosenbrock._network import settled, trained_network
from nearcal.studies.rosenbrock._thinned import dropout_draws

METHODS = {
    "wsir": "WSIR ANN",
    "dropout": "MC Dropout ANN",
    "wsir_local": "Recalibrated WSIR ANN",
    "dropout_local": "Recalibrated MC Dropout",
    "true": "True model",
}
OWN_CHOICE = "chosen"
_SETTLING_ROWS = 20_000
_NARROW_LAYERS = ("9", "13")  # ReLU of the third and the fourth hidden layer


def run_seed(settings: Mapping[str, Any], seed: int, trained: Outcome) -> Outcome:
    """Recalibrate the trained network of one seed and measure everything on its test set."""
    data, cal, new = generate(settings["n"], seed)
    network = trained_network(settings, trained)
    scaled = settled(network, data.X[:_SETTLING_ROWS])
    rng = np.random.default_rng([seed, 1])
    numbers: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    choice = ""
    for name, dist, reason in _distributions(network, scaled, cal, new, settings, rng):
        choice = reason or choice
        lower, upper = dist.interval(0.95)
        covered = (lower <= new.y) & (new.y <= upper)
        numbers[name] = {
            "mse": squared_error(dist, new.y).mean(),
            "coverage": 100 * covered.mean(),
            "smis": score_interval(lower, upper, new.y, 0.95).mean() / np.abs(cal.y).mean(),
            "worst_cell": worst_cell(new.X, covered),
            "width": (upper - lower).mean(),
        }
        if name in ("wsir", "wsir_local"):
            arrays |= {f"mean_{name}": dist.mean(), f"covered_{name}": covered}
    low = new.X[:, 1] < 0
    shift = {name: float(arrays[f"mean_{name}"][low].mean()) for name in ("wsir", "wsir_local")}
    shift["true"] = float(true_distribution(new.X[low]).mean().mean())
    return Outcome(
        {"methods": numbers, "choice": choice, "mean_where_x2_is_negative": shift},
        {**arrays, "X": new.X, "y": new.y} if seed == settings["drawn"] else {},
    )


def worst_cell(X: FloatArray, covered: NDArray[np.bool_]) -> float:
    """Return the least coverage, in per cent, over the cells of a grid of unit squares, 4 by 6."""
    cell = np.floor(X[:, 0] + 2) * 6 + np.floor(X[:, 1] + 1)
    return min(100 * float(covered[cell == c].mean()) for c in np.unique(cell))


def _distributions(
    network: Any, scaled: Any, cal: Data, new: Data, settings: Mapping[str, Any], rng: np.random.Generator
) -> Iterator[tuple[str, Distribution, str]]:
    """Yield one method after the other, for draws take much memory: name, test distributions, and reasons if any.

    ``network`` is for dropout, ``scaled`` for prediction without.
    """
    draws = settings["draws"]
    model = adapters.TorchModel(scaled, response="log").prepared(cal.X, cal.y)
    yield from _before_and_after(
        "wsir",
        _drawn(model.distribution(cal.X), draws, rng),
        _drawn(model.distribution(new.X), draws, rng),
        cal,
        new,
        settings,
        rng,
    )
    masks = int(rng.integers(2**31))
    yield from _before_and_after(
        "dropout",
        _dropout(network, cal.X, draws, masks),
        _dropout(network, new.X, draws, masks),
        cal,
        new,
        settings,
        rng,
    )
    own = calibrate(scaled, cal.X, cal.y, layer=["input", *_NARROW_LAYERS, "output"], response="log")
    yield OWN_CHOICE, own.predict(new.X), own.reason
    yield "true", _drawn(true_distribution(new.X), draws, rng), ""


def _before_and_after(
    name: str,
    dist_cal: Samples,
    dist_new: Samples,
    cal: Data,
    new: Data,
    settings: Mapping[str, Any],
    rng: np.random.Generator,
) -> Iterator[tuple[str, Distribution, str]]:
    """Yield draws before and after local recalibration with empirical PIT values, as the paper does."""
    yield name, dist_new, ""
    local = LocalRecalibrator(radius=settings["radius"]).fit(dist_cal, cal.y, cal.X)
    yield f"{name}_local", _drawn(local.recalibrate(dist_new, new.X), settings["draws"], rng), ""


def _drawn(dist: Distribution, draws: int, rng: np.random.Generator) -> Samples:
    return Samples(dist.sample(draws, rng=rng), tails="empirical")


def _dropout(network: Any, X: FloatArray, draws: int, seed: int) -> Samples:
    return Samples(np.exp(dropout_draws(network, X, draws, seed)), tails="empirical")
