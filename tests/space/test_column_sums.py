"""Exact sums: against fractions, whatever the sizes of numbers, the order of rows and the parts."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from nearcal.space import ColumnSums, Scaling

COLUMNS = {
    "ordinary": lambda rng: rng.normal(size=300),
    "far from zero": lambda rng: 1e8 + rng.normal(size=300) * 1e-6,
    "of many sizes": lambda rng: rng.normal(size=300) * 10.0 ** rng.integers(-140, 140, size=300),
    "subnormal": lambda rng: rng.integers(-9, 9, size=300) * 5e-324,
    "constant": lambda rng: np.full(300, 0.1),
    "zero": lambda rng: np.zeros(300),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_sums_are_exact(name):
    x = COLUMNS[name](np.random.default_rng(1))
    sums, exact = ColumnSums.of(x[:, np.newaxis]), [Fraction(value) for value in x.tolist()]
    mean = sum(exact) / len(x)
    variance = sum((value - mean) ** 2 for value in exact) / len(x)
    assert sums.mean[0] == float(mean)
    with mpmath.workprec(200):
        deviation = float(mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator))
    assert sums.deviation[0] == pytest.approx(deviation, rel=3e-16, abs=5e-324)


def test_parts_do_not_matter():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(70_000, 2)) * 10.0 ** rng.integers(-3, 3, size=(70_000, 1))
    whole, cuts = ColumnSums.of(x), [0, 1, 500, 69_000, 70_000]
    parts = [ColumnSums.of(x[rng.permutation(np.arange(a, b))]) for a, b in itertools.pairwise(cuts)]
    assert parts[3] + (parts[1] + parts[0]) + parts[2] == whole


def test_the_map_is_that_of_standard_scaling():
    x = np.random.default_rng(3).normal([0.0, 1e3, 5.0], [1.0, 20.0, 0.0], size=(500, 3))
    found, expected = ColumnSums.of(x).standard_map(), Scaling("standard").learn(x)
    np.testing.assert_allclose(found.center, expected.center, rtol=1e-14)
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-13)
