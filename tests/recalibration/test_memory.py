"""Working memory is set by the budget, not by the rows, the questions or the shape of the neighbourhoods."""

import tracemalloc

import numpy as np
import pytest

import nearcal as nc

BUDGET = 2**22


def peak_of(question):
    tracemalloc.start()
    question()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_many_questions_a_row():
    y = np.linspace(-2, 2, 500)
    rc = nc.LocalRecalibrator(k=5, memory=BUDGET, threads=1).fit(nc.Normal(np.zeros(500), 1.0), y, y)
    out = rc.recalibrate(nc.Normal(np.zeros(4000), 1.0), np.linspace(-2, 2, 4000))
    at = np.tile(np.linspace(-2, 2, 300), (4000, 1))
    out[:2].cdf(at[:2])
    # the result twice (parts, and joined; log-tails come in pairs), and the budget
    assert peak_of(lambda: out.cdf(at)) < 5 * at.nbytes + 2 * BUDGET
    assert peak_of(lambda: out.ppf(np.linspace(0, 1, 300))) < 2 * at.nbytes + 2 * BUDGET


def test_many_draws_a_row():
    base = nc.Samples(np.random.default_rng(0).normal(size=(4000, 300)))
    rc = nc.GlobalRecalibrator(memory=BUDGET, threads=2).fit(base, np.zeros(4000))
    out = rc.recalibrate(base)
    out[:2].ppf(0.5)
    assert peak_of(lambda: out.ppf(0.5)) < 2 * BUDGET


@pytest.mark.parametrize("base", [nc.Normal(np.zeros(1000), 1.0), nc.Gamma(np.linspace(1, 2, 1000), 1.0)], ids=repr)
@pytest.mark.parametrize("thin", ["global", "base", "nearest"])
def test_one_long_neighbourhood_among_short_ones(base, thin):
    """Rows are as long as the longest beside them: with ``thin="global"`` that is the whole calibration set."""
    n = 20_000
    x = np.linspace(0, 1, n)
    options = {"radius": 0.001, "min_neighbors": 5, "thin": thin, "quantile_rule": "interpolated"}
    rc = nc.LocalRecalibrator(**options, memory=BUDGET, threads=1).fit(nc.Normal(np.zeros(n), 1.0), np.sin(40 * x), x)
    new = np.linspace(0, 1, 1000)
    new[[0, 500, 501]] = 9.0, 7.0, 8.0
    out = rc.recalibrate(base, new)
    alone = [out[row].ppf([0.1, 0.9])[0] for row in (0, 1, 499, 500, 501, 502, 999)]
    assert peak_of(lambda: out.ppf([0.1, 0.9])) < 8 * BUDGET  # a neighbourhood of all points takes 20 000 · 64 bytes
    np.testing.assert_array_equal(out.ppf([0.1, 0.9])[[0, 1, 499, 500, 501, 502, 999]], alone)
    np.testing.assert_allclose(out.mean()[[0, 1, 500]], [out[row].mean()[0] for row in (0, 1, 500)], rtol=1e-12)
