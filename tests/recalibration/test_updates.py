"""A calibration set that changes gives what a refit gives, to the last bit; a change that fails changes nothing."""

import copy
import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearcal as nc
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.local_linear import LearntLinear
from nearcal.recalibration.neighborhoods import WithinRadius
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.space import build_index
from tests.recalibration.cases import FAMILIES

N, FIRST, D = 460, 300, 3
RNG = np.random.default_rng(11)
SPACES = {
    "normal": 3 + RNG.normal(size=(N, D)),
    "grid": 3 + np.round(RNG.normal(size=(N, D))),
    "duplicates": 3 + RNG.normal(size=(50, D))[RNG.integers(50, size=N)],
}
DIST = nc.Normal(SPACES["normal"][:, 0], 1.0)
Y = DIST.loc + np.round(RNG.normal(size=N) * np.exp(SPACES["normal"][:, 1] / 4), 1)  # some scores are equal
NEW = 3 + RNG.normal(size=(30, D))
BASE = {"Normal": nc.Normal(NEW[:, 0], 1.3), "Gamma": nc.Gamma(3.0, NEW[:, 0] ** 2)}


def said(rc, space_new=NEW, family="Normal"):
    """Return everything that a recalibrator says about new rows."""
    out = rc.recalibrate(BASE[family], space_new)
    answers = [out.mean(), out.std(), out.ppf([0.03, 0.5, 0.9]), out.cdf(3.3), out.sf(3.3), out.z(3.3)]
    answers += [*out.interval(0.8), out.sample(3, rng=1), out.radius, out.effective_size, np.full(30, out.n_cal)]
    answers += [out.logpdf(3.3)] if out.has_density else []
    answers += out.reliability(0.1).columns.values()
    if isinstance(rc, nc.LocalRecalibrator):
        answers += [*out.neighbors(slice(0, 5)), *out.weighted_sample(slice(0, 5))]
    return answers


def assert_same(one, other, **options):
    for a, b in zip(said(one, **options), said(other, **options), strict=True):
        np.testing.assert_array_equal(a, b)


def history(rc, space, dist=DIST, y=Y):
    """Update and forget in every way; yield the rows that should remain, after each step."""
    rows = np.arange(FIRST)
    for start, stop, forget in (
        (FIRST, 301, None),
        (301, 340, {"rows": [0, 5, -1]}),
        (340, 341, {"keep_last": 320}),
        (341, 342, None),
        (342, 400, {"rows": np.arange(N)[:20]}),
        (400, N, {"keep_last": 280}),
    ):
        assert rc.update(dist[start:stop], y[start:stop], space[start:stop]) is rc
        rows = np.concatenate([rows, np.arange(start, stop)])
        if forget is not None and "keep_last" in forget:
            assert rc.forget(**forget) is rc
            rows = rows[-forget["keep_last"] :]
        elif forget is not None:
            gone = np.isin(np.arange(len(rows)), np.asarray(forget["rows"]) % len(rows))
            rc.forget(gone if start == 342 else forget["rows"])  # by mask, and by number
            rows = rows[~gone]
        yield rows


PLAIN = {
    "line": {"k": 25},
    "boxes": {"k": 25},
    "k = 1": {"k": 1},
    "most": {"k": 280, "smoothing": "gaussian"},
    "brute": {"k": 25, "search": "brute"},
    "kdtree": {"k": 25, "search": "kdtree"},
    "approximate": {"k": 25, "eps": 0.4, "search": "boxes"},
    "manhattan": {"k": 25, "metric": "manhattan"},
    "chebyshev": {"radius": 0.6, "metric": "chebyshev"},
    "cosine": {"k": 25, "metric": "cosine"},
    "cosine, radius": {"radius": 0.01, "metric": "cosine"},
    "uniform": {"k": 25, "smoothing": "uniform", "quantile_rule": "conservative"},
    "predictive": {"k": 25, "quantile_rule": "predictive"},
    "interpolated": {"k": 25, "smoothing": "biweight", "quantile_rule": "interpolated"},
    "radius, nearest": {"radius": nc.Radius(0.7, 20), "smoothing": "triangular"},
    "radius, global": {"radius": nc.Radius(0.7, 20, "global")},
    "radius, base": {"radius": nc.Radius(0.7, 20, "base"), "quantile_rule": "predictive"},
    "radius, line": {"radius": 0.1},
}


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("name", PLAIN)
def test_without_anything_learnt_it_is_a_plain_fit(name, kind):
    space = SPACES[kind][:, :1] if "line" in name else SPACES[kind]
    new = NEW[:, :1] if "line" in name else NEW
    rc = nc.LocalRecalibrator(**PLAIN[name]).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST])
    for rows in history(rc, space):
        assert rc.n_cal_ == len(rows)
        fresh = nc.LocalRecalibrator(**PLAIN[name]).fit(DIST[rows], Y[rows], space[rows])
        assert_same(rc, fresh, space_new=new)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_may_differ(family):
    """Scores are all that is kept of calibration points."""
    rng = np.random.default_rng(0)
    dist = FAMILIES[family](80, rng)
    y = dist.from_z(np.tanh(rng.normal(size=80)))
    space = SPACES["normal"]
    rc = nc.LocalRecalibrator(k=25).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST])
    rc.update(dist, y, space[FIRST : FIRST + 80])
    z = np.concatenate([DIST[:FIRST].z(Y[:FIRST]), dist.z(y)])
    unit = nc.Normal(np.zeros(len(z)), 1.0)
    assert_same(rc, nc.LocalRecalibrator(k=25).fit(unit, z, space[: len(z)]), family="Gamma")


LEARNT = {
    "standard": {"k": 25, "scaling": "standard"},
    "whiten": {"k": 25, "scaling": "whiten", "search": "kdtree"},
    "components": {"k": 25, "scaling": nc.Scaling("standard", 2)},
    "one component": {"k": 25, "scaling": nc.Scaling("standard", 1)},
    "relevance": {"k": 25, "scaling": "relevance"},
    "cosine": {"k": 25, "scaling": "standard", "metric": "cosine", "corrections": [nc.LocalLinear()]},
    "polish": {"k": 25, "corrections": [nc.Polish()], "quantile_rule": "predictive"},
    "shrinkage": {"k": 12, "corrections": [nc.Shrinkage()]},
    "linear": {"k": 40, "corrections": [nc.LocalLinear()]},
    "linear, radius": {"radius": nc.Radius(1.0, 40), "corrections": [nc.LocalLinear()]},
    "all": {
        "k": 40,
        "scaling": "relevance",
        "corrections": [nc.LocalLinear(), nc.Shrinkage(), nc.Polish(), nc.Caution(0.2)],
        "quantile_rule": "predictive",
    },
}


def refit_with(rc, z, space):
    """Return a recalibrator made anew of scores and positions, with the scaling and corrections of another."""
    points = rc.space_map_(space)
    index = build_index(points, rc.metric, rc.search, rc.neighborhood_.least, rc.eps)
    anew = copy.copy(rc)
    anew.calibration_, anew.index_, anew.n_cal_ = CalibrationScores(z), index, len(z)
    anew.own_isolation_ = OwnIsolation.of(index, points)
    if isinstance(rc.neighborhood_, WithinRadius):
        anew.neighborhood_ = replace(rc.neighborhood_, n_cal=len(z))
    anew.corrections_ = tuple(
        LearntLinear(learnt.center, learnt.axes, np.einsum("nd,dm->nm", points - learnt.center, learnt.axes))
        if isinstance(learnt, LearntLinear)
        else learnt
        for learnt in rc.corrections_
    )
    return anew


@pytest.mark.parametrize("name", LEARNT)
def test_what_was_learnt_is_kept_and_can_be_learnt_again(name):
    space, z = SPACES["normal"], DIST.z(Y)
    rc = nc.LocalRecalibrator(**LEARNT[name]).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST])
    learnt = copy.deepcopy(rc)
    assert len(rc.corrections_) == len(rc.corrections)
    for rows in history(rc, space):
        assert_same(rc, refit_with(learnt, z[rows], space[rows]))
    fresh = nc.LocalRecalibrator(**LEARNT[name]).fit(DIST[rows], Y[rows], space[rows])
    assert any((a != b).any() for a, b in zip(said(rc), said(fresh), strict=True))
    assert rc.relearn() is rc
    assert_same(rc, fresh)
    rc.update(DIST[:9], Y[:9], space[:9])
    rows = np.concatenate([rows, np.arange(9)])
    assert_same(rc, refit_with(fresh, z[rows], space[rows]))


ALL_ROWS = [
    nc.GlobalRecalibrator(),
    nc.GlobalRecalibrator(quantile_rule="conservative"),
    nc.GlobalRecalibrator(quantile_rule="predictive"),
    nc.IsotonicRecalibrator(),
    nc.VarianceScaling(),
    nc.ConformalRecalibrator(),
    nc.IdentityRecalibrator(),
]


@pytest.mark.parametrize("recalibrator", ALL_ROWS, ids=repr)
def test_recalibrators_of_all_rows(recalibrator, tmp_path):
    rc = copy.deepcopy(recalibrator).fit(DIST[:FIRST], Y[:FIRST])
    before = said(rc)
    held = rc.recalibrate(BASE["Normal"])
    for rows in history(rc, SPACES["normal"]):
        assert rc.n_cal_ == len(rows)
        assert_same(rc, copy.deepcopy(recalibrator).fit(DIST[rows], Y[rows]))
        assert_same(rc.relearn(), copy.deepcopy(recalibrator).fit(DIST[rows], Y[rows]))
    np.testing.assert_array_equal(held.mean(), before[0])
    nc.save(rc, tmp_path / "it")
    assert_same(nc.load(tmp_path / "it").update(DIST[:9], Y[:9]), rc.update(DIST[:9], Y[:9]))


@pytest.mark.parametrize("corrections", [(), (nc.Shrinkage(),)])
def test_neighbours_without_a_model(corrections, tmp_path):
    """The unit of responses is that of a fit, unless a correction has learnt in it."""
    space, y = SPACES["normal"], np.concatenate([Y[:FIRST], 40 * Y[FIRST:]])

    def fresh(rows, **options):
        return nc.KNNRegressor(k=25, corrections=corrections, **options).fit(None, y[rows], space[rows])

    rc = fresh(np.arange(FIRST))
    first = copy.deepcopy(rc)
    for rows in history(rc, space, DIST, y):
        if corrections:
            assert_same(rc, refit_with(first, y[rows] / first.unit_, space[rows]))
        else:
            assert_same(rc, fresh(rows))
    assert fresh(rows).unit_ != first.unit_
    nc.save(rc, tmp_path / "it")
    assert_same(nc.load(tmp_path / "it"), rc)
    assert_same(rc.relearn(), fresh(rows))
    assert rc.unit_ == fresh(rows).unit_
    assert_same(rc.update(None, [], np.empty((0, 3))), fresh(rows))


# ---- what was handed out, what was saved ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [*LEARNT.values(), PLAIN["boxes"], PLAIN["radius, global"]])
def test_results_stay_as_they_were_made(options):
    """Also those that were asked nothing yet: they answer from the calibration set of their time."""
    space = SPACES["duplicates"]
    rc = nc.LocalRecalibrator(**options).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST])
    states, held = [], []
    for _ in history(rc, space):
        states.append(copy.deepcopy(rc))
        held.append(rc.recalibrate(BASE["Normal"], NEW))
        if len(held) % 2:
            held[-1].mean()
    rc.relearn()
    for state, out in zip(states, held, strict=True):
        expected = state.recalibrate(BASE["Normal"], NEW)
        for name in ("mean", "std", "median"):
            np.testing.assert_array_equal(getattr(out, name)(), getattr(expected, name)())
        np.testing.assert_array_equal(out.reliability()["isolation"], expected.reliability()["isolation"])


def test_two_copies_go_their_own_ways():
    space = SPACES["normal"]
    rc = nc.LocalRecalibrator(k=25).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST]).update(DIST[:1], Y[:1], space[:1])
    for make_copy in (copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))):
        other, own = make_copy(rc), copy.copy(rc)
        other.update(DIST[310:350], Y[310:350], space[310:350])
        own.update(DIST[400:], Y[400:], space[400:]).forget([0])
        for it, rows in ((other, [*range(FIRST), 0, *range(310, 350)]), (own, [*range(1, FIRST), 0, *range(400, N)])):
            assert_same(it, nc.LocalRecalibrator(k=25).fit(DIST[rows], Y[rows], space[rows]))


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("options", [*LEARNT.values(), *PLAIN.values()])
def test_saved_and_loaded_in_the_middle(options, mmap, tmp_path):
    d = 1 if options in (PLAIN["line"], PLAIN["radius, line"]) else 3
    space, new = SPACES["normal"][:, :d], NEW[:, :d]
    rc = nc.LocalRecalibrator(**options).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST])
    for step, _ in enumerate(history(rc, space)):
        if step == 1:  # added to, and forgotten from
            break
    nc.save(rc, tmp_path / "it")
    loaded = nc.load(tmp_path / "it", mmap=mmap)
    assert_same(loaded, rc, space_new=new)
    nc.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "it").read_bytes()
    other = copy.deepcopy(rc)
    for it in (loaded, other):
        it.update(DIST[350:380], Y[350:380], space[350:380]).forget(keep_last=290)
    assert_same(loaded, other, space_new=new)
    assert_same(loaded.relearn(), other.relearn(), space_new=new)


def test_a_thread_that_asks_while_another_updates():
    """What it gets is of one calibration set: that before an update, or that after it."""
    space = SPACES["normal"]
    rc = nc.LocalRecalibrator(k=25, workers=nc.Workers(threads=1)).fit(DIST[:FIRST], Y[:FIRST], space[:FIRST])
    rows, expected = np.arange(FIRST), {}
    for stop in range(FIRST, FIRST + 40):
        fresh = nc.LocalRecalibrator(k=25, workers=nc.Workers(threads=1)).fit(DIST[:stop], Y[:stop], space[:stop])
        expected[stop] = fresh.recalibrate(BASE["Normal"], NEW).ppf(0.9)
    done, wrong = threading.Event(), []

    def ask():
        while not done.is_set():
            out = rc.recalibrate(BASE["Normal"], NEW)
            if not np.array_equal(out.ppf(0.9), expected[out.n_cal]):
                wrong.append(out.n_cal)

    thread = threading.Thread(target=ask)
    thread.start()
    for row in range(FIRST, FIRST + 39):
        rc.update(DIST[row : row + 1], Y[row : row + 1], space[row : row + 1])
        rows = np.append(rows, row)
    done.set()
    thread.join()
    assert wrong == []
    np.testing.assert_array_equal(rc.recalibrate(BASE["Normal"], NEW).ppf(0.9), expected[FIRST + 39])


# ---- what is refused ------------------------------------------------------------------------------------------------

SPACE = SPACES["normal"]
FAILURES = {
    "columns": (lambda rc: rc.update(DIST[:5], Y[:5], SPACE[:5, :2]), "space_cal must have 3 columns"),
    "rows": (lambda rc: rc.update(DIST[:5], Y[:5], SPACE[:4]), "space_cal must have 5 rows"),
    "responses": (lambda rc: rc.update(DIST[:5], Y[:4], SPACE[:5]), "y_cal must have shape"),
    "NaN in y": (lambda rc: rc.update(DIST[:2], [np.nan, 1], SPACE[:2]), "y_cal must be finite"),
    "NaN in space": (lambda rc: rc.update(DIST[:1], [1], [[1, np.nan, 2]]), "space_cal must be finite"),
    "impossible": (lambda rc: rc.update(nc.Gamma(1.0, 1.0), [-1.0], SPACE[:1]), "inside the support"),
    "no space": (lambda rc: rc.update(DIST[:5], Y[:5]), "space_cal must be an array"),
    "no distribution": (lambda rc: rc.update(3.0, Y[:5], SPACE[:5]), "dist_cal must be"),
    "too far": (lambda rc: rc.update(DIST[:1], Y[:1], [[1e200, 0, 0]]), "magnitude below"),
    "too few": (lambda rc: rc.forget(keep_last=24), "forget must leave at least k=25 .* got 24"),
    "too few rows": (lambda rc: rc.forget(slice(0, FIRST - 20)), "forget must leave at least k=25 .* got 20"),
    "all": (lambda rc: rc.forget(slice(None)), "rows must leave at least one"),
    "none left": (lambda rc: rc.forget(keep_last=0), "keep_last must be a whole number >= 1"),
    "both": (lambda rc: rc.forget([0], keep_last=200), "exactly one of rows and keep_last"),
    "neither": (lambda rc: rc.forget(), "exactly one of rows and keep_last"),
    "no row": (lambda rc: rc.forget([FIRST + 1]), "out of range"),
    "no mask": (lambda rc: rc.forget(np.zeros(5, bool)), "mask must have shape"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_fails_changes_nothing(name):
    change, message = FAILURES[name]
    rc = nc.LocalRecalibrator(k=25).fit(DIST[:FIRST], Y[:FIRST], SPACE[:FIRST])
    for rows in (np.arange(FIRST), np.append(np.arange(FIRST), 7)):
        if len(rows) > FIRST:
            rc.update(DIST[7:8], Y[7:8], SPACE[7:8])
        before, held = dict(vars(rc)), said(rc)
        if not (name == "no row" and len(rows) > FIRST) and not (name == "too few rows" and len(rows) > FIRST):
            with pytest.raises((nc.InvalidInputError, nc.InvalidParameterError, IndexError), match=message):
                change(rc)
        assert vars(rc).keys() == before.keys()
        assert all(value is before[key] for key, value in vars(rc).items())
        for a, b in zip(said(rc), held, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_direction_is_needed_where_directions_are_compared():
    rc = nc.LocalRecalibrator(k=25, metric="cosine").fit(DIST[:FIRST], Y[:FIRST], SPACE[:FIRST])
    with pytest.raises(nc.InvalidInputError, match="space_cal must have no zero row"):
        rc.update(DIST[:1], Y[:1], np.zeros((1, 3)))


@pytest.mark.parametrize("recalibrator", [nc.LocalRecalibrator(k=25), *ALL_ROWS], ids=repr)
def test_nothing_to_learn_and_nothing_to_forget_change_nothing(recalibrator):
    rc = copy.deepcopy(recalibrator).fit(DIST[:FIRST], Y[:FIRST], SPACE[:FIRST])
    before = dict(vars(rc))
    for it in (
        rc.update(None, [], []),
        rc.update(DIST[:1], Y[:0], SPACE[:0]),
        rc.forget([]),
        rc.forget(np.zeros(FIRST, bool)),
        rc.forget(keep_last=FIRST),
        rc.forget(keep_last=10**6),
    ):
        assert it is rc
        assert all(value is before[key] for key, value in vars(rc).items())


@pytest.mark.parametrize("recalibrator", [nc.LocalRecalibrator(k=25), nc.KNNRegressor(k=25), *ALL_ROWS], ids=repr)
def test_not_before_a_fit(recalibrator):
    for change in (
        lambda rc: rc.update(DIST, Y, SPACE),
        lambda rc: rc.forget(keep_last=3),
        lambda rc: rc.relearn(),
    ):
        with pytest.raises(nc.NotFittedError):
            change(copy.deepcopy(recalibrator))


@pytest.mark.parametrize(
    "recalibrator", [nc.QuantileNetRecalibrator(epochs=1, rng=1), nc.GPBetaRecalibrator()], ids=repr
)
def test_those_that_cannot_say_so(recalibrator):
    recalibrator.n_cal_ = 9  # as if fitted, which takes a while
    name = type(recalibrator).__name__
    with pytest.raises(nc.InvalidParameterError, match=f"{name} cannot be updated, since its .* fit it again"):
        recalibrator.update(DIST[:5], Y[:5], SPACE[:5])
    with pytest.raises(nc.InvalidParameterError, match=f"{name} cannot be made to forget, since its .* fit it again"):
        recalibrator.forget([0])


@pytest.mark.parametrize("recalibrator", [nc.IsotonicRecalibrator(), nc.ConformalRecalibrator()], ids=repr)
def test_a_law_that_the_rest_does_not_tell(recalibrator):
    rc = recalibrator.fit(nc.Normal(np.zeros(3), 1.0), [1.0, 1.0, 2.0])
    before = dict(vars(rc))
    with pytest.raises(nc.InvalidInputError, match="at least two different"):
        rc.forget([2])
    assert all(value is before[key] for key, value in vars(rc).items())


WEIGHTED = {
    "k": nc.LocalRecalibrator(k=25),
    "radius": nc.LocalRecalibrator(radius=nc.Radius(1.0, 20)),
    "learnt": nc.LocalRecalibrator(
        k=25, scaling="standard", quantile_rule="predictive", corrections=(nc.LocalLinear(), nc.Polish(), nc.Fade())
    ),
    "neighbours alone": nc.KNNRegressor(k=25),
    "global": nc.GlobalRecalibrator(),
    "isotonic": nc.IsotonicRecalibrator(),
    "conformal": nc.ConformalRecalibrator(),
}


@pytest.mark.parametrize("first", ["none", "one for all", "each its own"])
@pytest.mark.parametrize("recalibrator", WEIGHTED.values(), ids=WEIGHTED)
def test_points_that_are_added_have_weights_beside_the_others(recalibrator, first):
    """Weights stay as they were given, also where all first points had the same; zeros are as if absent."""
    later = np.where(np.arange(N - FIRST) % 7 == 0, 0.0, RNG.uniform(0.5, 3.0, N - FIRST))
    before = {"none": None, "one for all": np.full(FIRST, 2.5), "each its own": RNG.uniform(1, 2, FIRST)}[first]
    given = np.concatenate([np.ones(FIRST) if before is None else before, later])
    space, parts = SPACES["normal"], (slice(0, FIRST), slice(FIRST, N))
    (old, new), fresh = parts, copy.deepcopy(recalibrator).fit(DIST, Y, space, sample_weight=given)
    updated = copy.deepcopy(recalibrator).fit(DIST[old], Y[old], space[old], sample_weight=before)
    updated.update(DIST[new], Y[new], space[new], sample_weight=later).relearn()
    assert_same(updated, fresh)
    left = given[given > 0][50:]
    assert_same(
        updated.forget(np.arange(50)).relearn(),
        copy.deepcopy(recalibrator).fit(
            DIST[given > 0][50:], Y[given > 0][50:], space[given > 0][50:], sample_weight=left
        ),
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=8))
def test_ranks_follow_those_of_before(seed, steps):
    """Equal scores are placed by index, whenever they came."""
    rng = np.random.default_rng(seed)
    scores = CalibrationScores(np.round(rng.normal(size=20), 1))
    for size, is_extended, is_asked in steps:
        if is_extended:
            scores = scores.extended(CalibrationScores(np.round(rng.normal(size=size), 1)))
        else:
            scores = scores.restricted(np.flatnonzero(rng.random(len(scores)) < 0.9))
        if is_asked:
            assert len(scores.ranks) == len(scores)
    fresh = CalibrationScores(scores.z.copy())
    np.testing.assert_array_equal(scores.ranks, fresh.ranks)
    np.testing.assert_array_equal(scores.ranks, np.argsort(np.argsort(scores.z, kind="stable")))
    np.testing.assert_array_equal(scores.sorted_z, np.sort(scores.z))
    assert scores.ranks.dtype == fresh.ranks.dtype
    assert scores.has_ties == (len(np.unique(scores.z)) < len(scores))
