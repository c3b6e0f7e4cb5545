"""Results are frozen sequences of rows: slicing, immutability, copies, repr."""

import copy
import functools
import itertools
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import nearcal as nc
from tests.recalibration.cases import DIST, FAMILIES, NEW, SPACE, SPACE_NEW, M, P, Y, local, make_family

ROWS = {
    "int": 2,
    "numpy int": np.int64(2),
    "negative int": -1,
    "slice": slice(1, 9, 3),
    "backwards": slice(None, None, -1),
    "mask": np.arange(M) % 2 == 0,
    "mask as a list": [True] + [False] * (M - 1),
    "index array with repeats": np.array([3, 3, 0, -1]),
    "list": [5, 4],
    "torch": torch.tensor([1, 1, 2]),
    "pandas mask": pd.Series(np.arange(M) > 6),
}


@pytest.fixture(scope="module", params=FAMILIES)
def results(request):
    """Return a batch, its recalibration, one with rows left to the base, and a corrected one with a density."""
    dist_cal, y, dist_new = make_family(request.param)
    make = functools.partial(local, y, dist=dist_cal, new=dist_new)
    polished = {"quantile_rule": "predictive", "corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())}
    return [dist_new, make(), make(radius=nc.Radius(2.0, 8, "base")), make(**polished)]


def answers(dist, at):
    return {
        "mean": dist.mean(),
        "var": dist.var(),
        "ppf": dist.ppf(P[1:-1]),
        **{name: getattr(dist, name)(at) for name in ("cdf", "sf", "z")},
        "logpdf": dist.logpdf(at) if dist.has_density else dist.cdf_left(at),
        "crps": nc.scores.crps(dist, at),
    }


def test_slicing_equals_slicing_the_results(results):
    for number, dist in enumerate(results):
        at = dist.median() + 0.1
        whole = answers(dist, at)
        # by turns; tests/distributions/test_rows.py slices every recalibration in all ways
        for rows in (ROWS[name] for name in [("int", "mask"), ("slice", "index array with repeats")][number % 2]):
            index = np.atleast_1d(np.arange(M)[rows if isinstance(rows, slice) else np.asarray(rows)])
            part = dist[rows]
            assert type(part) is type(dist)
            assert len(part) == len(index)
            for name, answer in answers(part, at[index]).items():
                np.testing.assert_array_equal(answer, whole[name][index], err_msg=name)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_slicing_keeps_the_neighbours(rows):
    out = local()
    index = np.atleast_1d(np.arange(M)[rows if isinstance(rows, slice) else np.asarray(rows)])
    for whole, part in zip(out.neighbors(slice(None)), out.neighbors(rows), strict=True):
        np.testing.assert_array_equal(part, whole[index])
    for whole, part in zip(out.weighted_sample(slice(None)), out[rows].weighted_sample(slice(None)), strict=True):
        np.testing.assert_array_equal(part, whole[index])
    np.testing.assert_array_equal(out[rows].effective_size, out.effective_size[index])
    np.testing.assert_array_equal(out[rows].radius, out.radius[index])


def test_one_weighted_row_keeps_its_weights():
    for tails in ("normal", "empirical"):
        one = nc.Samples([[1.0, 2.0, 4.0]], weights=[0.8, 0.1, 0.1], tails=tails)
        np.testing.assert_array_equal(one[[0, 0]].mean(), np.repeat(one.mean(), 2))
        np.testing.assert_array_equal(one[0].ppf(P[1:-1]), one.ppf(P[1:-1]))


def test_rows_can_be_walked():
    assert [row.mean()[0] for row in NEW] == NEW.mean().tolist()


def arrays_of(dist):
    fields = [value for name, value in vars(dist).items() if not name.startswith("_")]
    flat = itertools.chain.from_iterable(field if isinstance(field, tuple) else [field] for field in fields)
    return [field for field in flat if isinstance(field, np.ndarray)]


def test_distributions_are_frozen(results):
    for dist in results:
        twins = [dist, dist[1:], pickle.loads(pickle.dumps(dist)), copy.deepcopy(dist)]
        for twin in twins:
            with pytest.raises(AttributeError, match=f"{type(dist).__name__} is frozen: cannot set 'loc'"):
                twin.loc = 1.0
            with pytest.raises(AttributeError, match="is frozen: cannot delete 'is_continuous'"):
                del twin.is_continuous
            assert not any(array.flags.writeable for array in arrays_of(twin))


def test_answers_can_be_changed_without_harm(results):
    for dist in results:
        expected = dist.mean(), dist.var(), dist.ppf(0.5)
        for answer in (dist.mean(), dist.var(), dist.ppf(0.5)):
            answer[:] = -99.0
        for answer, value in zip((dist.mean(), dist.var(), dist.ppf(0.5)), expected, strict=True):
            np.testing.assert_array_equal(answer, value)
    for kept in (results[1].effective_size, results[1].radius):
        assert not kept.flags.writeable


def test_nothing_changes_with_the_callers_arrays():
    y, space, space_new, loc, scale = Y.copy(), SPACE.copy(), SPACE_NEW.copy(), np.zeros(M), np.ones(M)
    rc = nc.LocalRecalibrator(k=15).fit(DIST, y, space)
    gumbel = nc.from_scipy(stats.gumbel_r(loc, scale))
    expected = rc.recalibrate(gumbel, space_new).mean()
    out = rc.recalibrate(gumbel, space_new)
    for array in (y, space, space_new, loc, scale):
        array[:] = 5.0
    np.testing.assert_array_equal(out.mean(), expected)
    np.testing.assert_array_equal(rc.recalibrate(gumbel, SPACE_NEW).mean(), expected)


def test_round_trips_through_pickle_and_copy(results):
    for dist in results:
        for twin in (pickle.loads(pickle.dumps(dist)), copy.deepcopy(dist), copy.copy(dist)):
            assert repr(twin) == repr(dist)
            np.testing.assert_array_equal(twin.mean(), dist.mean())
            np.testing.assert_array_equal(twin.ppf(P), dist.ppf(P))
            np.testing.assert_array_equal(twin.cdf(1.0), dist.cdf(1.0))
            assert (twin.is_continuous, twin.has_density) == (dist.is_continuous, dist.has_density)


@pytest.mark.parametrize("recalibrator", [nc.LocalRecalibrator(k=5, scaling="whiten"), nc.GlobalRecalibrator()])
def test_recalibrators_round_trip(recalibrator):
    for rc in (recalibrator, recalibrator.fit(DIST, Y, SPACE)):
        for twin in (pickle.loads(pickle.dumps(rc)), copy.deepcopy(rc)):
            assert twin.get_params() == rc.get_params()
            assert repr(twin) == repr(rc)
    expected = recalibrator.recalibrate(NEW, SPACE_NEW).mean()
    np.testing.assert_array_equal(twin.recalibrate(NEW, SPACE_NEW).mean(), expected)


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (NEW, "Normal(n=12)"),
        (NEW[0], "Normal(n=1)"),
        (nc.from_scipy(stats.gumbel_r([0.0, 1.0])), "ScipyDistribution(gumbel_r, n=2)"),
        (local(), "Recalibrated(n=12)"),
        (nc.LocalRecalibrator(k=5, smoothing="uniform"), "LocalRecalibrator(k=5, smoothing='uniform')"),
        (nc.LocalRecalibrator(radius=0.5, eps=float("0"), corrections=()), "LocalRecalibrator(radius=0.5)"),
        (nc.GlobalRecalibrator(), "GlobalRecalibrator()"),
    ],
)
def test_repr(thing, expected):
    assert repr(thing) == expected


def test_slicing_a_few_rows_costs_a_few_rows():
    """A chunk is a slice: work on the whole batch for each would grow with the square of the number of rows."""
    large = nc.Normal(np.arange(1_000_000.0), 1.0)
    tracemalloc.start()
    few = large[10:20]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(few.loc, np.arange(10.0, 20.0))
    assert peak < 50_000


def test_neighbourhoods_kept_between_questions_are_not_pickled():
    out = local(Y)
    before = len(pickle.dumps(out))
    out.ppf(0.5)
    assert out.scores._kept
    assert len(pickle.dumps(out)) == before


def test_a_recalibrator_with_an_inverted_file_round_trips():
    pytest.importorskip("faiss")
    rc = nc.LocalRecalibrator(k=10, search="faiss").fit(DIST, Y, SPACE)
    twin = pickle.loads(pickle.dumps(rc))
    np.testing.assert_array_equal(twin.recalibrate(NEW, SPACE_NEW).mean(), rc.recalibrate(NEW, SPACE_NEW).mean())
    np.testing.assert_array_equal(copy.deepcopy(rc).index_.nprobe, rc.index_.nprobe)


def test_summaries_become_tables():
    out = local()
    frame = out.summary(0.9, p=[0.025, 0.5], y=np.zeros(M)).to_pandas()
    assert list(frame) == ["mean", "std", "lower", "upper", "q2.5", "q50", "cdf", "effective_size", "radius", "trust"]
    np.testing.assert_array_equal(frame["q50"], out.median())
    np.testing.assert_array_equal(frame["cdf"], out.cdf(0.0))
    several = out.summary(y=np.zeros((M, 2))).to_table()
    assert [name for name in several.columns if name.startswith("cdf")] == ["cdf_0", "cdf_1"]
    assert "cdf" not in out.summary().to_polars().columns
