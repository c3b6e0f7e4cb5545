"""Every path of the engine against Algorithm 1 in plain numpy; test_r_package.py has that against the R package."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration.algorithm import epanechnikov, recalibrate_row, summarise
from tests.recalibration.cases import FAMILIES, make_family

LEVELS = np.array([1e-9, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0])
N, M = 300, 17


def assert_is_algorithm_1(out, cal, new, k, rtol=1e-12):
    """The weighted sample, its moments and its quantiles are those of the plain version, row by row."""
    dist_new, space_new = new
    mean, var, quantiles, cdf = out.mean(), out.var(), out.ppf(LEVELS), out.cdf(dist_new.median())
    sample = out.weighted_sample(slice(None))
    for row in range(len(out)):
        values, weights = recalibrate_row(*cal, dist_new[row], space_new[row], k)
        # the order too: nearest first
        np.testing.assert_allclose(sample.values[row], values, rtol=rtol)
        np.testing.assert_allclose(sample.weights[row], weights, rtol=1e-9, atol=1e-15)
        expected = summarise(values, weights, LEVELS)
        np.testing.assert_allclose(mean[row], expected[0], rtol=rtol, atol=rtol * np.abs(values).max())
        np.testing.assert_allclose(var[row], expected[1], rtol=1e-9, atol=1e-14 * np.abs(values).max() ** 2)
        np.testing.assert_allclose(quantiles[row], expected[2], rtol=rtol)
        below = weights[values <= dist_new.median()[row]].sum()
        np.testing.assert_allclose(cdf[row], below, rtol=1e-9, atol=1e-12)


def problem(d, n=N, whole=False):
    """Return a calibration set and new rows; at whole numbers space is full of ties and duplicates."""
    rng = np.random.default_rng(d)
    x, x_new = rng.normal(size=(n, d)), rng.normal(size=(M, d))
    if whole:
        x, x_new = np.round(x), np.round(x_new)
    dist, dist_new = nc.Normal(x[:, 0], 1.5), nc.Normal(x_new[:, 0], rng.uniform(0.5, 2.0, size=M))
    return (dist, rng.normal(x[:, 0], np.exp(0.3 * x[:, -1])), x), (dist_new, x_new)


# which searches there are for how many dimensions; "auto" takes each of the first three somewhere
SEARCHES = [
    (1, "line"), (1, "boxes"), (1, "brute"), (1, "kdtree"),
    (3, "boxes"), (3, "brute"), (3, "kdtree"),
    (40, "boxes"), (40, "brute"), (40, "kdtree"), (40, "auto"),
]  # fmt: skip
WORKERS = {
    "one thread": nc.Workers(threads=1),
    "several threads": nc.Workers(threads=3),
    "many chunks": nc.Workers(threads=2, memory=2**20),
}


@pytest.mark.parametrize("whole", [False, True], ids=["anywhere", "ties and duplicates"])
@pytest.mark.parametrize("k", [1, 2, 37, N])
@pytest.mark.parametrize(("d", "search"), SEARCHES)
def test_every_search(d, search, k, whole):
    cal, new = problem(d, whole=whole)
    out = nc.LocalRecalibrator(k=k, search=search).fit(*cal).recalibrate(*new)
    assert_is_algorithm_1(out, cal, new, k)


@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)
@pytest.mark.parametrize("d", [1, 3, 40])
def test_threads_and_chunks(d, workers):
    """A thousand neighbours of seventeen rows: with a megabyte for two threads every chunk is of few rows."""
    cal, new = problem(d, n=1500)
    out = nc.LocalRecalibrator(k=1000, workers=workers).fit(*cal).recalibrate(*new)
    assert_is_algorithm_1(out, cal, new, 1000)
    assert workers.memory > 2**20 or len(workers.chunks(M, 1000)) > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family):
    dist, y, dist_new = make_family(family)
    rng = np.random.default_rng(5)
    cal, new = (dist, y, rng.normal(size=(len(y), 2))), (dist_new, rng.normal(size=(len(dist_new), 2)))
    for k in (1, 20, len(y)):
        out = nc.LocalRecalibrator(k=k).fit(*cal).recalibrate(*new)
        assert_is_algorithm_1(out, cal, new, k, rtol=1e-9)


def test_positions_of_all_kinds():
    rng = np.random.default_rng(6)
    (dist, y, _), (dist_new, _) = problem(2)
    for x, x_new in (
        (np.zeros((N, 2)), np.zeros((M, 2))),  # all in one place
        (np.zeros((N, 2)), np.ones((M, 2))),  # all as far
        (np.repeat(rng.normal(size=(6, 2)), 50, axis=0), np.repeat(rng.normal(size=(6, 2)), 3, axis=0)[:M]),
        (1e6 + 1e-3 * rng.normal(size=(N, 2)), 1e6 + 1e-3 * rng.normal(size=(M, 2))),
        (1e149 * rng.normal(size=(N, 1)), 1e149 * rng.normal(size=(M, 1))),
    ):
        cal, new = (dist, y, x), (dist_new, x_new)
        assert_is_algorithm_1(nc.LocalRecalibrator(k=40).fit(*cal).recalibrate(*new), cal, new, 40)


def test_by_hand():
    """Three points at distances 1, 2 and 3: weights 1 - (d / 3)² are 8/9, 5/9 and 0."""
    values, weights = recalibrate_row(
        nc.Normal(np.zeros(4), 1.0), np.array([9.0, 1.0, -1.0, 2.0]), np.array([[7.0], [1.0], [2.0], [3.0]]),
        nc.Normal(10.0, 2.0), np.zeros(1), 3,
    )  # fmt: skip
    np.testing.assert_allclose(values, [12.0, 8.0, 14.0])
    np.testing.assert_allclose(weights, [8 / 13, 5 / 13, 0.0], atol=1e-15)
    mean, variance, quantiles = summarise(values, weights, np.array([0.1, 5 / 13, 0.4, 1.0]))
    assert mean == pytest.approx((8 * 12 + 5 * 8) / 13)
    assert variance == pytest.approx(8 * 5 / 13**2 * 4**2)
    np.testing.assert_array_equal(quantiles, [8.0, 8.0, 12.0, 12.0])
    np.testing.assert_array_equal(epanechnikov(np.array([2.0, 2.0])), [0.5, 0.5])
    np.testing.assert_array_equal(epanechnikov(np.zeros(4)), np.full(4, 0.25))
