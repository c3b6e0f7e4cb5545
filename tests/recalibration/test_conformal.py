"""Conformal prediction with weights: bounds against counting, and the promise under a shift that is known."""

import numpy as np
import pytest

import nearcal as nc

N = 25
RNG = np.random.default_rng(3)
Y, WEIGHTS = RNG.normal(size=N), RNG.gamma(2.0, size=N)
DIST, NEW = nc.Normal(np.zeros(N), 1.0), nc.Normal([0.0], 1.0)
LEVELS = np.linspace(0, 1, 41)


def fit(**options):
    return nc.ConformalRecalibrator(**options).fit(DIST, Y, sample_weight=WEIGHTS).recalibrate(NEW)


@pytest.mark.parametrize("new_weight", [None, 5.0])
def test_quantile_bounds_count_probabilities(new_weight):
    out, relative = fit(new_weight=new_weight), WEIGHTS / WEIGHTS.mean()
    own = relative.max() if new_weight is None else new_weight
    p = np.append(relative, own) / (relative.sum() + own)
    values = np.append(Y, np.inf)  # the new point may lie anywhere: at either end, for either bound
    lower, upper = out.quantile_bounds(LEVELS)
    for level, low, high in zip(LEVELS, lower[0], upper[0], strict=True):
        reached = [y for y in (-np.inf, *np.sort(values)) if p[values <= y].sum() >= level - 1e-12]
        assert high == reached[0]
        mirrored = np.append(Y, -np.inf)
        reached = [y for y in (*np.sort(mirrored), np.inf) if p[mirrored >= y].sum() >= 1 - level - 1e-12]
        assert low == reached[-1]


def test_the_band_and_what_runs_inside_it():
    out, relative = fit(), WEIGHTS / WEIGHTS.mean()
    own = relative.max()
    total = relative.sum() + own
    y = np.concatenate([Y, RNG.normal(size=30), [-9.0, 9.0]])
    low, high = (edge[0] for edge in out.cdf_bounds(y[np.newaxis]))
    np.testing.assert_allclose(low, [relative[y_i > Y].sum() / total for y_i in y], atol=1e-14)
    np.testing.assert_allclose(high, [(relative[y_i >= Y].sum() + own) / total for y_i in y], atol=1e-14)
    inside = out.cdf(y[np.newaxis])[0]
    assert ((low - 1e-12 <= inside) & (inside <= high + 1e-12)).all()
    ends, quantiles = out.interval(0.8), out.ppf([0.1, 0.9])
    assert ends[0][0] <= quantiles[0, 0] < quantiles[0, 1] <= ends[1][0]


def test_a_new_weight_of_one_is_as_without_weights():
    plain = nc.ConformalRecalibrator().fit(DIST, Y).recalibrate(NEW)
    for new_weight in (1, 1.0):
        same = nc.ConformalRecalibrator(new_weight=new_weight).fit(DIST, Y).recalibrate(NEW)
        np.testing.assert_array_equal(same.quantile_bounds(LEVELS), plain.quantile_bounds(LEVELS))
    heavier = nc.ConformalRecalibrator(new_weight=1 + 1e-9).fit(DIST, Y).recalibrate(NEW)
    np.testing.assert_allclose(heavier.ppf(LEVELS[1:-1]), plain.ppf(LEVELS[1:-1]), rtol=1e-6)


@pytest.mark.parametrize("new_weight", [0.5, 0.0, -1.0, np.nan, "a", 1.2])
def test_a_new_point_is_no_lighter_than_all_others(new_weight):
    with pytest.raises(nc.InvalidParameterError, match="new_weight must be"):
        fit(new_weight=new_weight)


def test_a_heavy_new_point_is_anywhere():
    lower, upper = fit(new_weight=1e6).interval(0.5)
    assert (lower[0], upper[0]) == (-np.inf, np.inf)


@pytest.mark.slow
def test_the_promise_holds_under_a_known_shift_slowly():
    check_promise(4000)


def test_the_promise_holds_under_a_known_shift():
    check_promise(400)


def check_promise(sets):
    """Inputs are uniform on (0, 1) and, for new points, of density 2x: the ratio is 2x, at most 2.

    Noise grows with x, so that without weights intervals are too short. Every set has one new point: a binomial count.
    """
    rng = np.random.default_rng(1)
    covered = {"weighted": 0, "plain": 0}
    for _ in range(sets):
        x, x_new = rng.uniform(size=40), np.sqrt(rng.uniform())
        y, y_new = rng.normal(0, x**2), rng.normal(0, x_new**2)
        dist, new = nc.Normal(np.zeros(40), 1.0), nc.Normal([0.0], 1.0)
        heaviest = 2.0 / (2 * x).mean()  # in units of the average
        for name, rc, weights in (
            ("weighted", nc.ConformalRecalibrator(new_weight=heaviest), 2 * x),
            ("plain", nc.ConformalRecalibrator(), None),
        ):
            low, high = rc.fit(dist, y, sample_weight=weights).recalibrate(new).interval(0.8)
            covered[name] += low[0] <= y_new <= high[0]
    error = np.sqrt(0.8 * 0.2 / sets)
    assert covered["weighted"] / sets > 0.8 - 3 * error
    assert covered["plain"] / sets < 0.8 - 3 * error
