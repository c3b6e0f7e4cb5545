"""A row's result depends on that row alone, to the last bit: not on the rows beside it, nor on how many there are."""

import numpy as np
import pytest

import nearcal as nc
from tests.distributions.cases import ROWS, families, places, recalibrators

P = np.array([1e-6, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-6])
ALONE = [[0], [5], [6], [23]]  # by turns
SOME = [slice(3, 10), np.arange(ROWS) % 3 == 1, np.array([4, 4, 21, 1]), np.arange(ROWS)[::-1]]
FAMILIES = families()
RECALIBRATORS = recalibrators(700)
# of every recalibrator: a family whose quantiles are searched, with shapes that differ and with one, and others in turn
OTHERS = ["lognormal", "student", "samples", "normal", "empirical samples", "student, one df", "quantiles", "laplace"]
BASES = {name: ("gamma", "gamma, one shape", OTHERS[i % 8]) for i, name in enumerate(RECALIBRATORS)}


def statistics(d, y, z):
    """Return every statistic, one row a row."""
    lower, upper = d.interval(0.9)
    found = {"mean": d.mean(), "var": d.var(), "std": d.std(), "median": d.median(), "lower": lower, "upper": upper}
    for name in ("cdf", "sf", "logcdf", "logsf", "cdf_left", "z"):
        found[name] = getattr(d, name)(y)
    if d.has_density:
        found |= {"pdf": d.pdf(y), "logpdf": d.logpdf(y)}
    return found | {"ppf": d.ppf(P), "from_z": d.from_z(z), "crps": nc.scores.crps(d, y[:, 0])}


def check(d, selections):
    rng = np.random.default_rng(1)
    z = 2 * rng.normal(size=(len(d), 4))
    y = np.column_stack([d.from_z(z[:, :2]), d.median(), d.median() + d.std() * rng.normal(size=len(d))])
    whole = statistics(d, y, z)
    for rows in selections:
        for name, part in statistics(d[rows], y[rows], z[rows]).items():
            assert np.array_equal(part, whole[name][rows], equal_nan=True), f"{name} of rows {rows}"


@pytest.mark.parametrize("name", FAMILIES)
def test_slicing_a_family_equals_slicing_the_results(name):
    check(FAMILIES[name], [*ALONE, *SOME])


@pytest.mark.parametrize("name", RECALIBRATORS)
def test_slicing_what_is_recalibrated_equals_slicing_the_results(name):
    for turn, base in enumerate(BASES[name], start=list(RECALIBRATORS).index(name)):
        # every selection of every recalibrator, if not of each of its three bases
        selections = [ALONE[turn % 4], SOME[turn % 4], SOME[(turn + 1) % 4]]
        check(RECALIBRATORS[name].recalibrate(FAMILIES[base], places()), selections)


def test_radii_hold_neighbourhoods_of_very_different_sizes():
    """Else the tests above would say nothing of short rows beside long ones."""
    for name in ("radius, nearest", "radius, polished"):
        sizes = (RECALIBRATORS[name].recalibrate(FAMILIES["normal"], places()).neighbors(slice(None)).weights > 0).sum(
            1
        )
        assert sizes.max() > 4 * sizes.min()
    assert sizes.max() > 350  # with those of the polish, more than a hundred knots: other nodes for the CRPS


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_recalibrating_rows_by_themselves_equals_slicing_the_results(rows):
    """From the space on: scaling, search and corrections as well."""
    rc = RECALIBRATORS["polished"]  # whitened
    whole = rc.recalibrate(FAMILIES["gamma"], places())
    for start in range(0, ROWS, rows):
        part = slice(start, start + rows)
        alone = rc.recalibrate(FAMILIES["gamma"][part], places()[part])
        np.testing.assert_array_equal(alone.mean(), whole.mean()[part])
        np.testing.assert_array_equal(alone.ppf(P), whole.ppf(P)[part])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["step", "linear, shrunk, polished", "radius, polished"])
def test_chunks_and_threads_change_nothing(name, threads):
    rc = RECALIBRATORS[name]
    base, space = FAMILIES["gamma"][np.arange(400) % ROWS], places()[np.arange(400) % ROWS]
    small = nc.Workers(threads, 2**20)
    whole = rc.recalibrate(FAMILIES["gamma"], places())
    before = rc.workers
    try:
        many = rc.set_params(workers=small).recalibrate(base, space)
        for statistic in ("mean", "median"):
            expected = getattr(whole, statistic)()[np.arange(400) % ROWS]
            np.testing.assert_array_equal(getattr(many, statistic)(), expected)
    finally:
        rc.set_params(workers=before)


def test_slices_take_the_rows_they_name():
    d = FAMILIES["normal"]
    for rows in (1, -1, [1], slice(1, 3)):
        expected = np.atleast_1d(np.arange(ROWS)[rows])
        np.testing.assert_array_equal(d[rows].loc, d.loc[expected])
        assert len(d[rows]) == len(expected)


# ---- shapes of questions --------------------------------------------------------------------------------------------


def test_values_common_to_all_rows():
    d = nc.Normal([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    y = np.array([[-1.0, 0.0, 0.5, 7.0]])
    for name in ("cdf", "cdf_left", "sf", "logcdf", "logsf", "pdf", "logpdf", "z", "from_z"):
        ask = getattr(d, name)
        np.testing.assert_array_equal(ask(y), ask(np.tile(y, (3, 1))))
    np.testing.assert_array_equal(d.ppf([[0.1, 0.5]]), d.ppf([0.1, 0.5]))
    np.testing.assert_array_equal(d.cdf(np.arange(3.0)), d.cdf(np.arange(3.0)[:, None])[:, 0])  # (n,) is one a row


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 1, 3)])
def test_a_wrong_length_is_told_how_to_ask_for_all_rows(shape):
    with pytest.raises(
        nc.InvalidInputError, match=r"\(3,\), one value a row, .* \(1, q\), the same .* np\.reshape\(y, \(1, -1\)\)"
    ):
        nc.Normal(np.zeros(3), 1.0).cdf(np.zeros(shape))


def as_close_as_numbers_get(values, count=4):
    """Return values with the numbers before and after them, in no order."""
    steps = np.arange(-count, count + 1)
    return np.random.default_rng(2).permutation((values + steps[:, None] * np.spacing(np.abs(values))).ravel())


@pytest.mark.parametrize("name", FAMILIES)
def test_quantiles_asked_for_together_do_not_decrease_in_the_level(name):
    """Searches and series round each by itself, and levels next to each other came out in either order."""
    d, rng = FAMILIES[name], np.random.default_rng(4)
    p, z = as_close_as_numbers_get(rng.uniform(size=60)), as_close_as_numbers_get(2 * rng.normal(size=60))
    assert (np.diff(d.ppf(p)[:, np.argsort(p)], axis=1) >= 0).all()
    of_each = np.stack([rng.permutation(z) for _ in range(len(d))])
    for scores in (z[np.newaxis], of_each):
        order = np.argsort(np.broadcast_to(scores, (len(d), len(z))), axis=1)
        assert (np.diff(np.take_along_axis(d.from_z(scores), order, axis=1), axis=1) >= 0).all()


def test_ends_of_intervals_do_not_cross_where_scores_are_all_but_equal():
    """All in one place but for an ulp, under a family whose quantiles are searched."""
    n, rng = 40, np.random.default_rng(0)
    z = 1.5 + np.spacing(1.5) * rng.integers(-3, 4, size=n)
    base, x = nc.Gamma(rng.uniform(0.05, 9.0, 200), 1.0), np.zeros(200)
    for rc in (
        nc.LocalRecalibrator(k=n),
        nc.LocalRecalibrator(k=n, quantile_rule="predictive"),
        nc.GlobalRecalibrator(),
        nc.ConformalRecalibrator(),
    ):
        out = rc.fit(nc.Normal(np.zeros(n), 1.0), z, np.zeros(n)).recalibrate(base, x)
        lower, upper = out.interval([0.1, 0.5, 0.9])
        assert (lower <= upper).all()
        told = out.summary(0.5, p=[0.4, 0.45, 0.5, 0.55, 0.6])
        assert (told.lower <= told.upper).all()
        assert (np.diff(told.quantiles, axis=1) >= 0).all()


def test_several_coverages():
    d = nc.Gamma([2.0, 3.0, 9.0], 1.0)
    lower, upper = d.interval([0.5, 0.9])
    assert lower.shape == upper.shape == (3, 2)
    for column, coverage in enumerate((0.5, 0.9)):
        np.testing.assert_array_equal(np.array(d.interval(coverage)), [lower[:, column], upper[:, column]])
    conformal = nc.ConformalRecalibrator().fit(nc.Normal(np.zeros(50), 1.0), np.linspace(-2, 2, 50)).recalibrate(d)
    np.testing.assert_array_equal(conformal.interval([0.5, 0.9])[1][:, 1], conformal.interval(0.9)[1])
    for wrong in ([0.5, 1.0], [[0.5]], np.nan):
        with pytest.raises(nc.InvalidParameterError, match="coverage must lie strictly between 0 and 1"):
            d.interval(wrong)
    with pytest.raises(nc.InvalidParameterError, match="coverage must be one number"):
        nc.scores.interval_score(d, np.ones(3), coverage=[0.5, 0.9])
