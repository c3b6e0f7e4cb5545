"""The choice among models and their combinations."""

import warnings

import numpy as np
import pytest

import nearcal as nc
from nearcal._errors import warn_user
from nearcal.recalibration.pooling import learn_weights, pool_tables, table_crps
from nearcal.tuning import combine
from nearcal.tuning.choice import Comparison
from nearcal.tuning.combining import _choose, _cross_fitted, _each_warning_once

SCORES = np.arange(-20, 21) / 5


def comparison(*means, error=0.01):
    """Scores of 4,000 rows with these means, whose paired differences have this standard error."""
    rng = np.random.default_rng(0)
    noise = [rng.normal(0.0, error * np.sqrt(4000 / 2), size=4000) for _ in means]
    return Comparison.of(np.array([mean + own - own.mean() for mean, own in zip(means, noise, strict=True)]))


@pytest.mark.parametrize(
    ("means", "place"),
    [
        ((1.0, 1.1, 0.9, 0.95), 2),  # the average
        ((1.0, 1.1, 0.9, 0.85), 3),  # the mixture
        ((1.0, 1.1, 1.01, 1.05), 2),  # one model is better, but not clearly
        ((1.0, 1.1, 1.10, 1.05), 0),  # clearly
        ((1.1, 1.0, 1.10, 1.05), 1),
    ],
)
def test_the_rule(means, place):
    assert _choose(comparison(*means), 2) == place


def test_weights_behind_a_score_have_not_seen_its_row():
    rng = np.random.default_rng(1)
    y = rng.normal(size=100)
    tables = [SCORES + rng.normal(size=(100, 1)) for _ in range(2)]
    units = np.arange(100) // 2
    average, mixture = _cross_fitted(tables, y, None, units)
    fold = np.random.default_rng(0).permutation(50)[units] % 5
    for number in range(5):
        inside = fold == number
        shares = learn_weights([table[~inside] for table in tables], y[~inside])
        for scores, pool in ((average, "quantiles"), (mixture, "mixture")):
            expected = table_crps(pool_tables(pool, shares, [table[inside] for table in tables]), y[inside])
            np.testing.assert_array_equal(scores[inside], expected)


def test_spaces_stand_side_by_side_each_once():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(300, 3))
    y = rng.normal(x[:, 0] + x[:, 1], np.exp(x[:, 2]))
    dists = {"a": nc.Normal(x[:, 0], 1.0), "b": nc.Normal(x[:, 1], 1.0), "c": nc.Normal(0.9 * x[:, 0], 1.0)}
    spaces = {"a": {"first": x[:, :1], "all": x}, "b": {"all": x}, "c": {"all": x}}
    found = combine(dists, y, spaces, k=40, scaling="none", smoothing="biweight", shrinkage=False, time=False)
    used = [name for name in dists if found.weights[name] > 0]
    assert found.spaces == tuple(dict.fromkeys(space for name in used for space in found.members[name].spaces))
    together = np.hstack([spaces["a"][space] for space in found.spaces])
    out = found.recalibrator.recalibrate(nc.QuantileAverage(np.ones(3), list(dists.values())), together)
    assert nc.scores.crps(out, y).mean() < nc.scores.crps(dists["a"], y).mean()
    for name, own in zip(dists, found.recalibrator.columns_, strict=True):
        if name in used:
            np.testing.assert_array_equal(together[:, list(own)], found.members[name].positions(spaces[name]))


def test_what_others_warn_of_is_left_as_it_is():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        with _each_warning_once():
            for _ in range(2):
                warnings.warn_explicit("open", ResourceWarning, "sockets.py", 1)
                warnings.warn_explicit("halved", RuntimeWarning, "models.py", 7)
                warn_user("ties", nc.TiesWarning)
    assert [str(one.message) for one in told] == ["ties", "halved", "halved"]
    assert (told[1].filename, told[1].lineno) == ("models.py", 7)


def test_corrections_are_tried_in_more_spaces_where_models_share_some():
    rng = np.random.default_rng(4)
    y = rng.normal(size=300)
    spaces = {f"number {noise}": y[:, np.newaxis] + rng.normal(0.0, noise, size=(300, 1)) for noise in range(1, 8)}
    dists = {name: nc.Normal(np.zeros(300), 1.0) for name in ("a", "b")}
    settings = {"k": 100, "scaling": "none", "smoothing": "biweight", "linear": False, "shrinkage": False, "members": 1}
    alone = nc.tune(dists["a"], y, spaces, **settings)
    together = combine(dists, y, {"a": spaces, "b": spaces}, **settings)
    tried = [set(own.table["space"][own.table["trend"]]) for own in (alone, *together.members.values())]
    assert [len(places) for places in tried] == [3, 5, 5]


def test_effort_has_a_name():
    dists = {name: nc.Normal(np.zeros(30), 1.0) for name in ("a", "b")}
    with pytest.raises(nc.InvalidParameterError, match="effort must be one of"):
        combine(dists, np.arange(30.0), {"a": {"x": np.eye(30)}, "b": {"x": np.eye(30)}}, effort="much")
