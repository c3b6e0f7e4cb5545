"""Every way to recalibrate a network, and what each is measured by."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import interval_scores
from nearcal_studies.simulation.costs import watch
from nearcal_studies.simulation.data import INPUTS, Part, Split, simulate
from nearcal_studies.simulation.networks import LAYERS

COVERAGE = 0.95
#: Test rows on which the CRPS is computed; that of isotonic recalibration takes time in proportion to rows × n_cal.
CRPS_ROWS = 2000
#: Fewest rows that prediction is timed on; smaller test parts are repeated, lest the cost of a call hide that of a row.
TIMED_ROWS = 2000
_LEAST_BATCH = 128  # of the quantile network, as in its authors' experiments


class Predicted(NamedTuple):
    """What a network says of a part: distributions, the responses, and positions in its layers."""

    dist: nc.Normal
    y: NDArray[Any]
    spaces: Mapping[str, NDArray[Any]]


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
    model = nc.adapters.TorchModel(network).prepared(*split.calibration)
    names = list(LAYERS.values())
    parts = []
    for part in (split.calibration, Part(split.test.x[:test_rows], split.test.y[:test_rows])):
        dist, positions = model.run(part.x, names)
        assert isinstance(dist, nc.Normal)
        parts.append(Predicted(dist, part.y, {layer: positions[name] for layer, name in LAYERS.items()}))
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
    space_cal = None if layer is None else calibration.spaces[layer]
    with watch() as fit_cost:
        recalibrator.fit(calibration.dist, calibration.y, space_cal)
    return _measure_fitted(method, recalibrator, test, **setting) | {"fit_seconds": fit_cost.seconds}


def _measure_fitted(method: str, recalibrator: Any, test: Predicted, **setting: Any) -> Row:
    """Predict the test part, and return scores and costs."""
    layer = setting.get("layer")
    space_new = None if layer is None else test.spaces[layer]
    rows = _timed_rows(len(test.y))
    dist, space = test.dist[rows], None if space_new is None else space_new[rows]
    with watch() as cost:
        out = recalibrator.recalibrate(dist, space)
        mean, lower, upper = predict(out)
    own = slice(0, len(test.y))
    row = {"method": method, **setting, **judge(mean[own], lower[own], upper[own], test.y)}
    few = slice(0, min(CRPS_ROWS, len(test.y)))
    row["crps"] = nc.scores.crps(
        recalibrator.recalibrate(dist[few], None if space is None else space[few]), test.y[few]
    ).mean()
    row["predict_microseconds"] = 1e6 * cost.seconds / len(rows)
    row["predict_megabytes"] = cost.extra
    return row


def _timed_rows(m: int) -> NDArray[np.int64]:
    """Return the rows that prediction is timed on: all, and again from the first where they are few."""
    return np.resize(np.arange(m), max(m, TIMED_ROWS))


def predict(out: nc.Distribution) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return means and the ends of 95% intervals, in one pass where there is one."""
    if isinstance(out, nc.Recalibrated):
        summary = out.summary(COVERAGE)
        return summary.mean, summary.lower, summary.upper
    return out.mean(), *out.interval(COVERAGE)


def judge(mean: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any], y: NDArray[Any]) -> dict[str, float]:
    """Return the mean squared error to the responses (the true model's is 1), coverage and mean interval score."""
    return {
        "mse": float(np.mean((y - mean) ** 2)),
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "interval_score": float(np.mean(interval_scores(lower, upper, y, COVERAGE))),
    }


def measure_base(test: Predicted) -> Row:
    """Return the scores of the network itself."""
    dist, few = test.dist, slice(0, min(CRPS_ROWS, len(test.y)))
    scores = judge(*predict(dist), test.y)
    return {"method": "network", **scores, "crps": nc.scores.crps(dist[few], test.y[few]).mean()}


def local_settings(grid: Grid, n_cal: int) -> Iterator[tuple[int, float]]:
    """Yield (k, eps); more neighbours than calibration points are left out."""
    for k in grid.k:
        if k <= n_cal:
            yield from ((k, eps) for eps in grid.eps)


def measure_local(calibration: Predicted, test: Predicted, grid: Grid, layers: Sequence[str]) -> list[Row]:
    """Recalibrate locally in every layer, with every k and eps: the paper's method."""
    return [
        measure("local", recalibrators.local(k, eps=eps, one_thread=True), calibration, test, layer=layer, k=k, eps=eps)
        for layer in layers
        for k, eps in local_settings(grid, len(calibration.y))
    ]


def measure_isotonic(calibration: Predicted, test: Predicted) -> Row:
    """Recalibrate by isotonic regression (Kuleshov et al., 2018)."""
    return measure("isotonic", nc.IsotonicRecalibrator(), calibration, test)


def measure_density(calibration: Predicted, test: Predicted, seed: int) -> Row:
    """Recalibrate by density estimation (Kuleshov and Deshpande, 2022); batches grow with the calibration part."""
    batch_size = max(_LEAST_BATCH, len(calibration.y) // 100)
    return measure("density", recalibrators.quantile_net(seed, batch_size=batch_size), calibration, test)


def measure_neighbors(split: Split, grid: Grid, test_rows: int | None) -> list[Row]:
    """Predict by the responses of the nearest calibration points, without a network."""
    calibration, test = (
        Predicted(nc.Normal(np.zeros(len(part.y)), 1.0), part.y, {"input": part.x})
        for part in (split.calibration, Part(split.test.x[:test_rows], split.test.y[:test_rows]))
    )
    return [
        measure("neighbors", recalibrators.neighbors(k, eps), calibration, test, layer="input", k=k, eps=eps)
        for k, eps in local_settings(grid, len(calibration.y))
    ]


def measure_tuned(calibration: Predicted, test: Predicted) -> Row:
    """Choose layer, scaling, k and smoothing by leave-one-out, and recalibrate so; the choice counts as fitting."""
    with watch() as cost:
        tuning = recalibrators.tune_plainly(calibration.dist, calibration.y, calibration.spaces)
    chosen = tuning.chosen
    row = _measure_fitted("tuned", tuning.recalibrator, test, layer=chosen.space, k=chosen.k)
    return row | {"fit_seconds": cost.seconds, "choice": str(chosen), "tune_megabytes": cost.extra}


def measure_memory(n: int, rows: Sequence[int], k: Sequence[int]) -> list[Row]:
    """Return the megabytes that predicting new rows takes, recalibrated in the input space.

    ``formula`` are the paper's n(2k + h + d) numbers of 8 bytes in megabytes, h = 20 columns of the space and d = 1
    output; ``held`` is what the weighted samples of all rows take while they are made, ``chunked`` what means and
    intervals of the same rows take.
    """
    split = simulate(n, 0)
    y, sigma = split.calibration.y, float(split.calibration.y.std())
    table: list[Row] = []
    for neighbors in k:
        recalibrator = recalibrators.local(neighbors, one_thread=True)
        recalibrator.fit(nc.Normal(np.zeros(len(y)), sigma), y, split.calibration.x)
        for m in rows:
            new, at = nc.Normal(np.zeros(m), sigma), np.resize(split.test.x, (m, INPUTS))
            with watch() as chunked:
                recalibrator.recalibrate(new, at).summary()
            with watch() as held:
                recalibrator.recalibrate(new, at).weighted_sample(slice(None))
            formula = 8 * m * (2 * neighbors + INPUTS + 1) / 1e6
            table.append({"rows": m, "k": neighbors, "formula": formula, "held": held.extra, "chunked": chunked.extra})
    return table


@cache
def warm_up() -> None:
    """Run everything once on little data, so that compiling and loading are in nobody's time."""
    rng = np.random.default_rng(0)
    n = 2100  # enough for every kind of search
    spaces = {str(d): rng.normal(size=(n, d)) for d in (1, 5, 20)}
    tiny = Predicted(nc.Normal(np.zeros(n), 1.0), rng.normal(size=n), spaces)
    for layer in spaces:
        for eps in (0.0, 1.0):
            for recalibrator in (recalibrators.local(100, eps=eps, one_thread=True), recalibrators.neighbors(100, eps)):
                measure("local", recalibrator, tiny, tiny, layer=layer)
    measure_isotonic(tiny, tiny)
    recalibrators.tune_plainly(tiny.dist, tiny.y, spaces, k=100)
    measure("tuned", recalibrators.polished(100), tiny, tiny, layer="5")
