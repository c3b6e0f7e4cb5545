"""Order statistics as a law: how far a few points bend it. What they promise is tested in tests/guarantees."""

import numpy as np
import pytest
from scipy import stats

from nearcal.recalibration.order_statistics import Masses, OrderStatistics, steadied


def test_a_law_of_calibrated_scores_is_nearly_the_standard_normal():
    """On average over sets of 100 points, the thin law is off by less than half of what the points are."""
    rng = np.random.default_rng(0)
    thin, whole = [], []
    for _ in range(200):
        cell = OrderStatistics(np.sort(rng.normal(size=100)))
        after, before = cell.thin_law.line.scores[0], cell.thin_law.line.values[0]
        inside = np.abs(after) < 1.5
        thin.append(np.mean((before - after)[inside] ** 2))
        points = np.interp(after[inside], cell.law.line.scores[0], cell.law.line.values[0])
        whole.append(np.mean((points - after[inside]) ** 2))
    assert np.mean(thin) < 0.5 * np.mean(whole)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_law_of_scores_that_are_off_follows_them(scale):
    cell = OrderStatistics(np.sort(scale * np.random.default_rng(1).normal(size=2000)))
    after, before = cell.thin_law.line.scores[0], cell.thin_law.line.values[0]
    inside = np.abs(after) < 2
    np.testing.assert_allclose(before[inside], scale * after[inside], atol=0.15 * scale)


def test_differences_are_shortened_by_what_chance_explains():
    after = np.array([-1.0, 0.0, 1.0])
    error = np.sqrt(stats.norm.cdf(after) * stats.norm.sf(after) / 50) / stats.norm.pdf(after)
    np.testing.assert_allclose(steadied(after, after + error, 50.0), after, atol=1e-12)  # one standard error each
    np.testing.assert_allclose(steadied(after, after + 2 * error, 50.0), after + 0.75 * 2 * error, rtol=1e-12)
    far = np.array([0.0, 0.0, 1e6])  # counts for 25 squared standard errors
    np.testing.assert_allclose(steadied(after, after + far, 50.0), after + (1 - 3 / 25) * far, rtol=1e-9)


def test_weights_count_by_their_effective_number():
    assert Masses(np.full(40, 2.0), 1.0).effective_size == 40
    assert Masses(np.repeat([1.0, 0.0], 20), 1.0).effective_size == 20
