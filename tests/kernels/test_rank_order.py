"""Neighbours in the order of the ranks of their scores."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels.rank_order import places_by_rank


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 700), min_size=1, max_size=6),
    st.sampled_from([0, 1, 300, 2**18, 2**20]),
)
def test_order_is_that_of_a_sort(seed, lengths, spread):
    """Neighbourhoods of any length, also of none, among a few points or many."""
    rng = np.random.default_rng(seed)
    n = max(lengths) + spread + 1
    ranks = rng.permutation(n).astype(np.int32)
    rows = [rng.choice(n, size=length, replace=False, shuffle=False) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = places_by_rank(indptr, np.concatenate(rows).astype(np.int32), ranks)
    expected = [start + np.argsort(ranks[row]) for start, row in zip(indptr, rows, strict=False)]
    np.testing.assert_array_equal(places, np.concatenate(expected))
