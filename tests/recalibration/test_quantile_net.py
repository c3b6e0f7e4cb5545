"""The quantile network: its loss and gradient by hand, and what it learns against group quantiles by numpy."""

import numpy as np
import pytest
from scipy.special import ndtr

import nearcal as nc
from nearcal.recalibration._quantile_net_training import QuantileNetwork, Standardiser, _initialise, check_loss

torch = pytest.importorskip("torch")

LEVELS = np.linspace(0.05, 0.95, 19)
QUICK = {"epochs": 40, "rng": 1}


def two_groups(n, seed):
    """Predictions of standard deviation 1 are centred wrongly, those of 2 are much too narrow and skewed."""
    rng = np.random.default_rng(seed)
    wide = rng.uniform(size=n) < 0.5
    location = rng.normal(0.0, 3.0, size=n)
    noise = np.where(wide, 4 * rng.exponential(size=n) - 4, rng.normal(1.5, 1.0, size=n))
    return nc.Normal(location, np.where(wide, 2.0, 1.0)), location + noise, wide


def mean_check_loss(quantiles, y):
    error = y[:, np.newaxis] - quantiles
    return np.where(error >= 0, LEVELS * error, (LEVELS - 1) * error).mean()


@pytest.fixture(scope="module")
def learnt():
    dist, y, _ = two_groups(3000, 1)
    return nc.QuantileNetRecalibrator(epochs=80, rng=1).fit(dist, y)


def test_check_loss_and_its_gradient_by_hand():
    error, level = np.array([-2.0, -0.5, 0.5, 3.0]), np.array([0.1, 0.9, 0.3, 0.5])
    np.testing.assert_allclose(check_loss(error, level), [1.8, 0.05, 0.15, 1.5], rtol=1e-15)
    tensor = torch.tensor(error, requires_grad=True)
    check_loss(tensor, torch.from_numpy(level)).sum().backward()
    np.testing.assert_allclose(tensor.grad, level - (error < 0), rtol=1e-15)


def test_its_minimum_is_the_quantile():
    y = np.random.default_rng(0).gamma(2.0, size=999)
    for p in (0.1, 0.5, 0.9):
        losses = [check_loss(y - q, p).mean() for q in np.sort(y)]
        assert np.sort(y)[np.argmin(losses)] == np.quantile(y, p, method="inverted_cdf")


def test_numpy_and_torch_run_the_same_network():
    rng = np.random.default_rng(2)
    network = _initialise(5, 7, rng)
    x, score = rng.normal(size=(11, 5)), rng.normal(size=(11, 1))
    tensors = QuantileNetwork(*map(torch.from_numpy, network))
    np.testing.assert_allclose(network(x, score), tensors(torch.from_numpy(x), torch.from_numpy(score)), rtol=1e-12)
    shared = network(x, np.array([[[0.3]], [[1.0]]]))
    assert shared.shape == (2, 11, 1)
    np.testing.assert_allclose(shared[1], network(x, np.full((11, 1), 1.0)), rtol=1e-12)


def test_learns_what_group_quantiles_know(learnt):
    """Fresh data: within 3% of the check loss of each group's own quantiles, far below the base model's."""
    train_dist, train_y, train_wide = two_groups(3000, 1)
    dist, y, wide = two_groups(4000, 2)
    residual = train_y - train_dist.loc
    offsets = np.where(wide[:, np.newaxis], *(np.quantile(residual[train_wide == g], LEVELS) for g in (True, False)))
    oracle = mean_check_loss(dist.loc[:, np.newaxis] + offsets, y)
    ours = mean_check_loss(learnt.recalibrate(dist).ppf(LEVELS), y)
    assert ours < 1.03 * oracle
    assert mean_check_loss(dist.ppf(LEVELS), y) > 1.15 * oracle


def test_each_group_is_calibrated(learnt):
    """2,000 points a group: five standard errors of a coverage are 0.034, and the fit has as much again to err."""
    dist, y, wide = two_groups(4000, 3)
    lower, upper = learnt.recalibrate(dist).interval(0.9)
    covered = (lower <= y) & (y <= upper)
    assert abs(covered[wide].mean() - 0.9) < 0.06
    assert abs(covered[~wide].mean() - 0.9) < 0.06


def test_training_lowers_the_validation_loss_and_keeps_the_best(learnt):
    assert learnt.losses_.min() < 0.8 * learnt.losses_[0]
    assert len(learnt.losses_) <= 80


def test_early_stopping():
    dist, y, _ = two_groups(200, 4)
    rc = nc.QuantileNetRecalibrator(epochs=400, patience=2, learning_rate=0.05, rng=3).fit(dist, y)
    assert len(rc.losses_) < 400
    assert np.argmin(rc.losses_) == len(rc.losses_) - 3


def test_results_are_quantiles_without_crossings(learnt):
    out = learnt.recalibrate(two_groups(50, 5)[0])
    assert isinstance(out, nc.Recalibrated)
    assert (np.diff(out.ppf(np.linspace(0.001, 0.999, 200)), axis=1) >= 0).all()
    # at 61 levels they are what the network says, put in order
    inputs = learnt.features_map_(learnt._features(out.base, None, "new"))
    scores = np.linspace(-3, 3, 61)
    said = learnt.response_map_.invert(np.concatenate([learnt.network_(inputs, np.full((1, 1), s)) for s in scores], 1))
    np.testing.assert_allclose(out.ppf(ndtr(scores)), np.sort(said, axis=1), rtol=1e-9, atol=1e-9)


def test_seeds_decide_and_torch_is_left_as_found():
    dist, y, _ = two_groups(100, 6)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again, other = (nc.QuantileNetRecalibrator(epochs=3, rng=seed).fit(dist, y) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    ours, same, theirs = (rc.recalibrate(dist).ppf(LEVELS) for rc in (first, again, other))
    np.testing.assert_array_equal(ours, same)
    assert (ours != theirs).any()


@pytest.mark.parametrize(
    "dist",
    [
        nc.Gamma(np.linspace(1.0, 9.0, 60), 2.0),
        nc.Samples(np.random.default_rng(1).normal(size=(60, 9))),
        nc.Normal(np.zeros(60), 1.0),
    ],
    ids=["gamma", "samples", "constant"],
)
def test_any_family_even_one_without_information(dist):
    y = np.random.default_rng(2).gamma(2.0, size=60)
    out = nc.QuantileNetRecalibrator(epochs=5, rng=1).fit(dist, y).recalibrate(dist[:3])
    assert np.isfinite(out.mean()).all()
    assert np.isfinite(out.logpdf(1.0)).all()


def test_space_may_be_a_feature():
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, size=1500)
    y = rng.normal(4 * x, 0.3)
    dist = nc.Normal(np.zeros(1500), 2.5)
    rc = nc.QuantileNetRecalibrator(use_space=True, epochs=30, rng=1).fit(dist, y, x)
    median = rc.recalibrate(dist[:2], [-0.5, 0.5]).median()
    np.testing.assert_allclose(median, [-2.0, 2.0], atol=0.3)
    with pytest.raises(nc.InvalidInputError, match="space_new must be given with use_space=True"):
        rc.recalibrate(dist)
    with pytest.raises(nc.InvalidInputError, match="space_new must have 1 columns as space_cal had in fit, got 2"):
        rc.recalibrate(dist[:2], np.zeros((2, 2)))


def test_constant_columns_become_zero():
    columns = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    standard = Standardiser.learn(columns)
    np.testing.assert_allclose(standard(columns)[:, 0], 0.0, atol=1e-15)
    np.testing.assert_allclose(standard(columns).std(axis=0), [0.0, 1.0], atol=1e-15)
    np.testing.assert_allclose(standard.invert(standard(columns)), columns, rtol=1e-15)


def test_bad_input_is_refused(monkeypatch):
    dist, y = nc.Normal(np.zeros(20), 1.0), np.arange(20.0)
    with pytest.raises(nc.InvalidInputError, match="at least 10 responses that are not all equal, got 5"):
        nc.QuantileNetRecalibrator().fit(dist[:5], y[:5])
    with pytest.raises(nc.InvalidInputError, match="not all equal, got 20 with range 0"):
        nc.QuantileNetRecalibrator().fit(dist, np.ones(20))
    with pytest.raises(nc.InvalidParameterError, match="hidden must be a whole number >= 1, got 0"):
        nc.QuantileNetRecalibrator(hidden=0).fit(dist, y)
    with pytest.raises(nc.InvalidParameterError, match="learning_rate must be a finite number > 0, got 0"):
        nc.QuantileNetRecalibrator(learning_rate=0).fit(dist, y)
    with pytest.raises(nc.InvalidParameterError, match="use_space must be True or False, got 'yes'"):
        nc.QuantileNetRecalibrator(use_space="yes").fit(dist, y)
    with pytest.raises(nc.NotFittedError, match="QuantileNetRecalibrator is not fitted"):
        nc.QuantileNetRecalibrator().recalibrate(dist)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(nc.MissingExtraError, match=r"nearcal\[torch\]"):
        nc.QuantileNetRecalibrator().fit(dist, y)


def test_columns_of_any_size_are_standardised():
    columns = np.random.default_rng(0).normal(size=(50, 1)) + 2
    expected = Standardiser.learn(columns)(columns)
    for unit in (1e-300, 1e-170, 1e170, 1e300):
        np.testing.assert_allclose(Standardiser.learn(unit * columns)(unit * columns), expected, rtol=1e-9)


def test_rows_however_far_from_what_was_learnt_have_numbers():
    rng = np.random.default_rng(1)
    rc = nc.QuantileNetRecalibrator(epochs=1, use_space=True, rng=0)
    rc.fit(nc.Normal(np.zeros(60), 1.0), rng.normal(size=60), 1e-200 * rng.normal(size=(60, 2)))
    out = rc.recalibrate(nc.Normal([0.0, 0.0], 1.0), [[1e200, 0.0], [0.0, -1e200]])
    quantiles = out.ppf([0.1, 0.5, 0.9])
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()
