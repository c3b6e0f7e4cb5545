"""Recalibration by shards equals local recalibration to the last bit, whatever the batches."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import sharded_scores
from nearcal.space import shard_files

N = 3000
OPTIONS = {
    "k": {"k": 50},
    "predictive": {"k": 50, "quantile_rule": "predictive"},
    "conservative": {"k": 50, "quantile_rule": "conservative"},
    "radius": {"radius": nc.Radius(0.5, 20)},
    "radius, base": {"radius": nc.Radius(0.5, 20, "base"), "quantile_rule": "interpolated"},
    "standard": {"k": 40, "scaling": "standard", "smoothing": "gaussian"},
    "caution": {"k": 40, "corrections": (nc.Caution(0.3),), "quantile_rule": "predictive"},
}


@pytest.fixture(scope="module")
def rows():
    """Calibration rows on a coarse grid, some of them twice."""
    rng = np.random.default_rng(1)
    space = np.round(rng.normal(size=(N, 3)), 1)
    space[N // 2 :] = space[: N // 2]
    return nc.Normal(space[:, 0], 1.0), rng.normal(space[:, 0], np.exp(space[:, 1] / 2)), space


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many shards and chunks, of few rows."""
    monkeypatch.setattr(shard_files.build_shards, "__defaults__", (500,))
    monkeypatch.setattr(sharded_scores, "_MOST_GATHERED", 2000)


def in_batches(rows, size):
    dist, y, space = rows
    return [(dist[a : a + size], y[a : a + size], space[a : a + size]) for a in range(0, len(y), size)]


def answers(out, y):
    summary = out.summary(0.9, p=[0.1, 0.5], y=y)
    lone = out[3:9]
    more = [out.mean(), out.cdf(0.3), lone.ppf(0.3), nc.scores.crps(out, y), *out.neighbors([0, 5]), out.is_continuous]
    return [*vars(summary).values(), *more, *out.weighted_sample([0, 5])]


@pytest.mark.parametrize("name", OPTIONS)
def test_results_are_those_of_local_recalibration(rows, name, tmp_path):
    options, rng = OPTIONS[name], np.random.default_rng(2)
    rc = nc.ShardedRecalibrator(**options, folder=tmp_path / "shards").fit_batches(in_batches(rows, 777))
    assert len(rc.index_.shards) >= 6
    new = np.round(rng.normal(size=(120, 3)), 1)
    base, y, scale = nc.Normal(new[:, 0], 1.0), new[:, 0] + 0.5, rc.space_map_  # whose sums are exact, unlike numpy's
    local = nc.LocalRecalibrator(**{**options, "scaling": "none"}).fit(rows[0], rows[1], scale(rows[2]))
    nc.save(rc, tmp_path / "rc.nearcal")
    for one in (rc, nc.load(tmp_path / "rc.nearcal")):
        found, expected = answers(one.recalibrate(base, new), y), answers(local.recalibrate(base, scale(new)), y)
        for a, b in zip(found, expected, strict=True):
            if (
                name == "conservative"
            ):  # of which a mean may differ by a rounding, by the order in which points are found
                np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-15)
            else:
                np.testing.assert_array_equal(a, b)
    # both ask 3,000 points: of p-values all bits agree as well
    table, other = rc.recalibrate(base, new).reliability(), local.recalibrate(base, scale(new)).reliability()
    for column in table.columns:
        np.testing.assert_array_equal(table[column], other[column])


def test_points_that_are_all_in_one_place(tmp_path):
    """The nearest of the fifth are the first ones; it learns all the same, as local recalibration does."""
    space = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    rows = nc.Normal(np.zeros(30), 1.0), np.random.default_rng(1).normal(size=30), space
    options = {"k": 3, "corrections": (nc.Polish(),), "quantile_rule": "predictive"}
    rc = nc.ShardedRecalibrator(**options, folder=tmp_path / "shards").fit_batches([rows])
    local = nc.LocalRecalibrator(**options).fit(*rows)
    a, b = (one.recalibrate(rows[0], rows[2]) for one in (rc, local))
    np.testing.assert_allclose(a.ppf([0.1, 0.9]), b.ppf([0.1, 0.9]), rtol=1e-9)


def test_corrections_are_learnt_among_all_points(rows, tmp_path):
    """Of so few points all are looked up: what is learnt is what local recalibration learns."""
    corrections = (nc.LocalLinear(), nc.Polish(drift=True), nc.Fade())
    options = {"k": 50, "corrections": corrections, "quantile_rule": "predictive"}
    rc = nc.ShardedRecalibrator(**options, folder=tmp_path / "shards").fit_batches(in_batches(rows, 1000))
    local = nc.LocalRecalibrator(**options).fit(*rows)
    new = np.random.default_rng(3).normal(size=(50, 3))
    a, b = (one.recalibrate(nc.Normal(new[:, 0], 1.0), new) for one in (rc, local))
    np.testing.assert_array_equal(a.trust, b.trust)
    np.testing.assert_allclose(a.mean(), b.mean(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.ppf(0.9), b.ppf(0.9), rtol=1e-9)
    with pytest.raises(nc.InvalidParameterError, match="cannot be updated, since its shards are built once"):
        rc.update(*rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 5}, "folder must be where shards are built"),
        ({"radius": nc.Radius(1.0, thin="global"), "folder": "x"}, "asks for the scores of all points"),
        ({"k": 5, "corrections": (nc.Fade(to="global"),), "folder": "x"}, "asks for the scores of all points"),
        ({"k": 5, "sample": 10, "folder": "x"}, "sample must be"),
        ({"k": 5, "folder": "nowhere/x"}, "must lie in an existing directory"),
        ({"k": 5, "folder": "/"}, "must be a new one, or one with shards, got /; name one inside it"),
        ({"k": N + 1, "folder": "x"}, "k must be at most"),
    ],
)
def test_what_shards_cannot_do_is_refused(options, message, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.ShardedRecalibrator(**options).fit(*rows)


def test_settings_of_others_are_taken_over_or_refused():
    local = nc.LocalRecalibrator(k=7, smoothing="uniform", corrections=(nc.Polish(),), quantile_rule="predictive")
    taken = nc.ShardedRecalibrator.like(local, folder="here")
    assert (taken.k, taken.smoothing, taken.corrections, taken.folder) == (7, "uniform", (nc.Polish(),), "here")
    for other in (nc.LocalRecalibrator(k=7, eps=0.1), nc.LocalRecalibrator(k=7, metric="cosine"), nc.KNNRegressor(k=7)):
        with pytest.raises(nc.InvalidParameterError, match="recalibrator must"):
            nc.ShardedRecalibrator.like(other)


def test_a_saved_one_needs_its_shards(rows, tmp_path):
    rc = nc.ShardedRecalibrator(k=5, folder=tmp_path / "shards").fit(*rows)
    nc.save(rc, tmp_path / "rc.nearcal")
    nc.ShardedRecalibrator(k=5, folder=tmp_path / "shards").fit(rows[0], rows[1], rows[2] + 1)
    with pytest.raises(nc.ArtefactError, match="holds other shards"):
        nc.load(tmp_path / "rc.nearcal")
    (tmp_path / "shards").rename(tmp_path / "elsewhere")
    with pytest.raises(nc.ArtefactError, match="there are no shards"):
        nc.load(tmp_path / "rc.nearcal")
