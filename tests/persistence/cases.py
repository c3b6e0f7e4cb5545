"""What the tests of saving share: every kind of recalibrator, fitted, and all its answers as bytes."""

from unittest.mock import patch

import numpy as np

import nearcal as nc
from nearcal.space import _exact

N, M = 700, 9


def _fit(recalibrator, d=3, n=N):
    rng = np.random.default_rng(d)
    space, scale = rng.normal(size=(n, d)) * np.arange(1, d + 1) + 5.0, rng.uniform(0.5, 2.0, size=n)
    y = rng.normal(space[:, 0], 2 * scale)
    return recalibrator.fit(nc.Normal(space[:, 0], scale), y, space)


def local(d=3, n=N, **options):
    return lambda: _fit(nc.LocalRecalibrator(**options), d, n)


def thinned(*shape, **options):
    """Fit as if the points were so many that searches begin among a part of them."""
    with patch.object(_exact, "_MANY_POINTS", 1000):
        return local(*shape, **options)()


CASES = {
    "line": local(1, k=50),
    "boxes": local(3, k=50),
    "boxes, full leaves": local(2, 128, k=50),
    "boxes, one point": local(2, 1, k=1),
    "brute": local(12, 2500, k=50),
    "brute, thinned": lambda: thinned(5, 2500, k=50, search="brute"),
    "brute, few points": local(5, k=50, search="brute"),
    "brute, radius": local(12, 2500, radius=20.0),
    "kdtree": local(3, k=50, search="kdtree"),
    "manhattan": local(3, k=50, metric="manhattan"),
    "cosine": local(3, k=50, metric="cosine"),
    "faiss": local(8, k=50, search="faiss"),
    "principal components": local(7, k=50, scaling="standard", components=3),
    "polished": local(3, k=50, polish=True, quantile_rule="predictive"),
    "polished, radius": local(2, radius=3.0, polish=True, quantile_rule="interpolated"),
    "standard scaling": local(3, k=50, scaling="standard"),
    "whitening": local(7, k=50, scaling="whiten"),
    "relevance": local(5, k=50, scaling="relevance"),
    "adjusted": local(3, k=50, adjustment="linear"),
    "adjusted, few dimensions, polished": local(
        7, k=30, adjustment="linear", scaling="relevance", polish=True, quantile_rule="predictive"
    ),
    "shrunk": local(3, k=20, shrinkage=True),
    "tuned": local(3, 120),
    "tuned to nothing": lambda: nc.LocalRecalibrator().fit(
        nc.Normal(np.zeros(200), 1.0),
        np.random.default_rng(0).normal(size=200),
        np.random.default_rng(1).normal(size=(200, 3)),
    ),
    "radius, thin rows": local(3, radius=0.5, min_neighbors=20, thin="base"),
    "all options": local(
        2, k=np.int64(40), smoothing="gaussian", eps=0.1, quantile_rule="interpolated", memory=2**25, threads=1
    ),
    "KNNRegressor": lambda: _fit(nc.KNNRegressor(k=30)),
    "GlobalRecalibrator": lambda: _fit(nc.GlobalRecalibrator(quantile_rule="conservative")),
    "IdentityRecalibrator": lambda: _fit(nc.IdentityRecalibrator()),
    "IsotonicRecalibrator": lambda: _fit(nc.IsotonicRecalibrator()),
    "VarianceScaling": lambda: _fit(nc.VarianceScaling()),
    "ConformalRecalibrator": lambda: _fit(nc.ConformalRecalibrator()),
    "QuantileNetRecalibrator": lambda: _fit(nc.QuantileNetRecalibrator(epochs=2, rng=1)),
    "QuantileNetRecalibrator with the space": lambda: _fit(nc.QuantileNetRecalibrator(epochs=2, use_space=True, rng=1)),
}


def answers(recalibrator, d=3):
    """Return all a recalibrator says about a few new rows, bit for bit."""
    d = getattr(recalibrator, "n_features_in_", d)
    rng = np.random.default_rng(5)
    space = rng.normal(size=(M, d)) * np.arange(1, d + 1) + 5.0
    out = recalibrator.recalibrate(nc.Normal(space[:, 0], rng.uniform(0.5, 2.0, size=M)), space)
    said = [out.mean(), out.var(), out.ppf([0.01, 0.3, 0.5, 0.9]), out.cdf(5.0), out.logpdf(5.0), out.z(5.0)]
    said += [*out.interval(0.9), out.sample(4, rng=1)]
    if isinstance(out, nc.Recalibrated):
        said += [out.effective_size, out.radius, *out.neighbors(slice(0, 3)), *out.weighted_sample(slice(0, 3))]
        said += out.reliability(0.1).columns.values()
    return b"".join(np.asarray(value).tobytes() for value in said)
