"""Series on panels, against numpy's Clenshaw recurrence."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import chebval

from nearcal.kernels.series import evaluate_series
from tests import reference


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 4), panels=st.integers(1, 3), terms=st.integers(1, 20),
    width=st.integers(1, 40),
)  # fmt: skip
def test_the_series_of_each_scores_panel(seed, rows, panels, terms, width):
    rng = np.random.default_rng(seed)
    series, panel = rng.normal(size=(rows, panels, terms)), rng.integers(0, panels, size=(rows, width))
    x, values = rng.uniform(-1, 1, size=(rows, width)), np.empty((rows, width))
    evaluate_series(series, panel, x, values)
    expected = reference.chebyshev_series(series, panel, x)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(values[0, 0], chebval(x[0, 0], series[0, panel[0, 0]]), rtol=1e-12, atol=1e-12)


def test_a_score_does_not_depend_on_those_beside_it():
    rng = np.random.default_rng(1)
    series, panel, x = rng.normal(size=(3, 2, 20)), rng.integers(0, 2, size=(3, 77)), rng.uniform(-1, 1, size=(3, 77))
    whole = np.empty((3, 77))
    evaluate_series(series, panel, x, whole)
    for width in (1, 2, 7, 33):
        part = np.empty((3, width))
        evaluate_series(series, panel[:, 5 : 5 + width].copy(), x[:, 5 : 5 + width].copy(), part)
        np.testing.assert_array_equal(part, whole[:, 5 : 5 + width])


def test_what_is_no_number_stays_alone():
    series, x, values = np.ones((1, 1, 5)), np.array([[0.5, np.nan, -0.5]]), np.empty((1, 3))
    evaluate_series(series, np.zeros((1, 3), dtype=np.intp), x, values)
    np.testing.assert_array_equal(np.isnan(values), [[False, True, False]])
