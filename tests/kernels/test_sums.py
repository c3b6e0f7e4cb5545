"""Sums, weights and moments that are the same, to the last bit, in whatever order neighbours come."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import summary, weights
from nearcal.kernels.compile import kernel
from nearcal.kernels.sums import largest_magnitude, sum_in_any_order
from nearcal.recalibration import SMOOTHINGS
from nearcal.recalibration.neighborhoods import smoothing_code

SEEDS = st.integers(0, 2**32)


@kernel
def add(terms, count):
    return sum_in_any_order(terms, count, largest_magnitude(terms))


@settings(deadline=None)
@given(SEEDS, st.integers(1, 3000), st.sampled_from([-308, -300, -20, 0, 20, 280, 291]))  # to 1e300
def test_sums_are_near_the_exact_one_and_alike_in_every_order(seed, n, exponent):
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=n) * 10.0 ** (exponent + rng.uniform(-8, 8, size=n))
    total, exact = add(terms, n), math.fsum(terms)
    # each term is cut off after a unit of 2^-61 of at most 4 n largest; then both totals are rounded
    assert abs(total - exact) <= np.abs(terms).max() * (4 * n * n * 2.0**-61) + abs(exact) * 2.0**-52 + 1e-323
    assert all(add(rng.permutation(terms), n) == total for _ in range(3))
    assert add(np.concatenate([terms, np.zeros(100)]), n) == total  # zeros beside them change nothing


def test_the_sum_of_a_thousand_terms_is_as_good_as_any_of_doubles():
    terms = np.random.default_rng(1).random(1000)
    assert add(terms, 1000) == pytest.approx(math.fsum(terms), rel=4e-16)


def test_what_is_infinite_stays_so():
    assert add(np.array([1.0, np.inf, -3.0]), 3) == np.inf
    assert np.isnan(add(np.array([np.inf, -np.inf]), 2))
    assert np.isnan(add(np.array([np.nan, 1.0]), 2))
    assert add(np.array([1e308, 1e308]), 2) == np.inf
    assert add(np.array([1e308, -1e308]), 2) == 0
    assert add(np.zeros(3), 3) == 0.0


@settings(deadline=None, max_examples=50)
@given(SEEDS, st.integers(1, 1200), st.sampled_from(SMOOTHINGS), st.booleans())
def test_weights_and_moments_do_not_depend_on_the_order_of_neighbours(seed, k, smoothing, have_weights):
    rng = np.random.default_rng(seed)
    distances, z, shares = rng.random(k) ** 3, rng.standard_t(2, size=k), rng.random(k) + 0.01
    indptr, radius, kind = np.array([0, k]), np.array([distances.max()]), smoothing_code(smoothing)

    def ask(order):
        if have_weights:
            found = weights.weigh_points(indptr, distances[order], shares[order], radius, kind)
        else:
            found = weights.weigh(indptr, distances[order], radius, kind)
        moments = summary.weighted_moments(indptr, order.astype(np.int32), found[0], z)
        cumulated = np.cumsum(found[0][np.argsort(order)])  # in the order of the index
        backwards = cumulated[-1] - np.cumsum(found[0][np.argsort(order)][::-1])[::-1]
        np.testing.assert_array_equal(cumulated[:-1], backwards[1:])  # no sum of weights rounds
        return [found[0][np.argsort(order)], found[1], found[2], *moments, cumulated]

    first = ask(np.arange(k))
    assert first[0].sum() == pytest.approx(1.0, abs=1e-12)
    for _ in range(2):
        for one, other in zip(first, ask(rng.permutation(k)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_neighbour_that_counts_keeps_a_weight_however_light():
    """The nearest has nearly all of the weight; one at almost the radius keeps what is more than nothing."""
    distances = np.array([0.0, np.nextafter(1.0, 0.0), 1.0])
    found = weights.weigh(np.array([0, 3]), distances, np.ones(1), weights.BIWEIGHT)[0]
    np.testing.assert_array_equal(found > 0, [True, True, False])
