import numpy as np
import pytest

import nearcal as nc
from nearcal_studies.simulation.data import simulate, true_mean
from nearcal_studies.simulation.methods import (
    Grid,
    Predicted,
    local_settings,
    measure_base,
    measure_density,
    measure_isotonic,
    measure_local,
    measure_memory,
    measure_neighbors,
    measure_tuned,
)


@pytest.fixture(scope="module")
def split():
    return simulate(3000, 0)


@pytest.fixture(scope="module")
def parts(split):
    """Return calibration and test parts of a model that misses the squares of x₄ and x₉."""

    def predicted(part):
        mean = true_mean(part.x) - 5 * part.x[:, 3] ** 2 - 5 * part.x[:, 8] ** 2 + 10
        return Predicted(nc.Normal(mean, 10.0), part.y, {"input": part.x, "best": part.x[:, [3, 8]]})

    return predicted(split.calibration), predicted(split.test)


def test_local_rows_are_what_the_recalibrator_gives(parts):
    calibration, test = parts
    rows = measure_local(calibration, test, Grid((50, 400), (0.0, 1.0)), ("input", "best"))
    assert [(row["layer"], row["k"], row["eps"]) for row in rows] == [
        (layer, 50, eps) for layer in ("input", "best") for eps in (0.0, 1.0)
    ]  # 400 neighbours of 300 points there are not
    row = rows[2]
    out = nc.LocalRecalibrator(50).fit(calibration.dist, calibration.y, calibration.spaces["best"])
    out = out.recalibrate(test.dist, test.spaces["best"])
    lower, upper = out.interval(0.95)
    assert row["mse"] == pytest.approx(np.mean((test.y - out.mean()) ** 2))
    assert row["coverage"] == np.mean((lower <= test.y) & (test.y <= upper))
    assert row["crps"] == pytest.approx(nc.scores.crps(out, test.y).mean())
    assert row["interval_score"] == pytest.approx(nc.scores.interval_score(out, test.y).mean())
    assert row["predict_microseconds"] > 0


def test_neighbours_in_the_right_place_help_most(parts):
    calibration, test = parts
    base = measure_base(test)
    local = {row["layer"]: row for row in measure_local(calibration, test, Grid((50,), (0.0,)), ("input", "best"))}
    assert local["best"]["mse"] < 0.5 * base["mse"]
    assert local["best"]["crps"] < local["input"]["crps"] < base["crps"]
    tuned = measure_tuned(calibration, test)
    assert tuned["layer"] == "best"
    assert tuned["crps"] < 1.05 * local["best"]["crps"]


def test_maps_of_all_rows_cannot_mend_it(parts):
    calibration, test = parts
    base, isotonic = measure_base(test), measure_isotonic(calibration, test)
    assert isotonic["mse"] == pytest.approx(base["mse"], rel=0.1)
    assert isotonic["crps"] < base["crps"]
    density = measure_density(calibration, test, 0)
    assert density["fit_seconds"] > isotonic["fit_seconds"]


def test_nearest_neighbour_regression_ignores_the_model(split):
    (row,) = measure_neighbors(split, Grid((100,), (0.0,)), 200)
    out = nc.KNNRegressor(100).fit(None, split.calibration.y, split.calibration.x)
    mean = out.recalibrate(None, split.test.x[:200]).mean()
    assert row["mse"] == pytest.approx(np.mean((split.test.y[:200] - mean) ** 2))


def test_k_above_the_calibration_part_is_left_out():
    grid = Grid((100, 500, 1000), (0.0, 0.5))
    assert list(local_settings(grid, 100)) == [(100, 0.0), (100, 0.5)]
    assert len(list(local_settings(grid, 1000))) == 6


def test_memory_formula_is_the_paper_s():
    (row,) = measure_memory(1000, (300,), (50,))
    assert row["formula"] == 8 * 300 * (2 * 50 + 20 + 1) / 1e6
