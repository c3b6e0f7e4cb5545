"""The compiled kernels equal their slow twins, for ties, zero weights, zero distances, k = 1 and k = n."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from nearcal.kernels import _quantiles, _summary, _weights
from tests import reference

LEVELS = np.array([0.0, 1e-15, 0.025, 0.3, 0.5, 0.731, 0.975, 1 - 1e-15, 1.0])


@st.composite
def neighborhoods(draw):
    """Neighbourhoods in CSR form over scores with ties, some weights zero."""
    n = draw(st.integers(1, 1500))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.normal(size=n)
    if draw(st.booleans()):
        scores = np.round(scores)  # ties
    lengths = rng.integers(1, n + 1, size=draw(st.integers(1, 4)))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([rng.permutation(n)[:length] for length in lengths]).astype(np.int32)
    weights = rng.uniform(size=len(indices)) * (rng.uniform(size=len(indices)) < draw(st.sampled_from([0.3, 1.0])))
    if draw(st.booleans()):
        weights = np.ones(len(indices))  # cumulated weights that meet levels exactly
    for a, b in itertools.pairwise(indptr):
        weights[a] += 1e-3
        weights[a:b] /= weights[a:b].sum()
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(n, dtype=np.int32)
    ranks[order] = np.arange(n)
    return scores, ranks, indptr, indices, weights


def each(indptr):
    return enumerate(map(slice, indptr, indptr[1:]))


@settings(deadline=None)
@given(case=neighborhoods())
def test_quantiles(case):
    scores, ranks, indptr, indices, weights = case
    which = np.arange(len(indptr) - 1)
    levels = np.tile(LEVELS, (len(which), 1))
    found = _quantiles.quantile_ranks(
        indptr, indices, weights, ranks, which, levels, np.zeros(levels.shape, dtype=bool)
    )
    for row, part in each(indptr):
        expected = [reference.weighted_quantile(scores[indices[part]], weights[part], p) for p in LEVELS]
        np.testing.assert_array_equal(np.sort(scores)[found[row]], expected)


@settings(deadline=None)
@given(case=neighborhoods(), own=st.floats(0, 1))
def test_conservative_quantiles(case, own):
    scores, ranks, indptr, indices, weights = case
    which = np.arange(len(indptr) - 1)
    p = np.tile([0.01, 0.05, 0.31, 0.5, 0.77, 0.95, 0.999], (len(which), 1))
    from_above = p < 0.5
    levels = np.where(from_above, p - (1 - p) * own, p * (1 + own))
    found = _quantiles.quantile_ranks(indptr, indices, weights, ranks, which, levels, from_above)
    for row, part in each(indptr):
        sample = scores[indices[part]], weights[part]
        expected = [reference.conservative_quantile(*sample, own, level) for level in p[row]]
        np.testing.assert_array_equal(np.sort(scores)[found[row]], expected)


def test_rows_without_and_rows_that_share_a_neighbourhood():
    scores = np.array([3.0, 1.0, 2.0])
    ranks = np.array([2, 0, 1], dtype=np.int32)
    indptr, indices, weights = np.array([0, 3]), np.arange(3, dtype=np.int32), np.full(3, 1 / 3)
    which = np.array([0, -1, 0])
    levels = np.array([[0.1], [0.5], [0.9]])
    found = _quantiles.quantile_ranks(indptr, indices, weights, ranks, which, levels, np.zeros((3, 1), dtype=bool))
    np.testing.assert_array_equal(found, [[0], [-1], [2]])
    below, above = _summary.weight_below(indptr, indices, weights, ranks, which, np.array([[1], [1], [3]]))
    np.testing.assert_allclose(below, [[1 / 3], [0], [1]])
    np.testing.assert_allclose(above, [[2 / 3], [0], [0]])
    assert scores[np.argsort(ranks)[found[2, 0]]] == 3.0


@settings(deadline=None)
@given(case=neighborhoods())
def test_moments_tail_weights_and_density(case):
    scores, ranks, indptr, indices, weights = case
    which = np.arange(len(indptr) - 1)
    mean, variance = _summary.weighted_moments(indptr, indices, weights, scores)
    threshold = len(scores) // 3
    below, above = _summary.weight_below(
        indptr, indices, weights, ranks, which, np.full((len(which), 1), threshold, dtype=np.int64)
    )
    at = np.tile([-50.0, -0.3, 0.0, 60.0], (len(which), 1))
    log_density = _summary.log_density(indptr, indices, weights, scores, which, at, np.full(len(which), 0.2))
    for row, part in each(indptr):
        s, w = scores[indices[part]], weights[part]
        np.testing.assert_allclose((mean[row], variance[row]), reference.weighted_moments(s, w), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(below[row], w[ranks[indices[part]] < threshold].sum(), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(below[row] + above[row], 1.0, rtol=1e-12)
        with np.errstate(divide="ignore"):
            expected = logsumexp(norm.logpdf(at[row][:, None], s, 0.2) + np.log(w), axis=1)
        np.testing.assert_allclose(log_density[row], expected, rtol=1e-12, atol=1e-12)


def test_row_moments_ignore_padding_to_the_last_bit():
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(5, 333)), rng.uniform(size=(5, 333))
    padded = np.pad(values, ((0, 0), (0, 100)), constant_values=7.0), np.pad(weights, ((0, 0), (0, 100)))
    for plain, long in zip(_summary.row_moments(values, weights), _summary.row_moments(*padded), strict=True):
        np.testing.assert_array_equal(plain, long)


@settings(deadline=None)
@given(
    distances=st.lists(st.floats(0, 10), min_size=1, max_size=30),
    smoothing=st.sampled_from(sorted(reference.KERNELS)),
    bandwidth=st.sampled_from(["farthest", "radius"]),
)
def test_weights(distances, smoothing, bandwidth):
    distances = np.array(distances)
    indptr = np.array([0, 0, len(distances)])  # an empty neighbourhood first
    u = np.full(2, distances.max() if bandwidth == "farthest" else 10.0)
    weights, effective, own = _weights.weigh(indptr, distances, u, getattr(_weights, smoothing.upper()))
    expected = reference.kernel_weights(distances, u[1], smoothing)
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(effective, [0.0, 1 / (expected**2).sum()], rtol=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = reference.KERNELS[smoothing](distances / u[1]).sum() if u[1] > 0 else len(distances)
    np.testing.assert_allclose(own[1], 1 / total if total > 0 else 1 / len(distances), rtol=1e-9)


def test_moments_ignore_what_has_weight_zero_however_large():
    scores, weights = np.array([1.0, np.inf, 3.0, 1e300]), np.array([0.5, 0.0, 0.5, 0.0])
    mean, variance = _summary.weighted_moments(np.array([0, 4]), np.arange(4, dtype=np.int32), weights, scores)
    assert (mean[0], variance[0]) == (2.0, 1.0)
