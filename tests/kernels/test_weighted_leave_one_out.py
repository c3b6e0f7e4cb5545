"""Leave-one-out scores of neighbourhoods of a weight equal their slow twin."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import weighted_leave_one_out as kernels
from nearcal.kernels import weights
from tests import reference

SMOOTHINGS = ("epanechnikov", "uniform", "gaussian")
KINDS = np.array([getattr(weights, name.upper()) for name in SMOOTHINGS])


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ties=st.booleans())
def test_crps_of_neighbourhoods_of_a_weight(seed, ties):
    rng = np.random.default_rng(seed)
    lengths = np.append(rng.integers(1, 40, size=4), 0)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    distances, values = np.zeros(indptr[-1]), np.zeros((5, 40))
    order, shares = np.zeros(indptr[-1], dtype=np.int64), rng.gamma(1.0, size=indptr[-1]) + 0.01
    samples = []
    for row, length in enumerate(lengths):
        part = slice(indptr[row], indptr[row + 1])
        far = rng.integers(0, 4, size=length).astype(float) if ties else rng.uniform(size=length)
        distances[part] = np.sort(far)
        samples.append(rng.normal(size=length))
        order[part] = np.argsort(samples[-1])
        values[row, :length] = np.sort(samples[-1])
    y, sizes = rng.normal(size=5), np.array([np.inf, 8.0, 2.5, 0.4])
    crps = np.empty((5, len(sizes), len(KINDS)))
    kernels.weighted_prefix_crps(indptr, distances, shares, order, values, y, sizes, KINDS, crps)
    assert np.isnan(crps[-1]).all()  # nobody speaks
    for row, sample in enumerate(samples[:-1]):
        part = slice(indptr[row], indptr[row + 1])
        for i, size in enumerate(sizes):
            most = min(size, 1e9)
            kept, near, cut = reference.nearest_of_weight(distances[part], shares[part], most)
            for j, smoothing in enumerate(SMOOTHINGS):
                own = reference.point_weights(near, cut, near.max(), smoothing)[0]
                expected = reference.sample_crps(sample[kept], own, y[row])
                np.testing.assert_allclose(crps[row, i, j], expected, rtol=1e-9, atol=1e-12)
