"""Two ways to read a distribution off the network, each before and after recalibration, and the true model."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import interval_scores
from nearcal_studies.rosenbrock.network import (
    Data,
    dropout_draws,
    generate,
    settled,
    trained_network,
    true_distribution,
)
from nearcal_studies.study import Outcome

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


def run_seed(settings: Mapping[str, Any], trained: Outcome) -> Outcome:
    """Recalibrate the trained network of one seed and measure everything on its test set."""
    data, cal, new = generate(settings["n"], settings["seed"])
    network = trained_network(settings, trained)
    scaled = settled(network, data.X[:_SETTLING_ROWS])
    rng = np.random.default_rng([settings["seed"], 1])
    numbers: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    choice = ""
    for name, dist, reason in _distributions(network, scaled, cal, new, settings, rng):
        choice = reason or choice
        lower, upper = dist.interval(0.95)
        covered = (lower <= new.y) & (new.y <= upper)
        numbers[name] = {
            "mse": nc.scores.squared_error(dist, new.y).mean(),
            "coverage": 100 * covered.mean(),
            "smis": interval_scores(lower, upper, new.y, 0.95).mean() / np.abs(cal.y).mean(),
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
        {**arrays, "X": new.X, "y": new.y} if settings["seed"] == settings["drawn"] else {},
    )


def worst_cell(X: NDArray[Any], covered: NDArray[Any]) -> float:
    """Return the least coverage, in per cent, over the cells of a grid of unit squares, 4 by 6."""
    cell = np.floor(X[:, 0] + 2) * 6 + np.floor(X[:, 1] + 1)
    return min(100 * float(covered[cell == c].mean()) for c in np.unique(cell))


def _distributions(
    network: Any, scaled: Any, cal: Data, new: Data, settings: Mapping[str, Any], rng: np.random.Generator
) -> Iterator[tuple[str, nc.Distribution, str]]:
    """Yield one method after the other, for draws take much memory: name, test distributions, and reasons if any.

    ``network`` is for dropout, ``scaled`` for prediction without. Draws are recalibrated locally with empirical PIT
    values, as the paper does.
    """
    draws = settings["draws"]

    def before_and_after(name: str, dist_cal: nc.Samples, dist_new: nc.Samples) -> Any:
        yield name, dist_new, ""
        local = recalibrators.local(radius=settings["radius"]).fit(dist_cal, cal.y, cal.X)
        yield f"{name}_local", _drawn(local.recalibrate(dist_new, new.X), draws, rng), ""

    model = nc.adapters.TorchModel(scaled, response="log").prepared(cal.X, cal.y)
    yield from before_and_after("wsir", *(_drawn(model.distribution(part.X), draws, rng) for part in (cal, new)))
    masks = int(rng.integers(2**31))
    yield from before_and_after("dropout", *(_dropout(network, part.X, draws, masks) for part in (cal, new)))
    layers = ["input", *_NARROW_LAYERS, "output"]
    own = recalibrators.calibrate(scaled, cal.X, cal.y, layers, response="log")
    yield OWN_CHOICE, own.predict(new.X), own.reason
    yield "true", _drawn(true_distribution(new.X), draws, rng), ""


def _drawn(dist: nc.Distribution, draws: int, rng: np.random.Generator) -> nc.Samples:
    return nc.Samples(dist.sample(draws, rng=rng), tails="empirical")


def _dropout(network: Any, X: NDArray[Any], draws: int, seed: int) -> nc.Samples:
    return nc.Samples(np.exp(dropout_draws(network, X, draws, seed)), tails="empirical")
