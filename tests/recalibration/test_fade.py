"""Fading against slow twins, in every rule and neighbourhood: all, nothing, and what lies between."""

import warnings

import numpy as np
import pytest
from scipy.special import ndtri

import nearcal as nc
from nearcal.recalibration import QUANTILE_RULES
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, M, N, Y, assert_sound

pytestmark = pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")  # most rows here have faded

BELOW = np.linspace(0, 1, M) ** 2  # all degrees of trust, 0 and 1 among them
SCORES = np.linspace(-3, 3, 41)


def fit(rule="step", corrections=(), **options):
    options = options if "radius" in options else {"k": 15, **options}
    polished = (nc.Polish(),) if rule in ("interpolated", "predictive") else ()
    return nc.LocalRecalibrator(**options, quantile_rule=rule, corrections=(*polished, *corrections)).fit(
        DIST, Y, SPACE
    )


def everything(out):
    """All statistics of the rows, one table."""
    said = [out.mean(), out.std(), out.ppf([0.01, 0.3, 0.5, 0.99]), out.cdf(0.7), out.sf(-0.2), out.z(0.7)]
    said += [*out.interval(0.9), nc.scores.crps(out, np.full(len(out), 0.4))]
    said += [out.logpdf(0.3)] if out.has_density else []
    return np.column_stack(said)


def drawn(values, ends, trust, score):
    """What becomes of one value, as documented: outwards by the trust, inwards by less, and between by its score."""
    narrowing = max(0.0, 1 - 50 * (1 - trust) ** 0.5)
    is_up = values > ends
    outwards = (score if is_up else -score) / 2 + 0.5
    share = narrowing + (trust - narrowing) * min(max(outwards, 0.0), 1.0)
    return ends + share * (values - ends)


slow_draw = np.vectorize(drawn, otypes=[float])


# ---- the trust ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.4])
def test_trust_by_isolation_is_as_documented(rate):
    rng = np.random.default_rng(1)
    space, new = rng.normal(size=(200, 2)), rng.normal(size=(60, 2)) * 2
    rc = nc.LocalRecalibrator(k=7, corrections=(nc.Fade(rate),)).fit(
        nc.Normal(np.zeros(200), 1.0), rng.normal(size=200), space
    )
    distances = np.linalg.norm(space[:, np.newaxis] - space, axis=2)
    own = np.sort(np.sort(distances, axis=1)[:, 7])  # itself is the first
    limit = own[min(int(np.ceil((1 - rate) * 201)), 200) - 1]
    end = limit * np.clip(limit / own[100], 1.1, 2.0)
    u = np.sort(np.linalg.norm(new[:, np.newaxis] - space, axis=2), axis=1)[:, 6]
    by_isolation = 1 - np.clip(np.log(u / limit) / np.log(end / limit), 0, 1) ** 2
    by_ranges = rc.corrections_[-1].ranges.trust(new)
    out = rc.recalibrate(nc.Normal(np.zeros(60), 1.0), new)
    np.testing.assert_allclose(out.trust, np.minimum(by_isolation, by_ranges), rtol=1e-9, atol=1e-12)
    assert 0 < (out.trust == 0).sum() < (out.trust < 1).sum() < 60


def test_trust_within_a_radius_counts_neighbours():
    rng = np.random.default_rng(1)
    space, new = rng.normal(size=(200, 2)), rng.normal(size=(60, 2)) * 1.5
    rc = nc.LocalRecalibrator(radius=nc.Radius(0.8, 5), corrections=(nc.Fade(0.1),))
    rc.fit(nc.Normal(np.zeros(200), 1.0), rng.normal(size=200), space)
    own = np.sort((np.linalg.norm(space[:, np.newaxis] - space, axis=2) <= 0.8).sum(axis=1) - 1)[::-1]
    limit = own[min(int(np.ceil(0.9 * 201)), 200) - 1]
    factor = np.clip(own[100] / limit, 1.1, 2.0)
    counts = (np.linalg.norm(new[:, np.newaxis] - space, axis=2) <= 0.8).sum(axis=1)
    with np.errstate(divide="ignore"):
        by_isolation = 1 - np.clip(np.log(limit / counts) / np.log(factor), 0, 1) ** 2
    out = rc.recalibrate(nc.Normal(np.zeros(60), 1.0), new)
    expected = np.minimum(by_isolation, rc.corrections_[-1].ranges.trust(new))
    np.testing.assert_allclose(out.trust, expected, rtol=1e-9, atol=1e-12)


def test_rows_like_the_calibration_set_are_trusted():
    """At a rate of 1%, and 5% for ranges, 6% of 4,000 rows fade on average.

    The rates of a set of 1,000 points vary by √(0.05 · 0.95 / 1000) = 0.7 points: 9% are four of these.
    """
    rng = np.random.default_rng(5)
    space, new = rng.standard_t(5, size=(1000, 3)), rng.standard_t(5, size=(4000, 3))
    rc = nc.LocalRecalibrator(k=50, corrections=(nc.Fade(),)).fit(
        nc.Normal(np.zeros(1000), 1.0), rng.normal(size=1000), space
    )
    trust = rc.recalibrate(nc.Normal(np.zeros(4000), 1.0), new).trust
    assert (trust < 1).mean() < 0.09
    assert trust.mean() > 0.97


def test_a_column_that_leaves_its_range_is_seen_even_if_scaling_shrinks_it():
    rng = np.random.default_rng(2)
    space = rng.uniform(size=(500, 4))
    y = rng.normal(np.zeros(500), np.exp(3 * space[:, 0]))
    rc = nc.LocalRecalibrator(k=50, scaling="relevance", corrections=(nc.Fade(),)).fit(
        nc.Normal(np.zeros(500), 5.0), y, space
    )
    new = rng.uniform(0.1, 0.9, size=(5, 4))
    new[:, 3] = [0.5, space[:, 3].max(), 1.025, 1.2, -3.0]
    trust = rc.recalibrate(nc.Normal(np.zeros(5), 5.0), new).trust
    assert trust[0] == trust[1] == 1
    assert 0.2 < trust[2] < 0.95
    assert (trust[3:] == 0).all()


def test_one_point_tells_nothing():
    rc = nc.LocalRecalibrator(k=1, corrections=(nc.Fade(),)).fit(nc.Normal([0.0], 1.0), [0.3], [[1.0, 2.0]])
    assert rc.recalibrate(nc.Normal([0.0], 1.0), [[50.0, 2.0]]).trust == 1


@pytest.mark.parametrize("n", [20, 62, 2000])
@pytest.mark.parametrize("rate", [1e-3, 1e-5, 1e-12])
@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")
def test_rows_far_enough_away_fade_whatever_the_rate(n, rate):
    rng = np.random.default_rng(n)
    space = rng.normal(size=(n, 3))
    fading = nc.LocalRecalibrator(k=10, corrections=(nc.Fade(rate),))
    rc = fading.fit(nc.Normal(np.zeros(n), 10.0), rng.normal(0.0, 0.1, size=n), space)
    far = [[0.0, 0.0, 0.0], [0.0, 60.0, 0.0], [1e9, 0.0, -1e9]]
    out = rc.recalibrate(nc.Normal(np.zeros(3), 10.0), far)
    np.testing.assert_array_equal(out.trust, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(out.std()[1:], 10.0)


def test_lengths_mean_nothing_to_the_cosine():
    rc = fit(metric="cosine", corrections=(nc.Fade(),))
    assert rc.corrections_[-1].ranges is None
    assert (rc.recalibrate(NEW, SPACE_NEW * 100).trust == rc.recalibrate(NEW, SPACE_NEW).trust).all()


# ---- what becomes of a row ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_all_trust_is_the_recalibrated_row_and_none_its_base_to_the_last_bit(rule):
    rc = fit(rule)
    out = rc.recalibrate(NEW, SPACE_NEW)
    faded = out.faded(BELOW)
    np.testing.assert_array_equal(faded.trust, BELOW)
    assert_sound(faded)
    said, whole, base = everything(faded), everything(out), NEW
    np.testing.assert_array_equal(said[BELOW == 1], whole[BELOW == 1])
    none = BELOW == 0
    for name, arguments in {"mean": (), "std": (), "ppf": (0.3,), "cdf": (0.7,), "z": (0.7,)}.items():
        np.testing.assert_array_equal(getattr(faded, name)(*arguments)[none], getattr(base, name)(*arguments)[none])
    assert (faded.effective_size[none] == 0).all()
    np.testing.assert_array_equal(faded.effective_size[~none], out.effective_size[~none])


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_a_row_does_not_depend_on_the_rows_beside_it(rule):
    faded = fit(rule).recalibrate(NEW, SPACE_NEW).faded(BELOW)
    np.testing.assert_array_equal(np.vstack([everything(faded[row]) for row in range(M)]), everything(faded))
    small = nc.Workers(threads=1, memory=2**20)
    again = fit(rule, workers=small).recalibrate(NEW, SPACE_NEW).faded(BELOW)
    np.testing.assert_array_equal(everything(again), everything(faded))


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
def test_curves_are_blended_at_every_score(rule):
    standard = nc.Normal(np.zeros(M), 1.0)
    out = fit(rule).recalibrate(standard, SPACE_NEW)
    knots = out.scores.law(out.scores.find(slice(0, M))).line.scores
    t = BELOW[:, np.newaxis]
    found, whole = out.faded(BELOW).from_z(knots), out.from_z(knots)
    np.testing.assert_allclose(found, slow_draw(whole, knots, t, knots), rtol=1e-9, atol=1e-9)
    for end in (-1, 1):  # slopes of the tails are blended too
        far, farther = np.array([[30.0 * end]]), np.array([[31.0 * end]])
        slope = end * (out.from_z(farther) - out.from_z(far))
        blended = end * (out.faded(BELOW).from_z(farther) - out.faded(BELOW).from_z(far))
        np.testing.assert_allclose(blended, slow_draw(slope, 1.0, t, 1.0), rtol=1e-9)


def test_rows_that_are_not_trusted_do_not_get_narrower():
    """Far enough from the median no interval of a faded row lies inside its base's, whatever neighbours say."""
    near = np.linspace(0, 1, M) ** 0.05  # next to all trust, for most rows
    for base in (nc.Normal(np.zeros(M), 0.2), nc.Normal(np.zeros(M), 5.0)):  # neighbours ask for more, or for less
        out = fit("predictive").recalibrate(nc.Normal(np.zeros(M), 1.0), SPACE_NEW)
        out = nc.Recalibrated(base, out.scores)
        faded = out.faded(near)
        lower, upper = (
            ends - base_ends for ends, base_ends in zip(faded.interval(0.9), base.interval(0.9), strict=True)
        )
        lost = near < 1 - (1 / 50) ** 2
        assert lost.sum() > 10
        assert (lower[lost] <= 1e-12).all()
        assert (upper[lost] >= -1e-12).all()
        assert (np.diff(faded.from_z(np.tile(SCORES, (M, 1))), axis=1) >= 0).all()


def test_trust_is_lost_by_degrees():
    """Nothing jumps: neither where trust begins to fall nor where narrowing ends."""
    out = fit("predictive").recalibrate(NEW, SPACE_NEW)
    for start in (1.0, 1 - 0.02**2, 0.5, 0.0):
        step = 1e-12 if start == 1 else 1e-9  # √(1 - t) is steep at 1
        near, at = (out.faded(np.full(M, t)) for t in (abs(start - step), start))
        np.testing.assert_allclose(near.ppf([0.05, 0.5, 0.95]), at.ppf([0.05, 0.5, 0.95]), atol=1e-3)


@pytest.mark.parametrize("rule", ["step", "conservative"])
def test_weighted_samples_are_blended_at_the_middle_of_their_weights(rule):
    standard = nc.Normal(np.zeros(M), 1.0)
    out = fit(rule).recalibrate(standard, SPACE_NEW)
    values, weights = out.weighted_sample(slice(None))
    faded = out.faded(BELOW)
    steps = faded.scores.law(faded.scores.find(slice(0, M)))
    rows = np.flatnonzero((BELOW > 0) & (BELOW < 1))
    law = faded.scores._faded_law(steps, BELOW[rows], rows)
    found, found_weights = law.weighted_scores()
    for place, row in enumerate(rows):
        counts = weights[row] > 0
        order = np.argsort(values[row][counts])
        z, w = values[row][counts][order], weights[row][counts][order]
        level = ndtri(np.cumsum(w) - w / 2)
        expected = slow_draw(z, level, BELOW[row], level)
        own = np.argsort(found[place][found_weights[place] > 0])
        np.testing.assert_allclose(found[place][found_weights[place] > 0][own], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found_weights[place][found_weights[place] > 0][own], w, rtol=1e-12)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_fading_to_all_scores_ends_at_global_recalibration(rule):
    rc = fit(rule, corrections=(nc.Fade(to="global"),))
    far = rc.recalibrate(NEW, SPACE_NEW + 50)
    assert (far.trust == 0).all()
    everyone = nc.GlobalRecalibrator(quantile_rule=rule).fit(DIST, Y, None).recalibrate(NEW, None)
    assert_sound(far)
    # curves are read at a row's own knots, samples at 15 of 60 places; conservative weights stay those of 15 points
    loose = {"step": 0.35, "conservative": np.inf}.get(rule, 0.1)
    levels = [0.2, 0.5, 0.8]
    assert (np.abs(far.ppf(levels) - everyone.ppf(levels)) <= loose * NEW.std()[:, np.newaxis]).all()


@pytest.mark.parametrize("thin", ["nearest", "global", "base"])
@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_every_policy_of_a_radius_goes_with_it(rule, thin):
    rc = fit(rule, radius=nc.Radius(1.0, 10, thin), corrections=(nc.Fade(0.3),))
    out = rc.recalibrate(NEW, SPACE_NEW)
    assert_sound(out)
    plain = fit(rule, radius=nc.Radius(1.0, 10, thin)).recalibrate(NEW, SPACE_NEW)
    kept = out.trust == 1
    np.testing.assert_array_equal(everything(out)[kept], everything(plain)[kept])
    np.testing.assert_array_equal(everything(out), np.vstack([everything(out[row]) for row in range(M)]))
    if thin == "base":
        assert (out.trust[plain.effective_size == 0] == 0).all()


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_one_law_for_all_rows_fades_as_well(rule):
    out = nc.GlobalRecalibrator(quantile_rule=rule).fit(DIST, Y, None).recalibrate(NEW, None)
    faded = out.faded(BELOW)
    assert_sound(faded)
    np.testing.assert_array_equal(everything(faded)[BELOW == 1], everything(out)[BELOW == 1])
    np.testing.assert_array_equal(faded.mean()[BELOW == 0], NEW.mean()[BELOW == 0])
    np.testing.assert_array_equal(everything(faded), np.vstack([everything(faded[row]) for row in range(M)]))
    # between the two at every level, as far as samples can tell
    levels, std = np.array([0.1, 0.5, 0.9]), NEW.std()[:, np.newaxis]
    t, scores, whole = BELOW[:, np.newaxis], ndtri(levels), NEW.z(out.ppf(levels))
    expected = NEW.from_z(slow_draw(whole, scores, t, scores))
    assert (np.abs(faded.ppf(levels) - expected) <= 0.12 * std).all()
    np.testing.assert_array_equal(faded.reliability()["trust"], BELOW)
    np.testing.assert_array_equal(faded.faded(np.full(M, 0.5)).trust, np.minimum(BELOW, 0.5))


def test_points_count_by_their_weight_where_rows_fade():
    """Whole weights are repeated rows: of all scores that rows fade to, and of one law that fades."""
    counts = 1 + np.arange(N) % 3
    again = np.repeat(np.arange(N), counts)
    rc = nc.GlobalRecalibrator()
    weighted = rc.fit(DIST, Y, None, sample_weight=counts).recalibrate(NEW, None).faded(BELOW)
    # at trust 1 and 0 they are equal; between, a sample of fewer points is blended at fewer places
    repeated = rc.fit(DIST[again], Y[again], None).recalibrate(NEW, None).faded(BELOW)
    ends = (BELOW == 0) | (BELOW == 1)
    np.testing.assert_allclose(weighted.ppf([0.2, 0.5])[ends], repeated.ppf([0.2, 0.5])[ends], rtol=1e-12)
    np.testing.assert_allclose(weighted.ppf([0.2, 0.5]), repeated.ppf([0.2, 0.5]), atol=0.1 * NEW.std().max())
    heavy = np.where(np.median(Y) < Y, 1e3, 1.0)  # nearly all of the weight lies on the upper half
    local = nc.LocalRecalibrator(k=15, corrections=(nc.Fade(to="global"),)).fit(DIST, Y, SPACE, sample_weight=heavy)
    far, upper = local.recalibrate(NEW, SPACE_NEW + 50), DIST.z(Y)[heavy > 1].min()
    assert (far.trust == 0).all()
    assert (NEW.z(far.ppf(0.1)) >= upper - 1e-9).all()


def test_what_needs_no_trust_or_has_a_curve_a_row():
    untouched = nc.IdentityRecalibrator().fit(DIST, Y, None).recalibrate(NEW, None)
    np.testing.assert_array_equal(untouched.faded(BELOW).mean(), NEW.mean())
    curves = nc.QuantileNetRecalibrator(epochs=1, rng=1).fit(DIST, Y, SPACE).recalibrate(NEW, SPACE_NEW)
    z, t = np.array([[-2.0, 0.3]]), BELOW[:, np.newaxis]
    standard = nc.Recalibrated(nc.Normal(np.zeros(M), 1.0), curves.scores)
    expected = slow_draw(standard.from_z(z), z, t, z)  # but between knots
    np.testing.assert_allclose(standard.faded(BELOW).from_z(z), expected, atol=0.06)


def test_conformal_predictions_fade_and_keep_no_guarantee():
    out = nc.ConformalRecalibrator().fit(DIST, Y, None).recalibrate(NEW, None)
    faded = out.faded(BELOW)
    assert type(faded) is nc.Recalibrated
    assert_sound(faded)


def test_the_expected_share_goes_along():
    out = fit().recalibrate(NEW, SPACE_NEW)
    assert out.expected_faded is None
    assert out.faded(BELOW, 0.1)[:3].expected_faded == pytest.approx(0.6)
    assert fit(corrections=(nc.Fade(0.02),)).recalibrate(NEW, SPACE_NEW)[:3].expected_faded == pytest.approx(0.12)


# ---- errors and warnings --------------------------------------------------------------------------------------------


def test_rows_without_trust_may_be_an_error():
    rc = fit(corrections=(nc.Fade(to="raise"),))
    assert np.isfinite(
        rc.recalibrate(NEW, SPACE).mean() if len(NEW) == N else rc.recalibrate(NEW, SPACE[:M]).mean()
    ).all()
    far = np.vstack([SPACE[: M - 1], np.full((1, 3), 99.0)])
    with pytest.raises(nc.ThinNeighborhoodError, match=f"got row {M - 1}, and 1 rows of {M}"):
        rc.recalibrate(NEW, far).mean()


def many(far, rows=100):
    """A result of which some rows are far away."""
    space = np.random.default_rng(0).normal(size=(300, 2))
    rc = nc.LocalRecalibrator(k=20, corrections=(nc.Fade(),)).fit(
        nc.Normal(np.zeros(300), 1.0), np.linspace(-2, 2, 300), space
    )
    new = space[:rows] * 0.5
    new[:far] += 50
    return rc.recalibrate(nc.Normal(np.zeros(rows), 1.0), new)


def test_many_faded_rows_are_told_once():
    out = many(30)
    with pytest.warns(nc.OutOfDistributionWarning, match=r"30 of 100 new rows \(30%\) are unlike") as told:
        out.mean()
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (out.std()[:30] == 1).all()
        assert (out.trust < 1).sum() == 30


@pytest.mark.parametrize(("far", "rows"), [(9, 9), (20, 100), (1, 1)])
def test_few_faded_rows_are_not(far, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (many(far, rows).trust == 0).sum() == far


@pytest.mark.parametrize(
    "corrections", [(nc.Fade(), nc.Polish()), (nc.Fade(), nc.Fade()), (nc.Fade(), nc.Shrinkage())], ids=str
)
def test_it_comes_last_and_once(corrections):
    with pytest.raises(nc.InvalidParameterError, match="must end with Fade"):
        nc.LocalRecalibrator(5, quantile_rule="predictive", corrections=corrections).fit(DIST, Y, SPACE)


@pytest.mark.parametrize("fade", [nc.Fade(0.0), nc.Fade(1.0), nc.Fade("1%"), nc.Fade(to="nothing")], ids=str)
def test_parameters_are_checked(fade):
    with pytest.raises(nc.InvalidParameterError, match="must be"):
        nc.LocalRecalibrator(5, corrections=(fade,)).fit(DIST, Y, SPACE)


@pytest.mark.parametrize("trust", [np.full(M, 1.5), np.full(M, -0.1), np.full(M, np.nan), np.ones(M + 1)], ids=str)
def test_trust_that_is_given_is_checked(trust):
    with pytest.raises(nc.InvalidInputError, match="trust"):
        fit().recalibrate(NEW, SPACE_NEW).faded(trust)


def test_regression_has_no_base_to_keep():
    with pytest.raises(nc.InvalidParameterError, match="must be to 'global'"):
        nc.KNNRegressor(5, corrections=(nc.Fade(),)).fit(None, Y, SPACE)
    rc = nc.KNNRegressor(15, corrections=(nc.Fade(to="global"),)).fit(None, Y, SPACE)
    far = rc.recalibrate(None, SPACE_NEW + 50)
    np.testing.assert_allclose(far.median(), np.median(Y), atol=0.2)
