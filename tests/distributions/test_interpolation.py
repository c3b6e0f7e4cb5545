"""Curves through draws: which draws they go through, at which probabilities, and what they are between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import nearcal as nc
from nearcal.distributions.interpolation import Interpolated, count_not_above, sort_weighted, through_draws

RNG = np.random.default_rng(0)


def knots_of(curve, row=0):
    """Return the different knots of a row: probabilities and values."""
    scores = np.broadcast_to(curve.scores, curve.values.shape)[row]
    return np.unique(np.stack([ndtr(scores), curve.values[row]]), axis=1)


def equal(n, rows=1):
    return np.full((rows, n), 1 / n)


# ---- thinning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 40, 100, 1000, 10_000])
def test_some_two_root_n_draws_are_knots_the_outermost_among_them(n):
    draws = np.sort(RNG.normal(size=(1, n)))
    p, values = knots_of(through_draws(draws, equal(n)))
    assert values[0] == draws[0, 0]
    assert values[-1] == draws[0, -1]
    assert np.isin(values, draws).all()
    most = min(n, 2 * int(np.ceil(np.sqrt(n))))
    assert 0.6 * most <= len(values) <= most
    ranks = np.searchsorted(draws[0], values) + 1
    np.testing.assert_allclose(p, (ranks - 0.5) / n, rtol=1e-10)


def test_knots_are_evenly_spaced_on_the_scale_of_scores():
    n = 40_000
    p, _ = knots_of(through_draws(np.sort(RNG.normal(size=(1, n))), equal(n)))
    steps = np.diff(ndtri(p))
    inside = slice(120, -120)  # within 1.7 deviations, where draws lie 80 times as close as knots
    assert steps[inside].max() < 1.05 * steps[inside].min()


@pytest.mark.parametrize("n", [5, 30, 1000])
def test_with_a_size_draws_stand_where_one_more_falls_below_with_that_probability(n):
    draws = np.sort(RNG.normal(size=(1, n)))
    p, values = knots_of(through_draws(draws, equal(n), np.array([float(n)])))
    ranks = np.searchsorted(draws[0], values) + 1
    np.testing.assert_allclose(p, ranks / (n + 1), rtol=1e-10)


def test_the_curve_of_normal_draws_is_nearly_normal():
    n = 10_000
    draws = ndtri((np.arange(n) + 0.5) / n)[np.newaxis]
    curve = through_draws(draws, equal(n))
    z = np.linspace(-6, 6, 25)[np.newaxis]
    np.testing.assert_allclose(curve.from_z(z), z, atol=1e-9)
    np.testing.assert_allclose(np.array(curve.moments()).ravel(), [0.0, 1.0], atol=1e-9)


# ---- weights --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 300), predictive=st.booleans(), ties=st.booleans())
def test_a_knot_stands_in_the_middle_of_its_share(seed, n, predictive, ties):
    rng = np.random.default_rng(seed)
    draws, weights = rng.normal(size=(1, n)), rng.uniform(size=(1, n)) * (rng.uniform(size=(1, n)) < 0.7)
    if ties:
        draws = np.round(draws)
    weights[0, :2] += 0.1
    weights /= weights.sum()
    draws, weights = sort_weighted(draws, weights)
    size = 1 / (weights**2).sum() if predictive else None
    curve = through_draws(draws, weights, None if size is None else np.array([size]))
    counts = weights[0] > 0
    below = (np.cumsum(weights[0]) - weights[0] / 2)[counts]
    if predictive:
        below = (size * below + 0.5) / (size + 1)
    p, values = ndtr(curve.scores[0]), curve.values[0]
    place = np.abs(below[:, None] - p).argmin(axis=0)
    np.testing.assert_allclose(p, below[place], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(values, draws[0][counts][place])
    assert {values[0], values[-1]} == {draws[0][counts][0], draws[0][counts][-1]}
    assert (np.diff(values) >= 0).all()
    assert (np.diff(p) >= 0).all()


def test_draws_of_weight_zero_change_no_bit():
    draws, weights = np.sort(RNG.normal(size=(1, 50))), RNG.uniform(size=(1, 50))
    weights /= weights.sum()
    longer = sort_weighted(np.pad(draws, ((0, 0), (0, 20)), constant_values=0.1), np.pad(weights, ((0, 0), (0, 20))))
    for size in (None, np.array([17.3])):
        plain, padded = through_draws(draws, weights, size), through_draws(*longer, size)
        z = np.linspace(-6, 6, 49)[np.newaxis]
        np.testing.assert_array_equal(padded.from_z(z), plain.from_z(z))
        np.testing.assert_array_equal(padded.z(z), plain.z(z))
        np.testing.assert_array_equal(padded.logpdf(z), plain.logpdf(z))
        np.testing.assert_array_equal(padded.moments(), plain.moments())


def test_a_row_of_few_draws_that_count_beside_one_of_many():
    draws, weights = np.sort(RNG.normal(size=(2, 900))), np.full((2, 900), 1 / 900)
    weights[1] = 0.0
    weights[1, [100, 400, 800]] = [0.2, 0.5, 0.3]
    draws, weights = sort_weighted(draws, weights)
    both, alone = through_draws(draws, weights), through_draws(draws[1:], weights[1:])
    z = np.linspace(-6, 6, 49)
    np.testing.assert_array_equal(both.from_z(np.tile(z, (2, 1)))[1], alone.from_z(z[np.newaxis])[0])
    np.testing.assert_array_equal(np.array(both.moments())[:, 1], np.array(alone.moments())[:, 0])
    np.testing.assert_allclose(knots_of(both, 1)[0], [0.1, 0.45, 0.85], rtol=1e-12)


# ---- ties and symmetry ----------------------------------------------------------------------------------------------


def test_equal_draws_are_an_atom_of_their_share():
    draws = np.array([[0.0, 1.0, 1.0, 1.0, 2.0]])
    curve = through_draws(draws, equal(5))
    assert curve.has_atoms()
    d = nc.Samples(draws)
    # from the middle of the first of them to the middle of the last
    np.testing.assert_allclose(d.cdf(1.0) - d.cdf_left(1.0), 0.4, rtol=1e-9)
    np.testing.assert_array_equal(d.ppf([0.31, 0.5, 0.69]), 1.0)


@pytest.mark.parametrize("predictive", [False, True])
@pytest.mark.parametrize("n", [2, 3, 7, 30, 501])
def test_mirrored_draws_make_the_mirrored_curve(n, predictive):
    draws, weights = np.sort(RNG.gamma(2.0, size=(1, n))), RNG.uniform(size=(1, n))
    weights /= weights.sum()
    size = np.array([n / 2]) if predictive else None
    curve = through_draws(draws, weights, size)
    mirrored = through_draws(-draws[:, ::-1], weights[:, ::-1].copy(), size)
    z = np.linspace(-8, 8, 33)[np.newaxis]
    # but for which of two draws at the same distance is a knot, which random weights leave no room for
    np.testing.assert_allclose(mirrored.from_z(-z), -curve.from_z(z), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [2, 8, 32, 500])  # an even number of knots: an odd one has a middle among even draws
def test_symmetric_draws_have_a_symmetric_curve_to_the_last_digits(n):
    half = np.sort(RNG.exponential(size=n))
    draws = np.concatenate([-half[::-1], half])[np.newaxis]
    curve = through_draws(draws, equal(2 * n))
    z = np.linspace(0, 8, 17)[np.newaxis]
    np.testing.assert_allclose(curve.from_z(-z), -curve.from_z(z), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(curve.moments()[0], 0.0, atol=1e-12)


# ---- the curve itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normal_tails", [True, False])
def test_moments_are_those_of_a_fine_sample(normal_tails):
    scores, values = np.array([[-1.5, -0.2, 0.1, 2.0]]), np.array([[-4.0, 0.0, 0.0, 9.0], [1.0, 2.0, 3.0, 40.0]])
    curve = Interpolated(scores, values, normal_tails=normal_tails)
    sample = curve.from_z(ndtri((np.arange(400_000) + 0.5) / 400_000)[np.newaxis])
    mean, std = curve.moments()
    np.testing.assert_allclose(mean, sample.mean(axis=1), rtol=1e-4)
    np.testing.assert_allclose(std, sample.std(axis=1), rtol=5e-4)


def test_a_quadrature_of_the_curve_is_exact_for_smooth_functions():
    curve = through_draws(np.sort(RNG.standard_t(5, size=(3, 60))), equal(60, 3))
    values, weights = curve.rule()
    np.testing.assert_allclose(np.broadcast_to(weights, values.shape).sum(axis=1), 1.0, rtol=1e-11)
    mean, std = curve.moments()
    found = (weights * values).sum(axis=1)
    np.testing.assert_allclose(found, mean, atol=1e-10)
    np.testing.assert_allclose((weights * (values - found[:, None]) ** 2).sum(axis=1), std**2, rtol=1e-9)


def test_weights_of_a_quadrature_sum_to_one_whatever_the_knots():
    for scores in ([-1.0, 1.0], [-0.01, 0.01], [-8.0, 5.3], [2.0, 7.0]):
        _, weights = Interpolated(np.array([scores]), np.array([[0.0, 1.0]]), normal_tails=True).rule()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-10)


def test_moments_where_knots_all_but_coincide():
    """A step between two knots an ulp apart is an atomic distribution, but for its tails."""
    score, beside = 0.3, np.nextafter(0.3, 1.0)
    curve = Interpolated(np.array([[-5.0, score, beside, 5.0]]), np.array([[0.0, 0.0, 1.0, 1.0]]), normal_tails=False)
    mean, std = curve.moments()
    np.testing.assert_allclose(mean, ndtr(-score), rtol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(ndtr(score) * ndtr(-score)), rtol=1e-12)


def test_moments_where_knots_lie_far_from_all_probability():
    """An outlier at a score of 1e10: the middle between it and the base's own knots was taken for a center."""
    rng = np.random.default_rng(2)
    base = nc.Samples(rng.normal(size=(1, 90)))
    one = nc.LocalRecalibrator(k=1, quantile_rule="interpolated").fit(nc.Normal([0.0], 1.0), [1e10], [0.0])
    out = one.recalibrate(base, [0.0])
    slope = base.curve.slope_above[0, 0]  # where all of N(1e10, 1) is read
    np.testing.assert_allclose(out.std(), slope, rtol=1e-5)
    np.testing.assert_allclose(out.mean(), out.median(), rtol=1e-12)


def beside(knots, count=6):
    """Return the numbers next to knots, in increasing order."""
    steps = np.arange(-count, count + 1)
    return np.sort(
        (knots[..., np.newaxis] + steps * np.spacing(np.abs(knots))[..., np.newaxis]).reshape(len(knots), -1)
    )


def test_rounding_lifts_no_value_above_the_next_knot():
    curve = Interpolated(np.sort(RNG.normal(size=(300, 7))), np.sort(RNG.normal(size=(300, 7))), normal_tails=True)
    for ask, knots in ((curve.from_z, curve.scores), (curve.z, curve.values)):
        assert (np.diff(ask(beside(knots)), axis=1) >= 0).all()


def test_a_slope_too_large_for_a_number_still_leads_from_knot_to_knot():
    near = np.nextafter(0.3, 1.0)
    curve = Interpolated(
        np.array([[-1.0, 0.3, near, 1.0]]), np.array([[-1e300, -1e300, 1e300, 1e300]]), normal_tails=True
    )
    np.testing.assert_array_equal(curve.from_z(np.array([[0.3, near, 1.0]])), [[-1e300, 1e300, 1e300]])


def test_a_slope_too_small_for_a_number_is_none_of_another_unit():
    """Where a row is a single value the slope of its tails is 1: next to the smallest numbers that would be a leap."""
    curve = Interpolated(np.array([[-2.0, 2.0]]), np.array([[0.0, 5e-324]]), normal_tails=True)
    np.testing.assert_allclose(curve.from_z(np.array([[-5.0, 5.0]])), 0.0, atol=1e-321)


def test_affine_curves_and_taken_rows():
    curve = through_draws(np.sort(RNG.normal(size=(4, 20))), equal(20, 4))
    z = np.tile(np.linspace(-5, 5, 21), (4, 1))
    loc, scale = RNG.normal(size=4), RNG.uniform(1, 2, size=4)
    np.testing.assert_allclose(
        curve.affine(loc, scale).from_z(z), loc[:, None] + scale[:, None] * curve.from_z(z), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(curve.take(np.array([2, 0])).from_z(z[:2]), curve.from_z(z)[[2, 0]])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("normal_tails", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_many_values_are_those_of_few_at_a_time_to_the_bit(shared, normal_tails, is_sorted):
    scores = np.sort(np.round(RNG.normal(size=(1 if shared else 7, 20)), 1))  # some stand there several times
    curve = Interpolated(scores, np.sort(RNG.normal(size=(7, 20))), normal_tails=normal_tails)
    z = np.concatenate([RNG.normal(scale=2, size=(7, 1000)), np.repeat(scores, 7 // len(scores), axis=0)], axis=1)
    z = np.sort(z) if is_sorted else z
    few = [curve.from_z(part) for part in np.array_split(z, 20, axis=1)]
    np.testing.assert_array_equal(curve.from_z(z), np.concatenate(few, axis=1))


def test_one_curve_and_one_row_of_scores_for_many_rows():
    curve, z = through_draws(np.sort(RNG.normal(size=(1, 20))), equal(20)), RNG.normal(size=(1, 100))
    np.testing.assert_array_equal(curve.repeated(100).from_z(z), np.repeat(curve.from_z(z), 100, axis=0))


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 4), width=st.integers(1, 40))
def test_count_not_above_is_searchsorted_row_by_row(seed, rows, width):
    rng = np.random.default_rng(seed)
    table, values = np.sort(rng.integers(0, 9, size=(rows, width)), axis=1), rng.integers(-1, 10, size=(rows, 6))
    expected = [np.searchsorted(row, own, side="right") for row, own in zip(table, values, strict=True)]
    np.testing.assert_array_equal(count_not_above(table.astype(float), values.astype(float)), expected)


def test_lines_that_a_value_is_not_on_may_be_as_steep_as_they_come():
    line = Interpolated(np.array([[-1.0, 0.0, 1.0]]), np.array([[0.0, 5e-324, 1e-323]]), normal_tails=False)
    np.testing.assert_array_equal(line.z(np.array([[-1e300, 0.0, 1e300]])), [[-np.inf, -1.0, np.inf]])
