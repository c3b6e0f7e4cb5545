"""Weights for a covariate shift: near the true ratios, and coverage comes back."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import nearcal as nc


def shifted(n, seed, by=1.0):
    """A model with one spread for all, of data whose spread grows with the column that shifts; and a column of noise.

    Returns positions, predictions and responses of calibration points and of new ones.
    """
    rng = np.random.default_rng(seed)
    sets = []
    for mean in (0.0, by):
        x = np.column_stack([rng.normal(mean, 1, size=n), rng.normal(size=n)])
        y = rng.normal(x[:, 0], np.exp(0.5 * x[:, 0]))
        sets.append((x, nc.Normal(x[:, 0], 1.0), y))
    return sets


def test_weights_are_near_the_true_ratios():
    (cal, _, _), (new, _, _) = shifted(4000, 0)
    shift = nc.shift_weights(cal, new)
    true = np.exp(cal[:, 0] - 0.5)  # φ(x - 1) / φ(x)
    assert shift.classifier == "logistic"
    assert np.corrcoef(np.log(shift.weights), np.log(true))[0, 1] > 0.99
    np.testing.assert_allclose(shift.weights.mean(), 1.0)
    # the effective size of these ratios is n / e, the overlap of the two Normals 2 Φ(-1/2) = 0.617
    np.testing.assert_allclose(shift.effective_size, 4000 / np.e, rtol=0.15)
    np.testing.assert_allclose(shift.overlap, 0.617, atol=0.03)
    assert len(shift.new_weights) == 4000
    assert shift.new_weights.mean() > 1.5  # new points lie where ratios are large: E w² = e


def test_boosting_finds_what_is_not_monotone():
    rng = np.random.default_rng(1)
    cal, new = rng.uniform(-2, 2, size=(4000, 1)), rng.uniform(-2, 2, size=(9000, 1))
    new = new[np.abs(new[:, 0]) + rng.uniform(-0.5, 0.5, size=9000) > 1]
    shift = nc.shift_weights(cal, new)
    assert shift.classifier == "boosting"
    far = np.abs(cal[:, 0]) > 1.5
    assert shift.weights[far].mean() > 4 * shift.weights[np.abs(cal[:, 0]) < 0.5].mean()


def test_no_shift_is_no_weights():
    rng = np.random.default_rng(2)
    shift = nc.shift_weights(rng.normal(size=(500, 3)), rng.normal(size=(400, 3)))
    assert (shift.classifier, shift.verdict, shift.effective_size) == ("none", "no shift found", 500.0)
    np.testing.assert_array_equal(shift.weights, 1.0)
    assert shift.overlap == 1.0


@pytest.mark.parametrize(("pairs", "least"), [(10, 9), pytest.param(40, 37, marks=pytest.mark.slow)])
def test_false_alarms_are_rare(pairs, least):
    """Two standard errors of the better of two classifiers; of pairs of equal sets at most a few find a shift."""
    rng = np.random.default_rng(3)
    found = [nc.shift_weights(rng.normal(size=(150, 2)), rng.normal(size=(150, 2))).classifier for _ in range(pairs)]
    assert found.count("none") >= least


def test_a_classifier_of_ones_own():
    (cal, _, _), (new, _, _) = shifted(500, 4)
    squares = make_pipeline(PolynomialFeatures(2), LogisticRegression())
    shift = nc.shift_weights(cal, new, classifier=squares)
    assert shift.classifier == "Pipeline"
    named = nc.shift_weights(cal, new, classifier="logistic")
    assert np.corrcoef(np.log(shift.weights), np.log(named.weights))[0, 1] > 0.9


def test_no_point_is_weighed_by_a_classifier_that_saw_it():
    """A classifier that knows its rows by heart tells nothing of rows left out: all weights are alike."""

    class ByHeart:
        def get_params(self, deep=True):
            return {}

        def __sklearn_clone__(self):
            return ByHeart()

        def fit(self, X, y):
            self.known = {tuple(x): label for x, label in zip(X, y, strict=True)}
            return self

        def predict_proba(self, X):
            p = np.array([0.5 if tuple(x) not in self.known else 0.99 * self.known[tuple(x)] for x in X])
            return np.column_stack([1 - p, p])

    rng = np.random.default_rng(5)
    shift = nc.shift_weights(rng.normal(size=(100, 2)), rng.normal(5, 1, size=(100, 2)), classifier=ByHeart())
    np.testing.assert_array_equal(shift.weights, 1.0)


def test_the_same_every_time():
    (cal, _, _), (new, _, _) = shifted(300, 6)
    np.testing.assert_array_equal(nc.shift_weights(cal, new).weights, nc.shift_weights(cal, new).weights)


def coverage(out, y):
    lower, upper = out.interval(0.9)
    return np.mean((lower <= y) & (y <= upper))


METHODS = {
    "global": lambda: nc.GlobalRecalibrator(),
    "isotonic": lambda: nc.IsotonicRecalibrator(),
    "conformal": lambda: nc.ConformalRecalibrator(),
    "local": lambda: nc.LocalRecalibrator(k=1500),
    "local, polished": lambda: nc.LocalRecalibrator(k=1500, quantile_rule="predictive", corrections=(nc.Polish(),)),
}


@pytest.fixture(scope="module")
def estimated():
    """4,000 calibration points, as many new rows, and the weights."""
    (cal, dist, y), new = shifted(4000, 7)
    return (cal, dist, y), new, nc.shift_weights(cal, new[0])


@pytest.mark.parametrize("name", METHODS)
def test_estimated_weights_restore_coverage(name, estimated):
    """Of 2,000 new rows a coverage of 90% has an error of 0.7 points, and of an effective size of 1,500 one of 0.8."""
    (cal, dist, y), (new, dist_new, y_new), found = estimated
    new, dist_new, y_new = new[:2000], dist_new[:2000], y_new[:2000]
    plain, weighted = (
        coverage(METHODS[name]().fit(dist, y, cal, sample_weight=weights).recalibrate(dist_new, new), y_new)
        for weights in (None, found)
    )
    assert abs(weighted - 0.9) < 0.03
    assert plain < 0.9 - 0.03
    assert abs(weighted - 0.9) < abs(plain - 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "low", "high"), [("global", 0.888, 0.912), ("local", 0.888, 0.917), ("conformal", 0.888, 0.94)]
)
def test_estimated_weights_restore_coverage_on_average(name, low, high):
    """Over 20 sets of 3,000 rows: a coverage varies by 0.018 from set to set, their mean by 0.004.

    Conformal intervals allow for the heaviest of all points.
    """
    covered = []
    for seed in range(100, 120):
        (cal, dist, y), (new, dist_new, y_new) = shifted(3000, seed)
        weights = nc.shift_weights(cal, new)
        out = METHODS[name]().fit(dist, y, cal, sample_weight=weights).recalibrate(dist_new, new)
        covered.append(coverage(out, y_new))
    assert low < np.mean(covered) < high


def test_small_overlap_is_told():
    (cal, _, _), (new, _, _) = shifted(400, 8, by=2.0)
    with pytest.warns(nc.OverlapWarning, match=r"400 calibration points are worth \d+ equal ones, .* in common: what"):
        shift = nc.shift_weights(cal, new)
    assert shift.verdict == "small"
    assert "small" in str(shift)


def test_sets_that_hardly_meet_are_refused():
    (cal, _, _), (new, _, _) = shifted(400, 9, by=6.0)
    with pytest.raises(nc.OverlapError, match=r"space_new must overlap with space_cal, by 5% .* calibrate on points"):
        nc.shift_weights(cal, new)


@pytest.mark.parametrize(
    ("cal", "new", "options", "message"),
    [
        (np.zeros((30, 2)), np.zeros((30, 3)), {}, "space_new must have 2 columns"),
        (np.zeros((10, 2)), np.zeros((30, 2)), {}, "space_cal must have at least 20 rows"),
        (np.zeros((30, 2)), np.zeros((10, 2)), {}, "space_new must have at least 20 rows"),
        (np.full((30, 2), np.nan), np.zeros((30, 2)), {}, "space_cal must be finite"),
        (np.zeros((30, 2)), np.zeros((30, 2)), {"classifier": "forest"}, "classifier must be one of 'auto'"),
        (np.zeros((30, 2)), np.zeros((30, 2)), {"classifier": 3}, "classifier must be one of .* or have fit"),
    ],
)
def test_what_is_refused(cal, new, options, message):
    with pytest.raises(nc.NearcalError, match=message):
        nc.shift_weights(cal, new, **options)
