"""Every way to recalibrate a network, and what each is measured by."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration import (
    IsotonicRecalibrator,
    KNNRegressor,
    LocalRecalibrator,
    QuantileNetRecalibrator,
    Recalibrated,
)
from nearcal.scores import crps
from nearcal.scores.arrays import score_interval
from nearcal.studies.simulation._costs import watch
from nearcal.studies.simulation._data import Part, Split
from nearcal.studies.simulation._networks import LAYERS

COVERAGE = 0.95
#: Test rows on which the CRPS is computed; that of isotonic recalibration takes time in proportion to rows × n_cal.
CRPS_ROWS = 2000
#: Fewest rows that prediction is timed on; smaller test parts are repeated, lest the cost of a call hide that of a row.
TIMED_ROWS = 2000
#: What "tuned" chooses among besides layer, k and smoothing; nothing past the paper: it is its method that is tuned.
PLAIN: Mapping[str, Any] = {
    "scalings": ("standard", "whiten"),
    "adjustments": "none",
    "shrinkage": False,
    "rule": "one-standard-error",
}
_LEAST_BATCH = 128  # of the quantile network, as in its authors' experiments


class Predicted(NamedTuple):
    """What a network says of a part: distributions, the responses, and positions in its layers."""

    dist: Normal
    y: FloatArray
    spaces: Mapping[str, FloatArray]


class Grid(NamedTuple):
    """The settings that the paper varies."""

    k: tuple[int, ...]
    eps: tuple[float, ...]


Row = dict[str, Any]


def pass_through(network: Any, split: Split, test_rows: int | None) -> tuple[Predicted, Predicted, float]:
    """Return calibration and test parts as the network sees them, and the microseconds that a test row took.

    The predictive distribution is Normal about the network's output, with the root mean squared error of the
    calibration part as its one standard deviation.
    """
    from nearcal.models.adapters import TorchModel

    model = TorchModel(network).prepared(*split.calibration)
    names = list(LAYERS.values())
    parts = []
    for part in (split.calibration, Part(split.test.x[:test_rows], split.test.y[:test_rows])):
        dist, found = model.run(part.x, names)
        assert isinstance(dist, Normal)
        parts.append(Predicted(dist, part.y, {layer: found[name] for layer, name in LAYERS.items()}))
    timed = part.x[_timed_rows(len(part.y))]
    with watch() as cost:
        model.run(timed, names)
    return parts[0], parts[1], 1e6 * cost.seconds / len(timed)


def measure(method: str, recalibrator: Any, calibration: Predicted, test: Predicted, **setting: Any) -> Row:
    """Fit a recalibrator, predict the test part, and return its scores and costs.

    Predicting is to find means and 95% intervals. ``setting`` goes into the row; its ``layer`` is where neighbours are
    looked for.
    """
    layer = setting.get("layer")
    space_cal, space_new = (None if layer is None else part.spaces[layer] for part in (calibration, test))
    with watch() as fit_cost:
        recalibrator.fit(calibration.dist, calibration.y, space_cal)
    rows = _timed_rows(len(test.y))
    dist, space = test.dist[rows], None if space_new is None else space_new[rows]
    with watch() as cost:
        out = recalibrator.recalibrate(dist, space)
        mean, lower, upper = predict(out)
    own = slice(0, len(test.y))
    row = {"method": method, **setting, **judge(mean[own], lower[own], upper[own], test.y)}
    few = slice(0, min(CRPS_ROWS, len(test.y)))
    row["crps"] = crps(recalibrator.recalibrate(dist[few], None if space is None else space[few]), test.y[few]).mean()
    row["fit_seconds"] = fit_cost.seconds
    row["predict_microseconds"] = 1e6 * cost.seconds / len(rows)
    row["predict_megabytes"] = cost.extra
    return row


def _timed_rows(m: int) -> IntArray:
    """Return the rows that prediction is timed on: all, and again from the first where they are few."""
    return np.resize(np.arange(m), max(m, TIMED_ROWS))


def predict(out: Distribution) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means and the ends of 95% intervals, in one pass where there is one."""
    if isinstance(out, Recalibrated):
        found = out.summary(COVERAGE)
        return found.mean, found.lower, found.upper
    return out.mean(), *out.interval(COVERAGE)


def judge(mean: FloatArray, lower: FloatArray, upper: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return the mean squared error to the responses (the true model's is 1), coverage and mean interval score."""
    return {
        "mse": float(np.mean((y - mean) ** 2)),
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "interval_score": float(np.mean(score_interval(lower, upper, y, COVERAGE))),
    }


def measure_base(test: Predicted) -> Row:
    """Return the scores of the network itself."""
    dist, few = test.dist, slice(0, min(CRPS_ROWS, len(test.y)))
    scores = judge(*predict(dist), test.y)
    return {"method": "network", **scores, "crps": crps(dist[few], test.y[few]).mean()}


def local_settings(grid: Grid, n_cal: int) -> Iterator[tuple[int, float]]:
    """Yield (k, eps); more neighbours than calibration points are left out."""
    for k in grid.k:
        if k <= n_cal:
            yield from ((k, eps) for eps in grid.eps)


def measure_local(calibration: Predicted, test: Predicted, grid: Grid, layers: Sequence[str]) -> list[Row]:
    """Recalibrate locally in every layer, with every k and eps: the paper's method."""
    return [
        measure("local", LocalRecalibrator(k, eps=eps, threads=1), calibration, test, layer=layer, k=k, eps=eps)
        for layer in layers
        for k, eps in local_settings(grid, len(calibration.y))
    ]


def measure_isotonic(calibration: Predicted, test: Predicted) -> Row:
    """Recalibrate by isotonic regression (Kuleshov et al., 2018)."""
    return measure("isotonic", IsotonicRecalibrator(), calibration, test)


def measure_density(calibration: Predicted, test: Predicted, seed: int) -> Row:
    """Recalibrate by density estimation (Kuleshov and Deshpande, 2022); batches grow with the calibration part."""
    batch_size = max(_LEAST_BATCH, len(calibration.y) // 100)
    return measure("density", QuantileNetRecalibrator(batch_size=batch_size, rng=seed), calibration, test)


def measure_neighbors(split: Split, grid: Grid, test_rows: int | None) -> list[Row]:
    """Predict by the responses of the nearest calibration points, without a network."""
    calibration, test = (
        Predicted(Normal(np.zeros(len(part.y)), 1.0), part.y, {"input": part.x})
        for part in (split.calibration, Part(split.test.x[:test_rows], split.test.y[:test_rows]))
    )
    return [
        measure("neighbors", KNNRegressor(k, eps=eps, threads=1), calibration, test, layer="input", k=k, eps=eps)
        for k, eps in local_settings(grid, len(calibration.y))
    ]


def measure_tuned(calibration: Predicted, test: Predicted) -> Row:
    """Choose layer, scaling, k and smoothing by leave-one-out, and recalibrate so; the choice counts as fitting."""
    from nearcal.tuning import tune

    with watch() as cost:
        tuning = tune(calibration.dist, calibration.y, calibration.spaces, **PLAIN, threads=1)
    # what nearcal.calibrate does with the choice
    options: Mapping[str, Mapping[str, Any]] = {
        "none": {},
        "global": {"quantile_rule": "predictive", "threads": 1},
        "local": {"quantile_rule": "predictive", "polish": True, "threads": 1},
    }
    chosen = tuning.chosen
    recalibrator = tuning.recalibrator(**options[chosen.kind])
    row = measure("tuned", recalibrator, calibration, test, layer=chosen.space, k=chosen.k)
    row["fit_seconds"] += cost.seconds
    return row | {"choice": str(chosen), "tune_megabytes": cost.extra}


@cache
def warm_up() -> None:
    """Run everything once on little data, so that compiling and loading are in nobody's time."""
    from nearcal.tuning import tune

    rng = np.random.default_rng(0)
    n = 2100  # enough for every kind of search
    spaces = {str(d): rng.normal(size=(n, d)) for d in (1, 5, 20)}
    tiny = Predicted(Normal(np.zeros(n), 1.0), rng.normal(size=n), spaces)
    for layer in spaces:
        for eps in (0.0, 1.0):
            for kind in (LocalRecalibrator, KNNRegressor):
                measure("local", kind(100, eps=eps, threads=1), tiny, tiny, layer=layer)
    measure_isotonic(tiny, tiny)
    tune(tiny.dist, tiny.y, spaces, k=100, **PLAIN, threads=1)
    polished = LocalRecalibrator(100, quantile_rule="predictive", polish=True, threads=1)
    measure("tuned", polished, tiny, tiny, layer="5")
