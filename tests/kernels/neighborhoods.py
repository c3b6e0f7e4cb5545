"""Neighbourhoods in CSR form to try kernels on."""

import itertools

import numpy as np
from hypothesis import strategies as st


@st.composite
def neighborhoods(draw):
    """Neighbourhoods over scores with ties, some weights zero: scores, ranks, indptr, indices, weights."""
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
    return scores, rank(scores), indptr, indices, weights


def rank(scores):
    """Return the place of each score among all, equal ones in their order."""
    ranks = np.empty(len(scores), dtype=np.int32)
    ranks[np.argsort(scores, kind="stable")] = np.arange(len(scores))
    return ranks


def each(indptr):
    """Yield the number and the entries of every neighbourhood."""
    return enumerate(map(slice, indptr, indptr[1:]))
