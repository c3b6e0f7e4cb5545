"""Ranges of columns against a slow twin, and what they promise of rows like the calibration set."""

import numpy as np
import pytest

from nearcal.space import Ranges, upper_limit


def slow_excess(others, row):
    """How far one row lies beyond the ranges of others, as it is documented."""
    excess = [0.0]
    for column, value in zip(others.T, row, strict=True):
        high, low = column.max(), column.min()
        if value > high:
            tail = high - np.quantile(column, 0.9)
            excess.append((value - high) / tail if tail > 0 else np.inf)
        if value < low:
            tail = np.quantile(column, 0.1) - low
            excess.append((low - value) / tail if tail > 0 else np.inf)
    return max(excess)


@pytest.mark.parametrize("kind", ["normal", "integers", "constant column", "two points"])
def test_excess_and_limit_equal_the_slow_ones(kind):
    rng = np.random.default_rng(3)
    space = rng.standard_t(2, size=(2 if kind == "two points" else 80, 3))
    if kind == "integers":
        space = np.round(space)
    if kind == "constant column":
        space[:, 1] = 5.0
    new = rng.standard_t(2, size=(40, 3)) * 3
    ranges = Ranges.of(space, 0.1)
    np.testing.assert_allclose(ranges.excess(new), [slow_excess(space, row) for row in new], rtol=1e-12)
    own = [slow_excess(np.delete(space, i, axis=0), row) for i, row in enumerate(space)]
    assert ranges.limit == pytest.approx(np.sort(own)[min(int(np.ceil(0.9 * (len(own) + 1))), len(own)) - 1], rel=1e-12)


def test_trust_is_1_up_to_the_limit_and_falls_over_half_a_unit():
    ranges = Ranges.of(np.linspace(0, 1, 101)[:, np.newaxis], 0.05)
    unit = 0.1
    assert ranges.limit == 0  # only the two outermost of 101 points have any excess
    at = 1 + unit * np.array([-1.0, 0.0, 0.125, 0.375, 0.5, 50.0])
    np.testing.assert_allclose(ranges.trust(at[:, np.newaxis]), [1, 1, 1 - 0.25**2, 1 - 0.75**2, 0, 0], atol=1e-12)
    np.testing.assert_allclose(ranges.trust(1 - at[:, np.newaxis]), [1, 1, 1 - 0.25**2, 1 - 0.75**2, 0, 0], atol=1e-12)


@pytest.mark.parametrize("shape", [(60, 1), (200, 5), (100, 40)])
def test_rows_like_the_calibration_set_seldom_exceed_the_limit(shape):
    """At the rate asked for on average: 200 sets of 50 rows have a standard error of 0.5 points at most.

    (The rate of a set varies by √(0.05 · 0.95 / n), that of 50 rows by 3 points: both over √200.)
    """
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        ranges = Ranges.of(rng.standard_t(4, size=shape), 0.05)
        shares.append((ranges.excess(rng.standard_t(4, size=(50, shape[1]))) > ranges.limit).mean())
    assert np.mean(shares) < 0.05 + 3 * 0.005


@pytest.mark.parametrize("n", [1, 2])
def test_points_too_few_to_tell_trust_everything(n):
    assert (Ranges.of(np.ones((n, 2)) * np.arange(n)[:, np.newaxis], 0.05).trust(np.full((3, 2), 9.0)) == 1).all()


def test_of_ends_that_points_tell_nothing_of_whole_ranges_are_the_unit():
    """Of a rate far below one in their number. Columns have two values, many, and one."""
    rng = np.random.default_rng(0)
    space = np.column_stack([rng.integers(0, 2, 60), rng.uniform(size=60), np.ones(60)])
    low, high = space[:, 1].min(), space[:, 1].max()
    just, ranges = high + (high - low), Ranges.of(space, 0.0008)
    assert Ranges.of(space, 0.00082).trust(np.array([[1.5, 0.5, 1.0]])) == 0  # a twentieth of 1 / 61 is told
    rows = [[1.9, 0.5, 1], [2.25, 0.5, 1], [2.5, 0.5, 1], [0, just, 9e9], [0, just + (high - low), 1], [-1e300, 0.5, 1]]
    np.testing.assert_allclose(ranges.trust(np.array(rows)), [1.0, 0.75, 0.0, 1.0, 0.0, 0.0], atol=1e-12)


def test_the_limit_is_a_conformal_quantile():
    values = np.arange(99.0)
    assert upper_limit(values, 0.05) == 94.0
    assert upper_limit(values, 0.01) == 98.0
    assert upper_limit(values, 0.999) == upper_limit(values, 1.0) == 0.0
    assert upper_limit(np.empty(0), 0.05) == np.inf


def test_few_values_are_carried_on_by_an_exponential_tail():
    values = np.arange(99.0)
    # of an exponential tail from the median, 49, the greatest of 99 stands for 1 / 100: rate = 49 / log 50
    assert upper_limit(values, 0.001) == pytest.approx(49 + 49 * np.log(500) / np.log(50), rel=1e-12)
    assert upper_limit(values, 1e-9) == pytest.approx(49 + 49 * np.log(5e8) / np.log(50), rel=1e-12)
    just = np.nextafter(0.01, 0)
    assert upper_limit(values, just) == pytest.approx(98.0, rel=1e-9)
    assert upper_limit(np.array([3.0]), 0.1) == 3.0
    assert upper_limit(np.array([1.0, np.inf]), 0.1) == np.inf
    rng = np.random.default_rng(3)
    exceeded = [upper_limit(rng.exponential(size=60), 0.004) < rng.exponential() for _ in range(20_000)]
    # the limit is uncertain, and so exceeded more often than by 0.004; the greatest of 60 would be by 0.016
    assert np.mean(exceeded) < 0.008
