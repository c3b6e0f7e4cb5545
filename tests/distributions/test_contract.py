"""What every distribution promises, recalibrated ones included: one coherent distribution a row.

The quantile function says which distribution it is. Distribution function, density, moments, draws and scores are then
compared with what they must be for that quantile function, by sums and integrals of their own.
"""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import ndtr, ndtri

import nearcal as nc
from tests import reference
from tests.distributions.cases import ALL_ROWS_ALIKE, GUARANTEED, LOCAL, calibration_set

RNG = np.random.default_rng(7)
DRAWS = RNG.normal([[0.0], [5.0], [-3.0]], [[1.0], [0.1], [30.0]], size=(3, 40))
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
QUANTILES = [[-2.0, -1.0, 0.0, 3.0, 9.0], [1.0, 1.1, 1.2, 1.3, 1.4], [0.0, 5.0, 6.0, 50.0, 400.0]]
P = np.array([1e-6, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-6])

PARAMETRIC = {
    "normal": nc.Normal([0.0, 5.0, -1e6], [1.0, 0.1, 1e3]),
    "lognormal": nc.LogNormal([0.0, 5.0, -2.0], [1.0, 0.1, 0.5]),
    "gamma": nc.Gamma([3.0, 100.0, 1e4], [1.0, 0.01, 5.0]),
    "exponential": nc.Gamma(1.0, [1.0, 1e-3, 1e3]),
    "student": nc.StudentT([5.0, 7.5, 300.0], [0.0, 1.0, -2.0], [1.0, 0.1, 3.0]),
    "near-normal student": nc.StudentT(1e6, [0.0, 1.0, -2.0], [1.0, 0.1, 3.0]),
    "laplace": nc.Laplace([0.0, 5.0, -1.0], [1.0, 0.1, 3.0]),
    "mixture": nc.Mixture([0.3, 0.7], [nc.Normal([0.0, 5.0, -1.0], 1.0), nc.Normal([3.0, 5.0, 1.0], [0.6, 2.0, 1.0])]),
    "mixture far apart": nc.Mixture([0.3, 0.7], [nc.Normal([0.0, 5.0, -1.0], 1.0), nc.Normal(9.0, [0.1, 2.0, 1.0])]),
    "mixed families": nc.Mixture(
        [[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]], [nc.Gamma([2.0, 3.0, 4.0], 1.0), nc.Laplace([9.0, 5.0, 1.0], 2.0)]
    ),
}
EASY = {  # not so far apart that recalibrated ones would need finer grids
    "normal": nc.Normal([0.0, 5.0, -1.0], [1.0, 0.1, 1e3]),
    "gamma": nc.Gamma([2.0, 3.0, 50.0], [1.0, 2.0, 0.1]),
    "student": nc.StudentT([80.0, 120.0, 300.0], [0.0, 1.0, -2.0], [1.0, 0.1, 3.0]),  # stretched, the variance stays
    "samples": nc.Samples(DRAWS),
    "quantiles": nc.Quantiles(LEVELS, QUANTILES),
}
GIVEN = {
    "samples": nc.Samples(DRAWS),
    "weighted samples": nc.Samples(DRAWS, RNG.uniform(size=(3, 40)) * (RNG.uniform(size=(3, 40)) < 0.8)),
    "samples with equal draws": nc.Samples(np.round(DRAWS, 1)),
    "empirical samples": nc.Samples(DRAWS, tails="empirical"),
    "empirical weighted samples": nc.Samples(DRAWS, RNG.uniform(size=40), tails="empirical"),
    "quantiles": nc.Quantiles(LEVELS, QUANTILES),
    "quantiles that meet": nc.Quantiles(LEVELS, [[-2.0, 0.0, 0.0, 3.0, 9.0], [1.0, 1.0, 1.0, 1.3, 1.4], QUANTILES[2]]),
    "empirical quantiles": nc.Quantiles(LEVELS, QUANTILES, tails="empirical"),
    "quantile average": nc.QuantileAverage(
        [0.4, 0.6], [nc.Gamma([2.0, 3.0, 50.0], 1.0), nc.Quantiles(LEVELS, QUANTILES)]
    ),
    "mixture of draws": nc.Mixture([0.4, 0.6], [nc.Samples(DRAWS, tails="empirical")] * 2),
    "draws and a density": nc.Mixture([0.4, 0.6], [nc.Samples(DRAWS, tails="empirical"), nc.Normal([0, 5, -3], 1.0)]),
    "scipy": nc.from_scipy(stats.gumbel_r([0.0, 1.0, -5.0], [1.0, 0.1, 10.0])),
    "nearest neighbours": nc.KNNRegressor(k=9)
    .fit(None, stats.t(5).ppf((np.arange(40) + 0.5) / 40), np.arange(40.0))
    .recalibrate(None, [0.0, 20.0, 99.0]),
}
PLACES = [[0.0, 0.0], [1.0, 1.0], [9.0, 9.0]]
EVERY_BASE = ("step", "conservative", "predictive", "linear, shrunk, polished", "global, interpolated", "conformal")


def recalibrated():
    """Return every recalibrator over Gamma predictions, and some over all of the easy families."""
    made = {}
    for name, recalibrator in ALL_ROWS_ALIKE.items():
        rc = recalibrator.fit(*calibration_set(150))
        made |= {f"{name} of {base}": rc.recalibrate(EASY[base]) for base in bases(name)}
    for name, options in LOCAL.items():
        rc = nc.LocalRecalibrator(**options).fit(*calibration_set(300))
        made |= {f"{name} of {base}": rc.recalibrate(EASY[base], PLACES) for base in bases(name)}
    for name, recalibrator in GUARANTEED.items():
        made[f"{name} of gamma"] = recalibrator.fit(*calibration_set(300)).recalibrate(EASY["gamma"], PLACES)
    dist, y, x = calibration_set(200)
    ties = nc.LocalRecalibrator(k=60, quantile_rule="predictive").fit(dist, np.round(y), x)
    step = nc.LocalRecalibrator(k=40).fit(dist, y, x)
    made["predictive with ties of gamma"] = ties.recalibrate(EASY["gamma"], PLACES)
    made["step of atoms"] = step.recalibrate(GIVEN["empirical samples"], PLACES)
    made["twice"] = nc.GlobalRecalibrator().fit(dist, y).recalibrate(made["step of gamma"])
    smooth = nc.LocalRecalibrator(k=60, quantile_rule="predictive").fit(dist, y, x)
    made["online of gamma"] = after_a_stream(nc.OnlineRecalibrator(smooth, step=0.02), [2.0, 0.5, 4.0])
    made["online, pooled levels"] = after_a_stream(nc.OnlineRecalibrator(step=0.5), EASY["gamma"].ppf(0.3))
    made["smooth, twice"] = nc.VarianceScaling().fit(dist, y).recalibrate(made["predictive of gamma"])
    return made


def after_a_stream(online, y):
    for turn in range(3):  # no two scores alike
        online.observe(online.predict(EASY["gamma"], PLACES).tickets, np.asarray(y) * (1 + 1e-3 * turn))
    return online.predict(EASY["gamma"], PLACES)


def bases(name):
    return EASY if name in EVERY_BASE else ["gamma"]


ALL = PARAMETRIC | GIVEN | recalibrated()
CONTINUOUS = {name: d for name, d in ALL.items() if d.is_continuous}
DENSE = {name: d for name, d in ALL.items() if d.has_density}
ATOMS_ALONE = {name: d for name, d in ALL.items() if not d.has_density}
PIECEWISE = nc.Samples | nc.Quantiles | nc.Recalibrated


def over(cases):
    return pytest.mark.parametrize("d", cases.values(), ids=cases.keys())


def test_all_kinds_are_here():
    assert len(CONTINUOUS) > 40
    assert {name.split(" of ")[0] for name in ATOMS_ALONE} >= {"step", "conservative", "global", "linear", "shrunk"}
    assert set(DENSE) - set(CONTINUOUS) == {
        "samples with equal draws", "quantiles that meet", "empirical quantiles", "draws and a density",
        "predictive with ties of gamma", "online, pooled levels",
    }  # fmt: skip


# ---- distribution function and quantiles ----------------------------------------------------------------------------


@over(ALL)
def test_cdf_is_monotone_between_zero_and_one(d):
    y = np.sort(np.concatenate([d.ppf(P), d.ppf(P) + d.std()[:, None], d.ppf(P) - d.std()[:, None]], axis=1), axis=1)
    cdf = d.cdf(y)
    assert (np.diff(cdf, axis=1) >= 0).all()
    assert (cdf >= 0).all()
    assert (cdf <= 1).all()
    np.testing.assert_array_equal(d.cdf(np.inf), 1.0)
    np.testing.assert_array_equal(d.cdf(-np.inf), 0.0)


@over(ALL)
def test_tails_agree(d):
    y = d.ppf(P)
    np.testing.assert_allclose(d.cdf(y) + d.sf(y), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(d.logcdf(y)), d.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(np.exp(d.logsf(y)), d.sf(y), rtol=1e-12)


@over(CONTINUOUS)
def test_cdf_inverts_ppf(d):
    np.testing.assert_allclose(d.cdf(d.ppf(P)), np.tile(P, (3, 1)), rtol=1e-9)


# the quantiles of a mixture are searched to the last few digits, and may come to lie beside an atom
@over({name: d for name, d in ALL.items() if name not in CONTINUOUS and name != "draws and a density"})
def test_ppf_is_the_galois_inverse_of_an_atomic_cdf(d):
    quantiles = d.ppf(P)
    assert (d.cdf(quantiles) >= P - 1e-9).all()
    assert (d.cdf_left(quantiles) <= P + 1e-9).all()
    below = quantiles - 1e-6 * d.std()[:, None]
    assert (d.cdf(below) <= P + 1e-9).all()


# ---- normal scores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [9.0, 37.0])
@over(PARAMETRIC)
def test_scores_round_trip_far_into_both_tails(d, reach):
    z = np.tile(np.linspace(-reach, reach, 75), (3, 1))
    # where a value crosses zero only its absolute error is bounded, hence the score's through the density there
    np.testing.assert_allclose(d.z(d.from_z(z)), z, rtol=1e-10, atol=1e-9)


@over(CONTINUOUS)
def test_scores_round_trip(d):
    z = np.tile(np.linspace(-9, 9, 37), (3, 1))
    np.testing.assert_allclose(d.z(d.from_z(z)), z, rtol=1e-9, atol=1e-9)


@over(ALL)
def test_scores_are_those_of_probabilities(d):
    z = np.tile(np.linspace(-4, 4, 33), (3, 1))
    np.testing.assert_allclose(d.from_z(z), d.ppf(ndtr(z)), rtol=1e-9, atol=1e-9 * np.abs(d.ppf(0.9)).max())
    y = d.ppf(np.linspace(0.2, 0.8, 7))
    half_draw = d.resolution()[:, None] / 2  # so far from the ends are the scores of outermost atoms
    np.testing.assert_allclose(d.z(y), ndtri(np.clip(d.cdf(y), half_draw, 1 - half_draw)), rtol=1e-9, atol=1e-9)


@over({name: d for name, d in ALL.items() if name != "mixture of draws"})  # whose ends are ends of the support
def test_scores_are_finite_for_any_finite_response_inside_the_support(d):
    low = d.ppf(1e-6)
    assert np.isfinite(d.z(d.ppf(0.999) + 1000 * d.std())).all()
    assert np.isfinite(d.z(np.where(low > 0, low / 2, low - 1000 * d.std()))).all()
    assert np.isfinite(d.from_z(np.array([-9.0, 9.0, 8.0]))).all()
    assert not np.isnan(d.from_z(np.array([-36.0, 36.0, 30.0]))).any()  # stretched t tails overflow


# ---- density --------------------------------------------------------------------------------------------------------


@over(DENSE)
def test_density_is_the_slope_of_the_cdf(d):
    y, deviation = d.sample(40, rng=3), d.std()[:, None]
    is_atom = d.cdf(y + 1e-9 * deviation) - d.cdf(y - 1e-9 * deviation) > 1e-3
    y = np.where(is_atom, y + 0.0371 * deviation, y)
    density, tail = d.pdf(y), np.minimum(d.cdf(y), d.sf(y))
    no_atom_near = d.is_continuous | (density * deviation > 1e-2) | (density == 0)  # steps are short there, or nil
    assert (density[tail > 0] > 0).mean() > 0.5
    # steps of a millionth of the probability beyond: that a knot lies so near to a value drawn at random is unlikely
    is_dense = (density > 0) & no_atom_near
    step = np.where(is_dense, 1e-6 * tail / np.where(is_dense, density, 1.0), 1e-9 * deviation)
    lower, upper = y - step, y + step
    rise = np.where(d.cdf(y) < 0.5, d.cdf(upper) - d.cdf(lower), d.sf(lower) - d.sf(upper))
    # rounding: of the probabilities 1e-15 / 1e-6, and of the responses
    rounding = 4 * np.spacing(np.abs(y)) / step
    ratio = rise / (upper - lower) / np.where(is_dense, density, 1.0)
    assert (np.abs(ratio - is_dense) <= 1e-5 + rounding)[no_atom_near].all()
    assert np.median(rounding) < 1e-6
    np.testing.assert_allclose(np.exp(d.logpdf(y)), density, rtol=1e-9)


@over(DENSE)
def test_density_integrates_to_what_is_not_in_atoms(d):
    far = np.linspace(5, 9, 100)[1:]  # which weighs nothing, and must be no trouble
    t = np.concatenate([-far[::-1], np.linspace(-5, 5, 11_112), far])
    y, middle = d.from_z(np.tile(t, (3, 1))), d.from_z(np.tile((t[1:] + t[:-1]) / 2, (3, 1)))
    width, mass = np.diff(y, axis=1), np.diff(ndtr(t))
    is_atom = (width <= 1e-9 * d.std()[:, None]) & (not d.is_continuous)
    integral = np.where(is_atom, 0.0, d.pdf(middle) * width)
    # cell by cell, but for those with a jump of the density: a hundred or two of 11,000, of 4e-4 and less
    agree = np.abs(integral - mass) <= 1e-3 * mass
    assert ((mass * (agree | is_atom)).sum(axis=1) > 0.94).all()
    if d is GIVEN["empirical quantiles"]:  # a twentieth at either end
        np.testing.assert_allclose((mass * is_atom).sum(axis=1), 0.1, atol=1e-3)


@over(ATOMS_ALONE)
def test_atoms_have_no_density(d):
    for question in (d.pdf, d.logpdf):
        with pytest.raises(nc.InvalidInputError, match="has no density"):
            question(1.0)
    assert not d.is_continuous


# ---- moments, CRPS, draws -------------------------------------------------------------------------------------------

NODES, NODE_WEIGHTS = leggauss(6)
EDGES = np.linspace(-13, 13, 2081)  # what lies beyond weighs less than 1e-38
T = (EDGES[:-1, None] + np.diff(EDGES)[:, None] / 2 * (1 + NODES)).ravel()
WEIGHTS = (np.diff(EDGES)[:, None] / 2 * NODE_WEIGHTS).ravel() * np.exp(-(T**2) / 2) / np.sqrt(2 * np.pi)


@cache
def samples_of(d):
    """Return values and weights that stand for each row: its atoms, or quantiles at the nodes of a quadrature."""
    whole = d.from_z(np.tile(T, (3, 1))) if d.has_density else None
    rows = [(values, WEIGHTS) for values in whole] if d.has_density else [atoms_of(d[row]) for row in range(3)]
    # a row that was left to its base has no atoms to walk along
    return [found or (d[row].from_z(T[None])[0], WEIGHTS) for row, found in enumerate(rows)]


def atoms_of(row):
    """Walk from atom to atom: the next is the quantile just above the probability of the last. None if no end comes."""
    values, below = [row.ppf(0.0)[0]], [row.cdf(row.ppf(0.0))[0]]
    while below[-1] < 1 - 1e-11:
        values.append(row.ppf(min(below[-1] + 1e-11, 1.0))[0])
        below.append(row.cdf(values[-1])[0])
        if len(values) > 300:  # more than there are calibration points
            return None
    return np.array(values), np.diff(below, prepend=0.0)


def tolerance(d):
    """Return how far moments and scores may be from those of ``sample_of``, in deviations.

    Atoms: the walk passes over weights below 1e-11. Densities: a kink inside one of 2,080 panels costs that panel some
    1e-6 of its share. Where draws or quantiles are recalibrated by a curve, quadrature meets kinks of theirs that it
    does not know of: its nodes are a few hundredths of a deviation apart.
    """
    if not any(weights is WEIGHTS for _, weights in samples_of(d)):
        return 1e-8
    if d in (PARAMETRIC["mixture far apart"], GIVEN["draws and a density"]):  # quantile functions that jump, or nearly
        return 1e-3
    return 3e-3 if isinstance(d, nc.Recalibrated) and isinstance(d.base, PIECEWISE) else 2e-6


@over(ALL)
def test_moments_are_those_of_the_quantile_function(d):
    for row, (values, weights) in enumerate(samples_of(d)):
        mean, variance = reference.weighted_moments(values, weights)
        assert abs(d.mean()[row] - mean) <= tolerance(d) * np.sqrt(variance)
        assert d.var()[row] == pytest.approx(variance, rel=10 * tolerance(d))
    np.testing.assert_allclose(d.std(), np.sqrt(d.var()), rtol=1e-15)


@over(ALL)
def test_crps_is_that_of_the_quantile_function(d):
    for y in (d.ppf(0.3), d.median() + 2 * d.std()):
        found = nc.scores.crps(d, y)
        for row, (values, weights) in enumerate(samples_of(d)):
            if weights is WEIGHTS:  # twice the pinball loss, over all levels
                expected = 2 * (weights * (ndtr(T) - (y[row] < values)) * (y[row] - values)).sum()
            else:
                expected = reference.sample_crps(values, weights, y[row])
            assert abs(found[row] - expected) <= tolerance(d) * d.std()[row]


@over(ALL)
def test_sampling_follows_the_cdf(d):
    n = 2000
    draws = np.sort(d.sample(n, rng=11), axis=1)
    assert draws.shape == (3, n)
    # Dvoretzky, Kiefer and Wolfowitz, for any distribution: P(distance > 0.05) < 2 exp(-2 · 2000 · 0.05²) = 9e-5 a row
    for side, cdf in (("right", d.cdf(draws)), ("left", d.cdf_left(draws))):
        share = np.array([np.searchsorted(row, row, side=side) / n for row in draws])
        assert np.abs(share - cdf).max() < 0.05


@over(ALL)
def test_sampling_is_reproducible(d):
    np.testing.assert_array_equal(d.sample(5, rng=1), d.sample(5, rng=np.random.default_rng(1)))
    assert (d.sample(5, rng=1) != d.sample(5, rng=2)).any()


# ---- a frozen sequence of rows --------------------------------------------------------------------------------------


@over(ALL)
def test_shapes_of_questions_and_answers(d):
    y = d.median()
    assert d.cdf(0.5).shape == (3,)
    assert d.cdf(y).shape == (3,)
    assert d.cdf(y[:, None]).shape == (3, 1)
    assert d.cdf(np.tile(y[:, None], 4)).shape == (3, 4)
    assert d.ppf(0.5).shape == (3,)
    assert d.ppf([0.5]).shape == (3, 1)
    assert d.ppf([0.1, 0.5, 0.9, 0.99]).shape == (3, 4)
    assert d.ppf(np.full((3, 4), 0.5)).shape == (3, 4)
    assert all(part.shape == (3,) for part in d.interval(0.9))
    assert y.shape == (3,)
    assert (d.cdf(y) >= 0.5 - 1e-9).all()
    assert (d.cdf_left(y) <= 0.5 + 1e-9).all()
    if isinstance(d, nc.ConformalDistribution):
        return  # its intervals move outwards on purpose; tested in test_for_all_rows
    np.testing.assert_array_equal(np.array(d.interval(0.9)), d.ppf([0.05, 0.95]).T)


@over(ALL)
def test_batches_are_frozen_and_copy(d):
    with pytest.raises(AttributeError, match="frozen"):
        d.loc = 3.0
    for twin in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        np.testing.assert_array_equal(twin.ppf(P), d.ppf(P))
    assert "n=3" in repr(d)


def test_levels_are_scores():
    d = nc.Quantiles(LEVELS, QUANTILES)
    np.testing.assert_allclose(d.z(QUANTILES), np.tile(ndtri(LEVELS), (3, 1)), rtol=1e-12, atol=1e-12)


def test_far_normal_observation_keeps_its_score():
    assert nc.Normal(0.0, 1.0).z(40.0) == 40.0
    assert nc.Normal(0.0, 1.0).from_z(-40.0) == -40.0
    assert ndtr(40.0) == 1.0  # what a probability would have kept
