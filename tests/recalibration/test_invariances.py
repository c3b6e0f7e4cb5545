"""What must not change the answer, as property tests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearcal as nc
from nearcal.recalibration import QUANTILE_RULES

M = 23
OPTIONS = [
    {"k": 40},
    {"k": 40, "smoothing": "uniform", "quantile_rule": "conservative"},
    {"k": 25, "quantile_rule": "interpolated"},
    {"k": 25, "quantile_rule": "predictive"},
    {"k": 30, "eps": 0.7},
    {"k": 30, "search": "brute"},
    {"k": 30, "metric": "manhattan"},
    {"radius": 0.7},
    {"radius": nc.Radius(0.5, thin="global")},
    {"radius": nc.Radius(0.5, thin="base"), "quantile_rule": "interpolated"},
    {"k": 40, "quantile_rule": "predictive", "corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())},
]
options = pytest.mark.parametrize("option", OPTIONS, ids=str)
seeds = st.integers(0, 2**32 - 1)


def make(seed, n=150, d=3):
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(n, d)), rng.normal(size=(M, d))
    y = rng.gamma(2.0, np.exp(x[:, 0]))
    return (nc.Gamma(rng.uniform(1, 3, n), 1.0), y, x), (nc.Gamma(rng.uniform(1, 3, M), 2.0), new)


def answers(cal, new, **option):
    out = nc.LocalRecalibrator(**option).fit(*cal).recalibrate(*new)
    return np.column_stack(
        [
            out.mean(),
            out.std(),
            out.ppf([0.05, 0.5, 0.9]),
            out.cdf(1.0),
            out.logpdf(1.0) if out.has_density else out.cdf_left(1.0),
            out.effective_size,
            out.radius,
        ]
    )


@options
@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_order_of_the_calibration_set(option, seed):
    (dist, y, x), new = make(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    before, after = answers((dist, y, x), new, **option), answers((dist[order], y[order], x[order]), new, **option)
    np.testing.assert_allclose(after, before, rtol=1e-11, atol=1e-11)


@options
@settings(max_examples=5, deadline=None)
@given(seed=seeds, cuts=st.lists(st.integers(1, M - 1), max_size=4, unique=True))
def test_splitting_the_new_rows(option, seed, cuts):
    cal, (dist, x) = make(seed)
    whole = answers(cal, (dist, x), **option)
    parts = [
        answers(cal, (dist[a:b], x[a:b]), **option) for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), M], strict=True)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@options
def test_threads_and_chunks_give_identical_bits(option, monkeypatch):
    monkeypatch.setattr("nearcal.recalibration.workers._LITTLE", 0)  # so that little work is shared out too
    pairs = nc.Workers.pairs_per_chunk
    monkeypatch.setattr(nc.Workers, "pairs_per_chunk", lambda self: min(pairs(self), self.memory // 2**10))
    assert len(nc.Workers(threads=1, memory=2**20).chunks(80, 25)) > 1
    (dist, y, x), _ = make(1, n=800)
    rng = np.random.default_rng(2)
    new = nc.Gamma(rng.uniform(1, 3, 80), 2.0), rng.normal(size=(80, 3))
    one = answers((dist, y, x), new, **option, workers=nc.Workers(threads=1))
    for extra in ({"threads": 7}, {"threads": 1, "memory": 2**20}, {"threads": 3, "memory": 2**20}):
        np.testing.assert_array_equal(answers((dist, y, x), new, **option, workers=nc.Workers(**extra)), one)


@settings(max_examples=10, deadline=None)
@given(seed=seeds, factor=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_scaling_all_spaces(seed, factor, shift):
    (dist, y, x), (dist_new, x_new) = make(seed)
    before = answers((dist, y, x), (dist_new, x_new), k=40)
    after = answers((dist, y, factor * x + shift), (dist_new, factor * x_new + shift), k=40)
    np.testing.assert_allclose(after[:, :-1], before[:, :-1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(after[:, -1], factor * before[:, -1], rtol=1e-6)


@pytest.mark.parametrize("scaling", ["standard", "whiten"])
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_scaling_options_undo_units(scaling, seed):
    (dist, y, x), (dist_new, x_new) = make(seed)
    units = np.array([1e-3, 1.0, 1e4])
    before = answers((dist, y, x), (dist_new, x_new), k=40, scaling=scaling)
    after = answers((dist, y, x * units), (dist_new, x_new * units), k=40, scaling=scaling)
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_whitening_undoes_any_linear_map(seed):
    (dist, y, x), (dist_new, x_new) = make(seed)
    mix = np.random.default_rng(seed).normal(size=(3, 3)) + 3 * np.eye(3)
    before = answers((dist, y, x), (dist_new, x_new), k=40, scaling="whiten")
    after = answers((dist, y, x @ mix), (dist_new, x_new @ mix), k=40, scaling="whiten")
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_quantiles_follow_monotone_maps_of_the_response(rule, seed):
    rng = np.random.default_rng(seed)
    x, x_new = rng.normal(size=(200, 2)), rng.normal(size=(M, 2))
    mu, sigma, mu_new = x[:, 0], 0.5, x_new[:, 0]
    log_y = rng.normal(mu, 0.2 + np.abs(x[:, 1]))
    p = [0.01, 0.3, 0.5, 0.8, 0.99]
    rc = nc.LocalRecalibrator(k=50, quantile_rule=rule)
    plain = rc.fit(nc.Normal(mu, sigma), log_y, x).recalibrate(nc.Normal(mu_new, sigma), x_new).ppf(p)
    mapped = rc.fit(nc.LogNormal(mu, sigma), np.exp(log_y), x).recalibrate(nc.LogNormal(mu_new, sigma), x_new).ppf(p)
    np.testing.assert_allclose(mapped, np.exp(plain), rtol=1e-9)


def test_calibrated_in_unchanged_out():
    """A correct model's recalibrated quantiles differ from its own by sampling error only.

    The scores of a correct model are standard Normal whatever the neighbourhood. The weighted empirical cdf at the true
    p-quantile has variance p (1 - p) / n_eff, so the recalibrated quantile's score differs from Φ⁻¹(p) by at most
    about c · sqrt(p (1 - p) / n_eff) / φ(Φ⁻¹(p)). Over 200 rows × 3 levels, c = 5 is exceeded with probability
    below 600 · 6e-7 = 4e-4 if rows were independent; neighbouring rows share points, which only lowers that.
    """
    rng = np.random.default_rng(12)
    x, x_new = rng.uniform(size=(20_000, 2)), rng.uniform(size=(200, 2))
    d, d_new = nc.Normal(x[:, 0], 1 + x[:, 1]), nc.Normal(x_new[:, 0], 1 + x_new[:, 1])
    out = nc.LocalRecalibrator(k=1000).fit(d, d.sample(1, rng=3), x).recalibrate(d_new, x_new)
    p = np.array([0.1, 0.5, 0.9])
    z = d_new.z(out.ppf(p))
    density = nc.Normal(0.0, 1.0).pdf(nc.Normal(0.0, 1.0).ppf(p))
    error = np.sqrt(p * (1 - p) / out.effective_size[:, None]) / density
    assert (np.abs(z - nc.Normal(0.0, 1.0).ppf(p)) < 5 * error).all()
