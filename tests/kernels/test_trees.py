"""The tree behind relevance equals its slow twin."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import trees
from tests import reference


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), least=st.integers(1, 6), ties=st.booleans())
def test_a_tree_explains_what_its_slow_twin_explains(seed, least, ties):
    rng = np.random.default_rng(seed)
    n, d = 80, 3
    columns = rng.normal(size=(d, n))
    if ties:
        columns = np.round(columns)
    targets = np.stack([columns[0] + rng.normal(size=n), np.abs(columns[1]) + rng.normal(size=n)], axis=1)
    targets = np.round(8 * targets)  # exact sums: splits that part rows alike must tie in both
    rows = rng.permutation(n)
    draws = rng.random((30, 4, 2))
    expected = reference.tree_relevance(columns, targets, rows[:40], rows[40:], draws, least)
    found = np.zeros(d)
    trees.tree_relevance(columns, targets, rows[:40].copy(), rows[40:].copy(), draws, least, found)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
