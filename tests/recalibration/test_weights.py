"""Weights of calibration points: whole weights are repeated rows, equal ones are none, zeros are absent."""

import numpy as np
import pytest
from scipy.special import ndtri

import nearcal as nc
from nearcal._sample_weights import PointWeights
from nearcal.distributions.interpolation import through_draws
from nearcal.recalibration import SMOOTHINGS, THINS
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.neighborhoods import KNearest, WithinRadius
from nearcal.recalibration.shrinkage import LearntShrinkage
from nearcal.space import METRICS, SCALINGS, CalibrationSpace, Scaling
from tests import reference
from tests.persistence.cases import answers
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, D, M, N, Y

RNG = np.random.default_rng(11)
COPIES = np.where(np.arange(N) % 2 == 0, 1, 3)[RNG.permutation(N)]  # of mean 2: k neighbours of weights are 2k copies
REPEATED = np.repeat(np.arange(N), COPIES)
UNEVEN = RNG.gamma(1.0, size=N) + 0.02
LEVELS = np.array([0.0, 0.011, 0.05, 0.3, 0.5, 0.77, 0.95, 1.0])
GRID = np.maximum(np.round(SPACE), 1.0)  # ties
GAMMA, GAMMA_NEW = nc.Gamma(RNG.uniform(2, 9, N), 1.5), nc.Gamma(RNG.uniform(2, 9, M), 1.5)
Y_GAMMA = GAMMA.from_z(Y)


def statistics(out):
    """All that depends on a distribution alone, and not on how many points stand behind it."""
    y = np.array([[-1.0, 0.4, 2.0]])
    tables = [
        out.mean(),
        out.std(),
        out.cdf(y),
        out.sf(y),
        out.ppf(LEVELS),
        nc.scores.crps(out, np.full(len(out), 0.3)),
    ]
    return np.column_stack([np.reshape(table, (len(out), -1)) for table in (*tables, out.sample(3, rng=1))])


def both(recalibrator, repeated, space=SPACE, dist=DIST, y=Y, new=NEW):
    """Return the result with weights, and with repeated rows."""
    weighted = recalibrator.fit(dist, y, space, sample_weight=COPIES).recalibrate(new, SPACE_NEW)
    rows = REPEATED
    return weighted, repeated.fit(dist[rows], y[rows], space[rows]).recalibrate(new, SPACE_NEW)


# ---- whole weights --------------------------------------------------------------------------------------------------

SEARCHES = [{"search": search} for search in ("boxes", "brute", "kdtree")] + [{"metric": metric} for metric in METRICS]


@pytest.mark.parametrize("space", [SPACE, GRID], ids=["anywhere", "ties"])
@pytest.mark.parametrize("options", SEARCHES, ids=str)
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_whole_weights_are_repeated_rows(smoothing, options, space):
    options = {**options, "smoothing": smoothing}
    weighted, repeated = both(nc.LocalRecalibrator(k=9, **options), nc.LocalRecalibrator(k=18, **options), space)
    np.testing.assert_allclose(statistics(weighted), statistics(repeated), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(weighted.radius, repeated.radius)


@pytest.mark.parametrize("thin", [thin for thin in THINS if thin != "raise"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_whole_weights_are_repeated_rows_within_a_radius(smoothing, thin):
    weighted, repeated = both(
        nc.LocalRecalibrator(radius=nc.Radius(1.2, 5, thin), smoothing=smoothing),
        nc.LocalRecalibrator(radius=nc.Radius(1.2, 10, thin), smoothing=smoothing),
    )
    np.testing.assert_allclose(statistics(weighted), statistics(repeated), rtol=1e-12, atol=1e-12)
    thin_rows = (np.linalg.norm(SPACE_NEW[:, None] - SPACE[REPEATED], axis=2) <= 1.2).sum(axis=1) < 10
    assert 0 < thin_rows.sum() < M


def test_of_a_thin_row_the_weight_is_told():
    weights = np.full(N, 1.0)
    weights[0] = 2.0
    rc = nc.LocalRecalibrator(radius=nc.Radius(0.9, 30, "raise")).fit(DIST, Y, SPACE, sample_weight=weights)
    out = rc.recalibrate(NEW, SPACE_NEW)
    with pytest.raises(nc.ThinNeighborhoodError, match=r"min_neighbors=30 .* row 0 has \d+\.\d+, and 12 rows"):
        out.mean()


@pytest.mark.parametrize("scaling", [name for name in SCALINGS if name != "relevance"])
def test_scalings_count_by_weight(scaling):
    for how in (scaling, nc.Scaling(scaling, 2)):
        weighted, repeated = both(nc.LocalRecalibrator(k=9, scaling=how), nc.LocalRecalibrator(k=18, scaling=how))
        np.testing.assert_allclose(weighted.radius, repeated.radius, rtol=1e-9)
        np.testing.assert_allclose(weighted.mean(), repeated.mean(), rtol=1e-7)


def test_relevance_counts_by_weight():
    """One column tells something about rows of weight 10 alone, the other about rows of weight 1."""
    rng = np.random.default_rng(0)
    x, heavy = rng.uniform(-1, 1, size=(3000, 2)), rng.random(3000) < 0.5
    z = rng.normal(2 * np.where(heavy, x[:, 0], x[:, 1]), 1.0)
    plain = Scaling("relevance").learn(x, z).matrix
    weights = np.where(heavy, 10.0, 0.1)
    weighted = Scaling("relevance").learn(x, z, weights / weights.mean()).matrix
    assert plain[1] > 0.7 * plain[0]
    assert weighted[1] < 0.3 * weighted[0]


def test_other_families_too():
    weighted, repeated = both(
        nc.LocalRecalibrator(k=9), nc.LocalRecalibrator(k=18), dist=GAMMA, y=Y_GAMMA, new=GAMMA_NEW
    )
    np.testing.assert_allclose(statistics(weighted), statistics(repeated), rtol=1e-12, atol=1e-12)


def test_nearest_neighbour_regression():
    weighted, repeated = both(nc.KNNRegressor(k=9), nc.KNNRegressor(k=18))
    np.testing.assert_allclose(statistics(weighted), statistics(repeated), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "make", [nc.GlobalRecalibrator, nc.IsotonicRecalibrator, nc.VarianceScaling, nc.IdentityRecalibrator]
)
@pytest.mark.parametrize("y", [Y, np.round(Y, 1)], ids=["scores", "ties"])
def test_whole_weights_are_repeated_rows_in_methods_of_all_rows(make, y):
    weighted, repeated = both(make(), make(), y=y)
    np.testing.assert_allclose(statistics(weighted), statistics(repeated), rtol=1e-11, atol=1e-11)
    weighted, repeated = both(make(), make(), dist=GAMMA, y=Y_GAMMA, new=GAMMA_NEW)
    np.testing.assert_allclose(statistics(weighted), statistics(repeated), rtol=1e-11, atol=1e-11)


# ---- equal weights, and none ----------------------------------------------------------------------------------------

METHODS = {
    "k": lambda: nc.LocalRecalibrator(k=9),
    "radius": lambda: nc.LocalRecalibrator(radius=nc.Radius(1.5, 5)),
    "all corrections": lambda: nc.LocalRecalibrator(
        k=20, scaling="relevance", quantile_rule="predictive",
        corrections=(nc.Trend(), nc.LocalLinear(), nc.Shrinkage(), nc.Polish()),
    ),
    "knn": lambda: nc.KNNRegressor(k=9),
    "global": nc.GlobalRecalibrator,
    "global, conservative": lambda: nc.GlobalRecalibrator(quantile_rule="conservative"),
    "global, predictive": lambda: nc.GlobalRecalibrator(quantile_rule="predictive"),
    "isotonic": nc.IsotonicRecalibrator,
    "variance scaling": nc.VarianceScaling,
    "conformal": nc.ConformalRecalibrator,
    "none": nc.IdentityRecalibrator,
    "network": lambda: nc.QuantileNetRecalibrator(epochs=2, rng=0),
    "tuned": None,
}  # fmt: skip


def fitted(name, dist, y, space, weights=None):
    if name == "tuned":
        return nc.tune(dist, y, space, k=(10, 20), time=False, sample_weight=weights).recalibrator
    return METHODS[name]().fit(dist, y, space, sample_weight=weights)


@pytest.mark.parametrize("name", METHODS)
def test_equal_weights_change_no_bit(name):
    expected = answers(fitted(name, DIST, Y, SPACE), D)
    for weights in (np.full(N, 0.37), np.full(N, 5)):
        assert answers(fitted(name, DIST, Y, SPACE, weights), D) == expected


@pytest.mark.parametrize("name", METHODS)
def test_rows_of_weight_zero_are_absent(name):
    kept = np.flatnonzero(RNG.random(N) < 0.8)
    for of_kept in (np.full(len(kept), 2.0), UNEVEN[kept]):
        weights = np.zeros(N)
        weights[kept] = of_kept
        expected = answers(fitted(name, DIST[kept], Y[kept], SPACE[kept], weights[kept]), D)
        assert answers(fitted(name, DIST, Y, SPACE, weights), D) == expected


@pytest.mark.parametrize("name", METHODS)
def test_weights_matter_and_their_unit_does_not(name):
    weighted = answers(fitted(name, DIST, Y, SPACE, UNEVEN), D)
    if name != "none":
        assert weighted != answers(fitted(name, DIST, Y, SPACE), D)
    assert answers(fitted(name, DIST, Y, SPACE, 2.0**-40 * UNEVEN), D) == weighted


@pytest.mark.parametrize("options", [{"k": 30}, {"radius": nc.Radius(0.6, 10)}], ids=str)
def test_a_row_is_the_same_alone_and_in_any_chunk(options):
    rng = np.random.default_rng(5)
    x, weights = rng.normal(size=(1000, 2)), np.where(rng.random(1000) < 0.02, 50.0, 0.01)
    y, dist = rng.normal(size=1000), nc.Normal(np.zeros(1000), 1.0)
    outs = []
    for workers in (nc.Workers(threads=1), nc.Workers(threads=3, memory=2**20)):
        rc = nc.LocalRecalibrator(**options, workers=workers, quantile_rule="predictive", corrections=(nc.Polish(),))
        outs.append(rc.fit(dist, y, x, sample_weight=weights).recalibrate(dist, x))
    whole = outs[0].ppf([0.1, 0.9])
    np.testing.assert_array_equal(whole, outs[1].ppf([0.1, 0.9]))
    for row in (0, 777):
        np.testing.assert_array_equal(outs[0][row].ppf([0.1, 0.9])[0], whole[row])


# ---- what depends on the number of points ---------------------------------------------------------------------------


def neighborhood_of(query, k, smoothing="epanechnikov", weights=UNEVEN, left_out=None):
    """Return indices and weights of the neighbours of a row, and the weight of the row itself beside them."""
    relative = weights / weights.mean()
    distances = np.linalg.norm(SPACE - query, axis=1)
    if left_out is not None:
        distances[left_out], relative[left_out] = np.inf, 0.0
    indices, distances, shares = reference.nearest_of_weight(distances, relative, min(k, relative.sum()))
    return indices, *reference.point_weights(distances, shares, distances[shares > 0].max(), smoothing)


def weighted_local(**options):
    return nc.LocalRecalibrator(k=12, **options).fit(DIST, Y, SPACE, sample_weight=UNEVEN).recalibrate(NEW, SPACE_NEW)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_effective_size_is_that_of_kish(smoothing):
    out = weighted_local(smoothing=smoothing)
    expected = [1 / (neighborhood_of(query, 12, smoothing)[1] ** 2).sum() for query in SPACE_NEW]
    np.testing.assert_allclose(out.effective_size, expected, rtol=1e-10)
    np.testing.assert_allclose(
        nc.GlobalRecalibrator().fit(DIST, Y, sample_weight=UNEVEN).recalibrate(NEW).effective_size,
        UNEVEN.sum() ** 2 / (UNEVEN**2).sum(),
    )


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
def test_curves_go_through_weighted_scores_at_their_effective_size(rule):
    out = weighted_local(quantile_rule=rule)
    for row, query in enumerate(SPACE_NEW):
        indices, weights, _ = neighborhood_of(query, 12)
        order = np.argsort(Y[indices])
        size = np.array([1 / (weights**2).sum()]) if rule == "predictive" else None
        line = through_draws(Y[indices][order][np.newaxis], weights[order][np.newaxis], size)
        expected = NEW.loc[row] + NEW.scale[row] * line.from_z(ndtri(LEVELS[1:-1])[np.newaxis])[0]
        np.testing.assert_allclose(out.ppf(LEVELS[1:-1])[row], expected, rtol=1e-9)


@pytest.mark.parametrize("smoothing", ["epanechnikov", "uniform"])
def test_the_conservative_rule_gives_the_new_point_the_weight_of_its_neighbours(smoothing):
    out = weighted_local(quantile_rule="conservative", smoothing=smoothing)
    for row, query in enumerate(SPACE_NEW):
        indices, weights, own = neighborhood_of(query, 12, smoothing)
        values = NEW.loc[row] + NEW.scale[row] * Y[indices]
        expected = [reference.conservative_quantile(values, weights, own, p) for p in LEVELS]
        np.testing.assert_allclose(out.ppf(LEVELS)[row], expected, rtol=1e-12)


def test_the_conservative_rule_for_all_rows():
    out = nc.GlobalRecalibrator(quantile_rule="conservative").fit(DIST, Y, sample_weight=UNEVEN).recalibrate(NEW)
    shares = UNEVEN / UNEVEN.sum()
    own = (shares**2).sum()
    for row in range(M):
        values = NEW.loc[row] + NEW.scale[row] * Y
        expected = [reference.conservative_quantile(values, shares, own, p) for p in LEVELS]
        np.testing.assert_allclose(out.ppf(LEVELS)[row], expected, rtol=1e-12)
    inner = out.ppf(LEVELS[1:-1])
    assert (out.cdf(inner) >= LEVELS[1:-1] - 1e-9).all()
    np.testing.assert_allclose(out.cdf(inner) + out.sf(inner), 1.0)


def test_the_predictive_rule_for_all_rows():
    out = nc.GlobalRecalibrator(quantile_rule="predictive").fit(DIST, Y, sample_weight=UNEVEN).recalibrate(NEW)
    order, shares = np.argsort(Y), UNEVEN / UNEVEN.sum()
    line = through_draws(Y[order][np.newaxis], shares[order][np.newaxis], np.array([1 / (shares**2).sum()]))
    expected = NEW.loc[:, np.newaxis] + NEW.scale[:, np.newaxis] * line.from_z(ndtri(LEVELS[1:-1])[np.newaxis])
    np.testing.assert_allclose(out.ppf(LEVELS[1:-1]), expected, rtol=1e-9)


# ---- corrections, and leave-one-out ---------------------------------------------------------------------------------


def test_local_linear_regresses_with_the_weights():
    out = weighted_local(corrections=(nc.LocalLinear(),))
    for row, query in enumerate(SPACE_NEW):
        indices, weights, _ = neighborhood_of(query, 12)
        if len(indices) < 10:  # too few for a slope
            continue
        # twelve neighbours afford one slope, along the widest axis of all points
        axis = np.linalg.svd(SPACE - SPACE.mean(axis=0))[2][:1].T
        moved = reference.local_linear(SPACE[indices] @ axis, query @ axis, weights, Y[indices], 1e-3)
        np.testing.assert_allclose(out.mean()[row], NEW.loc[row] + NEW.scale[row] * (weights @ moved), rtol=1e-7)


def left_out(weights, rule="predictive", k=None, radius=None):
    views = CalibrationSpace(SPACE, Y, Scaling("none"), 10).views
    points = PointWeights(np.asarray(weights, dtype=np.float64))
    around = KNearest(k, 0.0, "gaussian", points) if radius is None else WithinRadius(radius, "gaussian", N, points)
    return LeaveOneOut(CalibrationScores(Y, points), lambda: views, around, rule, nc.Workers())


@pytest.mark.parametrize("options", [{"k": 9}, {"k": N}, {"radius": nc.Radius(1.4, 4)}], ids=str)
def test_a_row_is_left_out_with_all_its_copies(options):
    moments = left_out(COPIES, **options).gather(
        lambda steps, rows: np.stack(steps.score_moments(), axis=1), np.empty((N, 2))
    )
    for row in range(N):
        others = REPEATED[row != REPEATED]
        fewer = {"k": min(2 * options.get("k", 1), len(others))}
        how = fewer if "k" in options else {"radius": nc.Radius(1.4, 8, "base")}
        rc = nc.LocalRecalibrator(**how, smoothing="gaussian").fit(DIST[others], Y[others], SPACE[others])
        out = rc.recalibrate(DIST[[row]], SPACE[[row]])
        if out.effective_size[0] == 0:
            assert np.isnan(moments[row]).all()
        else:
            np.testing.assert_allclose(moments[row], [out.mean()[0], out.var()[0]], rtol=1e-10, atol=1e-12)
    assert np.isfinite(moments).any()


def test_polish_ranks_by_weight():
    """The probability that a score is worth, counted score by score, with the effective size for their number."""
    loo = left_out(UNEVEN, k=9)
    scores = loo.gather(lambda steps, rows: loo.law(steps).after(Y[rows][:, np.newaxis])[:, 0], np.empty(N))
    learnt = nc.Polish().learn(loo, loo.views()[0])
    size = UNEVEN.sum() ** 2 / (UNEVEN**2).sum()
    share = [(UNEVEN[scores < s].sum() + UNEVEN[scores == s].sum() / 2) / UNEVEN.sum() for s in np.sort(scores)]
    worth = ndtri((size * np.array(share) + 0.5) / (size + 1))
    after, before = learnt.map.line.scores[0], learnt.map.line.values[0]
    np.testing.assert_allclose(after, worth, rtol=1e-9)  # so few that all are knots
    np.testing.assert_allclose(before, np.clip(np.sort(scores), worth - 1 - abs(worth), worth + 1 + abs(worth)))


def test_shrinkage_counts_by_weight():
    loo = left_out(UNEVEN, k=9)
    found = nc.Shrinkage().learn(loo, loo.views()[0])
    mean, variance, size = (np.empty(N) for _ in range(3))
    for row in range(N):
        indices, weights, _ = neighborhood_of(SPACE[row], 9, "gaussian", left_out=row)
        mean[row], variance[row] = reference.weighted_moments(Y[indices], weights)
        size[row] = 1 / (weights**2).sum()
    variance *= size / np.maximum(size - 1, 1)
    n = UNEVEN.sum() ** 2 / (UNEVEN**2).sum()
    center = np.average(Y, weights=UNEVEN)
    spread = np.average((Y - center) ** 2, weights=UNEVEN)
    log_spread = np.log(spread) / 2
    center *= max(1 - spread / n / center**2, 0)
    log_spread *= max(1 - 0.5 / n / log_spread**2, 0)
    of_means = np.average((mean - center) ** 2 - variance / np.maximum(size, 1), weights=UNEVEN)
    known = variance > 0
    of_spreads = (np.log(variance[known]) / 2 - log_spread) ** 2 - 0.5 / np.maximum(size[known], 1)
    expected = [center, log_spread, max(of_means, 0), max(np.average(of_spreads, weights=UNEVEN[known]), 0)]
    assert isinstance(found, LearntShrinkage)
    np.testing.assert_allclose(
        [found.mean, found.log_spread, found.mean_variance, found.log_spread_variance], expected, rtol=1e-9, atol=1e-12
    )


def test_reliability_asks_how_far_the_weight_reaches():
    """Weights tell which points speak; how isolated a row is, is told by all calibration points alike."""
    out = weighted_local()
    own = [neighborhood_radius(query, row) for row, query in enumerate(SPACE)]
    new = [neighborhood_radius(query) for query in SPACE_NEW]
    expected = [(1 + (np.array(own) >= radius).sum()) / (1 + N) for radius in new]
    np.testing.assert_allclose(out.reliability()["p_value"], expected)


def neighborhood_radius(query, left_out=None):
    indices = neighborhood_of(query, 12, left_out=left_out)[0]
    distances = np.linalg.norm(SPACE[indices] - query, axis=1)
    return distances[indices != left_out].max()


# ---- a network ------------------------------------------------------------------------------------------------------


def test_a_quantile_network_learns_by_weight():
    """Two populations under one prediction: weights choose whose spread is learnt."""
    rng = np.random.default_rng(0)
    wide = rng.random(1500) < 0.5
    y, dist = rng.normal(0, np.where(wide, 6.0, 1.0)), nc.Normal(np.zeros(1500), 2.0)
    new = nc.Normal([0.0], 2.0)
    spread = [
        nc.QuantileNetRecalibrator(epochs=40, rng=1)
        .fit(dist, y, sample_weight=np.where(wide == of_wide, 1.0, 1e-3))
        .recalibrate(new)
        .std()[0]
        for of_wide in (True, False)
    ]
    assert spread[0] > 4 > 2 > spread[1]
