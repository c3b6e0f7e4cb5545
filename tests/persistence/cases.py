"""What the tests of saving share: every kind of recalibrator and model, fitted, and all its answers as bytes."""

import copy
import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

import nearcal as nc
from nearcal.compiled import compiling
from nearcal.compiled.network import Effort
from nearcal.compiled.student import Form, Kind
from nearcal.space import _exact
from tests.compiled.cases import quick_students

N, M = 700, 9


def calibration_set(d=3, n=N):
    rng = np.random.default_rng(d)
    space, scale = rng.normal(size=(n, d)) * np.arange(1, d + 1) + 5.0, rng.uniform(0.5, 2.0, size=n)
    y = rng.normal(space[:, 0], 2 * scale)
    return nc.Normal(space[:, 0], scale), y, space


def _fit(recalibrator, d=3, n=N):
    return recalibrator.fit(*calibration_set(d, n))


def local(d=3, n=N, **options):
    return lambda: _fit(nc.LocalRecalibrator(**options), d, n)


def weighted(recalibrator):
    """Fit with weights that differ."""
    weights = np.random.default_rng(9).gamma(1.0, size=N) + 0.01
    return lambda: copy.deepcopy(recalibrator).fit(*calibration_set(), sample_weight=weights)


def thinned(*shape, **options):
    """Fit as if the points were so many that searches begin among a part of them."""
    with patch.object(_exact, "_MANY_POINTS", 1000):
        return local(*shape, **options)()


def updated(has_trend=False, **options):
    """Fit on a part, then add the rest and forget some; errors may follow a curve."""
    dist, y, space = calibration_set()
    y = y + 5 * np.sin(space[:, 0]) * has_trend
    rc = nc.LocalRecalibrator(**options).fit(dist[:600], y[:600], space[:600])
    return rc.update(dist[600:], y[600:], space[600:]).forget([3, 5, -1])


def several(dist, space):
    """Return the predictions of two models."""
    return nc.QuantileAverage([1.0, 1.0], [dist, nc.Laplace(space[:, -1], 2.0)])


def combined(**options):
    """Fit two models together, of which the second looks at some columns."""
    dist, y, space = calibration_set()
    members = [nc.LocalRecalibrator(k=50, quantile_rule="predictive"), nc.LocalRecalibrator(k=40, scaling="standard")]
    rc = nc.CombinedRecalibrator(members, columns=[[0, 1, 2], [2, 0]], **options)
    return rc.fit(several(dist, space), y, space)


def averaged(**options):
    """Return two neighbourhoods as one, of which the second looks at some columns."""
    smooth = nc.LocalRecalibrator(k=40, scaling="standard", quantile_rule="interpolated", corrections=(nc.Fade(0.1),))
    members = [nc.LocalRecalibrator(k=50, quantile_rule="predictive", corrections=(nc.LocalLinear(),)), smooth]
    return nc.AveragedRecalibrator(members, columns=((0, 1, 2), (2, 0)), **options)


LOCAL = nc.LocalRecalibrator(k=30, quantile_rule="predictive", corrections=(nc.Polish(),))


def guaranteed(promise):
    """Fit with rows set aside."""
    return _fit(nc.GuaranteedRecalibrator(LOCAL, promise))


def in_shards(**options):
    """Fit with a folder, which a saved file names."""
    folder = str(Path(tempfile.mkdtemp()) / "shards")
    return lambda: _fit(nc.ShardedRecalibrator(**options, folder=folder))


def compiled(recalibrator, has_trend=True, **form):
    """Compile with students that hardly learn, of one form: files need no good ones."""
    forms = [Form((Kind(has_trend, Effort(64, 10)),), **form)]
    with quick_students(), patch.object(compiling, "_forms", lambda fit: forms):
        return nc.compile(recalibrator, tolerance=1e9)


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
    "principal components": local(7, k=50, scaling=nc.Scaling("standard", 3)),
    "polished": local(3, k=50, corrections=(nc.Polish(),), quantile_rule="predictive"),
    "polished, radius": local(2, radius=3.0, corrections=(nc.Polish(),), quantile_rule="interpolated"),
    "standard scaling": local(3, k=50, scaling="standard"),
    "whitening": local(7, k=50, scaling="whiten"),
    "relevance": local(5, k=50, scaling="relevance"),
    "local-linear": local(3, k=50, corrections=(nc.LocalLinear(),)),
    "local-linear, few dimensions, polished": local(
        7, k=30, scaling="relevance", corrections=(nc.LocalLinear(), nc.Polish()), quantile_rule="predictive"
    ),
    "local-linear, too few neighbours": local(3, k=5, corrections=(nc.LocalLinear(),)),
    "shrunk": local(3, k=20, corrections=(nc.Shrinkage(),)),
    "all corrections": local(
        3, k=50, corrections=[nc.LocalLinear(), nc.Shrinkage(), nc.Polish()], quantile_rule="predictive"
    ),
    "trend and caution": lambda: updated(
        True,
        k=50,
        corrections=[nc.Trend(), nc.LocalLinear(), nc.Polish(), nc.Caution(0.2, 0.3)],
        quantile_rule="predictive",
    ),
    "faded": local(3, k=50, corrections=(nc.Polish(drift=True), nc.Fade(0.02)), quantile_rule="predictive"),
    "faded to all, radius": local(2, radius=nc.Radius(2.0, 20), corrections=(nc.Fade(0.3, "global"),)),
    "faded, cosine": local(3, k=50, metric="cosine", corrections=(nc.Fade(),)),
    "tuned": lambda: nc.tune(*calibration_set(3, 120), k=20, rule="best").recalibrator,
    "tuned to nothing": lambda: (
        nc.tune(
            nc.Normal(np.zeros(200), 1.0),
            np.random.default_rng(0).normal(size=200),
            np.random.default_rng(1).normal(size=(200, 3)),
        ).recalibrator
    ),
    "radius, thin rows": local(3, radius=nc.Radius(0.5, 20, "base")),
    "all options": local(
        2,
        k=np.int64(40),
        smoothing="gaussian",
        eps=0.1,
        quantile_rule="interpolated",
        workers=nc.Workers(threads=1, memory=2**25),
    ),
    "updated": lambda: updated(k=50),
    "updated, all corrections": lambda: updated(
        k=50,
        scaling="standard",
        corrections=[nc.Trend(), nc.LocalLinear(), nc.Shrinkage(), nc.Polish()],
        quantile_rule="predictive",
    ),
    "in shards": in_shards(k=50),
    "in shards, all corrections": in_shards(
        k=50,
        scaling="standard",
        corrections=[nc.Trend(), nc.LocalLinear(), nc.Shrinkage(), nc.Polish(), nc.Fade()],
        quantile_rule="predictive",
    ),
    "KNNRegressor": lambda: _fit(nc.KNNRegressor(k=30)),
    "GlobalRecalibrator": lambda: _fit(nc.GlobalRecalibrator()),
    "GlobalRecalibrator, conservative": lambda: _fit(nc.GlobalRecalibrator(quantile_rule="conservative")),
    "GlobalRecalibrator, predictive": lambda: _fit(nc.GlobalRecalibrator(quantile_rule="predictive")),
    "IdentityRecalibrator": lambda: _fit(nc.IdentityRecalibrator()),
    "IsotonicRecalibrator": lambda: _fit(nc.IsotonicRecalibrator()),
    "VarianceScaling": lambda: _fit(nc.VarianceScaling()),
    "ConformalRecalibrator": lambda: _fit(nc.ConformalRecalibrator()),
    "weighted": weighted(nc.LocalRecalibrator(k=50)),
    "weighted, radius": weighted(nc.LocalRecalibrator(radius=nc.Radius(2.0, 20, "global"))),
    "weighted, all corrections": weighted(
        nc.LocalRecalibrator(
            k=50,
            scaling="whiten",
            corrections=[nc.Trend(), nc.LocalLinear(), nc.Shrinkage(), nc.Polish()],
            quantile_rule="predictive",
        )
    ),
    "GlobalRecalibrator, weighted": weighted(nc.GlobalRecalibrator()),
    "GlobalRecalibrator, weighted, conservative": weighted(nc.GlobalRecalibrator(quantile_rule="conservative")),
    "IsotonicRecalibrator, weighted": weighted(nc.IsotonicRecalibrator()),
    "ConformalRecalibrator, weighted": weighted(nc.ConformalRecalibrator(new_weight=12.0)),
    "AveragedRecalibrator": lambda: _fit(averaged(weights=(0.7, 0.3), corrections=(nc.Polish(), nc.Caution(0.2)))),
    "AveragedRecalibrator, weighted": weighted(averaged()),
    "GuaranteedRecalibrator of an average": lambda: _fit(nc.GuaranteedRecalibrator(averaged())),
    "CombinedRecalibrator": lambda: combined(),
    "CombinedRecalibrator, mixture": lambda: combined(pool="mixture"),
    "GuaranteedRecalibrator": lambda: guaranteed(nc.Marginal(share=0.3, small="error")),
    "GuaranteedRecalibrator, pac": lambda: guaranteed(nc.PAC(delta=0.2)),
    "GuaranteedRecalibrator, weighted": weighted(nc.GuaranteedRecalibrator(LOCAL)),
    "CrossRecalibrator": lambda: _fit(nc.CrossRecalibrator(LOCAL, nc.Cross(folds=3)), n=100),
    "compiled": lambda: compiled(
        local(3, 150, k=50, corrections=(nc.Polish(), nc.Fade()), quantile_rule="predictive")()
    ),
    "compiled, trend, faded to all": lambda: compiled(
        local(2, 300, k=50, metric="chebyshev", corrections=(nc.Trend(), nc.Fade(0.1, "global")))()
    ),
    "compiled, radius, cosine": lambda: compiled(local(3, 150, radius=nc.Radius(0.5, 20), metric="cosine")()),
    "compiled, anchors": lambda: compiled(local(2, 100, k=30)(), has_trend=False, has_anchors=True),
    "compiled, all rows alike": lambda: compiled(_fit(nc.IsotonicRecalibrator())),
    "QuantileNetRecalibrator": lambda: _fit(nc.QuantileNetRecalibrator(epochs=2, rng=1)),
    "QuantileNetRecalibrator with the space": lambda: _fit(nc.QuantileNetRecalibrator(epochs=2, use_space=True, rng=1)),
}


def _columns():
    """A model of columns, tuned, whose spread depends on a column."""
    rng = np.random.default_rng(0)
    table = {"mu": rng.normal(size=200), "x": rng.uniform(-2, 2, size=200)}
    model = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": 1.0}, {"inputs": ("x",)}, "price")
    y = rng.normal(table["mu"], np.exp(table["x"]))
    return nc.calibrate(model, table, y, tuning={"scaling": "standard", "k": 20, "rule": "best"})


def _looking():
    """A model of columns that looks for neighbours in one space, and for ranges in another."""
    rng = np.random.default_rng(0)
    table = {"mu": rng.normal(size=200), "x": rng.uniform(-2, 2, size=200), "other": rng.normal(size=200)}
    spaces = {"others": ("other",), "inputs": ("x",)}
    model = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": 1.0}, spaces, "price")
    y = rng.normal(table["mu"], np.exp(table["x"]))
    return nc.calibrate(model, table, y, layer=list(spaces), tuning={"scaling": "standard", "k": 20, "rule": "best"})


def _line():
    """What was learnt from the errors of a line."""
    _, y, space = calibration_set()
    line = LinearRegression().fit(space[:300], y[:300])
    return nc.calibrate(line, space[300:], y[300:], recalibrator=nc.LocalRecalibrator(k=50)).recalibration


def _frame():
    """What was learnt from the errors of a function of a frame with texts."""
    _, y, space = calibration_set()
    frame = pd.DataFrame(space, columns=["a", "b", "c"]).assign(kind=pd.Categorical(np.where(y > 5, "high", "low")))
    return nc.calibrate(lambda X: X["a"], frame, y, layer="output", recalibrator=nc.VarianceScaling()).recalibration


def _parts():
    """What was learnt from the errors of a function of several arrays."""
    _, y, space = calibration_set()
    options = {"layer": "output", "recalibrator": nc.VarianceScaling()}
    return nc.calibrate(lambda X: X["a"], {"a": space[:, 0], "b": space}, y, **options).recalibration


def _distilled():
    """What was learnt from the errors of a function by a student, which follows them better than five neighbours."""
    space = calibration_set()[2]
    y = space.sum(axis=1) + np.random.default_rng(0).normal(size=N)
    tuning = {"k": 5, "scaling": "standard", "linear": False, "shrinkage": False, "trend": False, "rule": "best"}
    with quick_students(200):
        calibrated = nc.calibrate(lambda X: 0 * X[:, 0], space[:200], y[:200], tuning={**tuning, "distilled": True})
    assert calibrated.tuning.chosen.distilled
    return calibrated.recalibration


def _several():
    """What was learnt from the errors of two models together."""
    _, y, space = calibration_set()
    models = {"a": lambda X: X[:, 0], "b": lambda X: X[:, 1]}
    tuning = {"k": 20, "scaling": "standard", "linear": False, "shrinkage": False, "trend": False}
    return nc.calibrate(models, space[:200], y[:200], tuning=tuning).recalibration


MODELS = {
    "Recalibration of several models": _several,
    "CalibratedModel": _columns,
    "CalibratedModel that looks twice": _looking,
    "Recalibration": _line,
    "Recalibration that was distilled": _distilled,
    "Recalibration of a frame": _frame,
    "Recalibration of parts": _parts,
}


def _online():
    """A stream of which some responses are told, and predictions of every family wait."""
    online = nc.OnlineRecalibrator(local(2, k=50, quantile_rule="predictive")(), window=702)
    dist, y, space = calibration_set(2, 5)
    online.observe(online.predict(dist, space).tickets, y)
    normal = nc.Normal(1.0, 2.0)
    bases = [normal, nc.LogNormal(0.0, 1.0), nc.Gamma(2.0, 1.0), nc.StudentT(4.0, 0.0, 1.0), nc.Laplace(0.0, 1.0)]
    bases += [
        nc.Samples([[1.0, 3.0, 4.0]]),
        nc.Quantiles([0.1, 0.9], [[1.0, 2.0]]),
        nc.Mixture([0.3, 0.7], [normal] * 2),
    ]
    for base in bases:
        online.predict(base, [[1.0, 2.0]])
    return online


def _monitor(shift):
    monitor = nc.CalibrationMonitor(0.02, seed=1)
    monitor.observe_scores(np.random.default_rng(0).normal(shift, size=60))
    return monitor


STREAMS = {
    "OnlineRecalibrator": _online,
    "OnlineRecalibrator without a recalibrator": lambda: nc.OnlineRecalibrator(coverages=[0.5], step=0.2),
    "CalibrationMonitor": lambda: _monitor(0.0),
    "CalibrationMonitor after an alarm": lambda: _monitor(2.0),
}


@cache
def made(name):
    """Return what stands under a name, made once for all tests of a process: to be looked at and not to be changed."""
    return (CASES | MODELS | STREAMS)[name]()


def answers_of_stream(stream):
    """Return what a stream goes on to say, bit for bit."""
    if isinstance(stream, nc.CalibrationMonitor):
        alarm = stream.observe_scores([0.3, -1.2, 2.0])
        return f"{alarm} {stream.p_value!r} {stream.log_evidence!r}".encode()
    for ticket in stream.waiting.tolist():
        stream.observe(ticket, 1.4)
    out = stream.predict(nc.Normal([0.0, 1.0], 1.0), [[4.0, 8.0], [5.0, 9.0]])
    said = [out.ppf([0.01, 0.3, 0.5, 0.9]), out.cdf(1.0), out.tickets, *stream.levels().columns.values()]
    return b"".join(np.asarray(value).tobytes() for value in said)


def answers(recalibrator, d=3):
    """Return all a recalibrator says about a few new rows, bit for bit."""
    d = getattr(recalibrator, "n_features_in_", d)
    rng = np.random.default_rng(5)
    space = rng.normal(size=(M, d)) * np.arange(1, d + 1) + 5.0
    dist = nc.Normal(space[:, 0], rng.uniform(0.5, 2.0, size=M))
    is_combined = isinstance(recalibrator, nc.CombinedRecalibrator)
    out = recalibrator.recalibrate(several(dist, space) if is_combined else dist, space)
    said = [out.mean(), out.var(), out.ppf([0.01, 0.3, 0.5, 0.9]), out.cdf(5.0), out.sf(5.0), out.z(5.0)]
    said += [*out.interval(0.9), out.sample(4, rng=1), out.effective_size, out.radius, out.trust]
    said += out.reliability(0.1).columns.values()
    if out.has_density:
        said.append(out.logpdf(5.0))
    if isinstance(recalibrator, nc.LocalRecalibrator):
        said += [*out.neighbors(slice(0, 3)), *out.weighted_sample(slice(0, 3))]
    return b"".join(np.asarray(value).tobytes() for value in said)
