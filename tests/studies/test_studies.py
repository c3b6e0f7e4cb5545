"""Small versions of the studies run to the end and show what they are to show, as far as so little data can."""

import json

import numpy as np
import pytest
from scipy import stats

from nearcal.models.adapters import TorchModel
from nearcal_studies import drift
from nearcal_studies.__main__ import STUDIES
from nearcal_studies.blocked import Blocked
from nearcal_studies.diamonds import Diamonds
from nearcal_studies.diamonds.data import split
from nearcal_studies.diamonds.models import GammaRegression, fit_shape
from nearcal_studies.drift import Drift, simulate, split_by_column, split_in_order
from nearcal_studies.gaussian import Gaussian
from nearcal_studies.gaussian.methods import LinearModel, evenly_spread, generate, population_figures, true_mean
from nearcal_studies.rosenbrock import Rosenbrock
from nearcal_studies.rosenbrock.network import absorb_scaling, dropout_draws, make_network, settled
from nearcal_studies.run import run
from nearcal_studies.sets import TABLES
from nearcal_studies.study import Scale
from nearcal_studies.training import seeded

pytestmark = pytest.mark.usefixtures("least_choice")


def smaller(study, **changes):
    """Return the study with other settings."""

    class Smaller(study):
        def settings(self, scale):
            return {**super().settings(scale), **changes}

    return Smaller()


def means(out):
    return json.loads((out / "results.json").read_text())["results"]["mean"]


def test_gaussian(tmp_path):
    conclusion = run(smaller(Gaussian, n=4_000, k=100, kl_rows=10), tmp_path, Scale(quick=True))
    mean = means(tmp_path)
    assert mean["local"]["mse"] < 0.3 * mean["linear"]["mse"]
    assert mean["global"]["mse"] > 0.9 * mean["linear"]["mse"]
    assert mean["local"]["kl"] < mean["linear"]["kl"]
    assert "KL(predictive, true)" in conclusion.tables
    assert {path.name for path in tmp_path.glob("*.png")} == {"figure_1.png", "figure_2.png"}
    claims = Gaussian().claims(json.loads((tmp_path / "results.json").read_text())["results"])
    # local recalibration improves mean and spread, if less than in the full study
    spread = list(claims.values())[2][1]
    assert spread.name == "KL(true, predictive) relative to the linear model's"
    assert spread.holds


def test_rosenbrock(tmp_path):
    pytest.importorskip("torch")
    study = smaller(Rosenbrock, n=6_000, widths=[64, 64, 32, 32], epochs=15, draws=200)
    run(study, tmp_path, Scale(quick=True))
    mean = means(tmp_path)
    for name in ("wsir", "dropout"):
        assert mean[f"{name}_local"]["mse"] < 0.5 * mean[name]["mse"]  # so small a network fits badly
        assert mean[f"{name}_local"]["smis"] < 0.9 * mean[name]["smis"]
    # the variance of a Gamma variable with shape 100 is its squared mean over 100; 600 rows give it to some 20%
    assert mean["true"]["mse"] == pytest.approx(59.6, rel=0.3)
    assert abs(mean["true"]["coverage"] - 95) < 3.5  # four standard errors
    assert (tmp_path / "figure_3.png").exists()


def test_diamonds(tmp_path):
    pytest.importorskip("torch")
    training = {"epochs": 15, "batch_size": 64, "learning_rate": 0.005, "patience": None}
    study = smaller(Diamonds, rows=3_000, k=60, training=training, density_epochs=5)
    run(study, tmp_path, Scale(quick=True))
    mean = means(tmp_path)
    assert mean["glm_local"]["crps"] < mean["glm_base"]["crps"]
    assert mean["nn_local"]["crps"] < mean["nn_base"]["crps"]
    assert 500 < mean["glm_base"]["rmse"] < 1500
    assert (tmp_path / "figure_5.png").exists()


def test_blocked(tmp_path):
    run(Blocked(), tmp_path, Scale(quick=True))
    (one,) = json.loads((tmp_path / "results.json").read_text())["results"]["stretches"]
    assert one["correlation"] > 0.5
    # as fitted, a choice cannot be better than the best, but for shrinkage, which few candidates were tried with
    assert all(way["to_best"] > 0.98 for way in one["ways"].values())
    assert one["ways"]["time"]["crps"] < one["ways"]["leave-one-out"]["crps"]
    assert "hindsight" in (tmp_path / "table.md").read_text()


@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")
def test_drift(tmp_path):
    pytest.importorskip("lightgbm")
    conclusion = run(smaller(Drift, drifts=["mean, told"], length=1600), tmp_path, Scale(quick=True))
    rows = {row["method"]: row for row in conclusion.results["rows"] if row["kind"] == "simulated"}
    # time leaves its range within a tenth of the calibration quarter: nearly all rows keep their base
    assert rows["default"]["faded"] > 0.8
    assert abs(rows["default"]["crps"] / rows["base"]["crps"] - 1) < 0.1
    assert rows["without fading"]["crps"] < 0.9 * rows["base"]["crps"]  # the price of no harm
    assert "exchangeable" in {row["kind"] for row in conclusion.results["rows"]}


def test_rows_that_drift_are_split_in_order():
    x, y = simulate("inputs", 400, 3)
    parts = split_in_order(x, y)
    np.testing.assert_array_equal(np.concatenate([response for _, response in parts]), y)
    assert [len(response) for _, response in parts] == [200, 100, 100]
    for end, sign in (("low", -1), ("high", 1)):
        train, cal, new = split_by_column(np.column_stack([y, x]), y, end, 0, (1000, 1000, 40))
        assert (sign * new[0][:, 0]).min() >= (sign * np.concatenate([train[0], cal[0]])[:, 0]).max()
        assert (np.diff(sign * new[0][:, 0]) >= 0).all()
        assert [len(train[1]), len(cal[1]), len(new[1])] == [240, 80, 40]


@pytest.mark.parametrize("name", STUDIES)
def test_quick_settings_are_small_and_full_ones_large(name, tmp_path):
    for table in (*TABLES, *drift.SERIES):
        (tmp_path / f"{table}.npz").touch()
    study = STUDIES[name](tmp_path)
    cost = {
        scale: sum(unit.cost for unit in study.units(study.settings(scale))) for scale in (Scale(quick=True), Scale())
    }
    assert cost[Scale(quick=True)] < cost[Scale()]
    assert len({unit.key for unit in study.units(study.settings(Scale()))}) == len(study.units(study.settings(Scale())))


def test_gamma_regression_is_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(500, 2))
    mean = np.exp(1 + design @ [0.5, -0.3])
    y = rng.gamma(4.0, mean / 4.0)
    fit = GammaRegression.fitted(design, y)

    def likelihood(coefficients, shape):
        means = np.exp(coefficients[0] + design @ coefficients[1:])
        return stats.gamma.logpdf(y, shape, scale=means / shape).sum()

    coefficients = np.array([fit.mean.intercept_, *fit.mean.coef_])
    best = likelihood(coefficients, fit.shape)
    for place in range(3):
        for step in (-1e-3, 1e-3):
            moved = coefficients.copy()
            moved[place] += step
            assert likelihood(moved, fit.shape) < best
    assert likelihood(coefficients, 1.001 * fit.shape) < best
    assert likelihood(coefficients, fit.shape / 1.001) < best


def test_fit_shape_agrees_with_scipy():
    y = np.random.default_rng(1).gamma(3.0, 2.0, size=400)
    shape, _, _ = stats.gamma.fit(y, floc=0)
    assert fit_shape(y, np.full(400, y.mean())) == pytest.approx(shape, rel=1e-6)


def test_split_shares_and_scaling():
    train, cal, new = split(3)
    assert [len(part.y) for part in (train, cal, new)] == [37_758, 10_788, 5_394]
    np.testing.assert_allclose(train.X.std(axis=0), 1.0)
    assert np.isfinite(np.concatenate([part.X for part in (train, cal, new)])).all()
    assert new.design.shape[1] == 3 + 4 + 6 + 7
    assert not np.array_equal(split(4)[0].y, train.y)


def test_evenly_spread():
    x = np.random.default_rng(1).permutation(100)
    np.testing.assert_array_equal(np.sort(x[evenly_spread(x, 10)]), np.arange(5, 100, 10))


def test_population_of_the_linear_model():
    # 1.6 million observations: three standard errors of the coverage are 0.06 points
    train, _, _ = generate(2_000_000, 1)
    model = LinearModel.fitted(train)
    exact = population_figures()
    lower, upper = model.distribution(train.x).interval(0.95)
    assert 100 * np.mean((lower <= train.y) & (train.y <= upper)) == pytest.approx(exact["coverage"], abs=0.06)
    fitted = model.intercept + model.slope * train.x
    assert np.mean((fitted - true_mean(train.x)) ** 2) == pytest.approx(exact["mse"], rel=0.005)


def test_thinned_networks_are_the_draws_of_monte_carlo_dropout():
    torch = pytest.importorskip("torch")
    with seeded(1):
        network = make_network([32, 24, 8, 8])
        network(torch.randn(500, 2) * 3)  # statistics of batch normalisation
    network.eval()
    X = np.random.default_rng(1).normal(size=(40, 2))
    draws = dropout_draws(network, X, 6, seed=5)
    slow = TorchModel(network, response="log", mc_dropout=6, seed=5).distribution(X)
    np.testing.assert_allclose(np.sort(np.exp(draws), axis=1), slow.draws, rtol=1e-4)  # both in single precision


def test_settled_statistics_are_those_of_a_pass_without_dropout():
    torch = pytest.importorskip("torch")
    with seeded(1):
        network = make_network([32, 24, 8, 8])
    before = {name: value.clone() for name, value in network.state_dict().items()}
    X = np.random.default_rng(1).normal(size=(500, 2))
    copied = settled(network, X)
    # PyTorch's own way: batches of everything, with momentum 1 and dropout off
    for layer in network:
        if isinstance(layer, torch.nn.BatchNorm1d):
            layer.train()
            layer.momentum = 1.0
        else:
            layer.eval()
    with torch.no_grad():
        network(torch.tensor(X, dtype=torch.float32))
    for name, value in network.state_dict().items():
        if "running" in name:
            # in training a batch is scaled by its own variance over n, afterwards by that over n - 1
            np.testing.assert_allclose(copied.state_dict()[name], value, rtol=0.02, atol=1e-4)
        elif "num_batches" not in name:
            assert torch.equal(value, before[name])
            assert torch.equal(copied.state_dict()[name], before[name])
    assert not copied.training


def test_a_network_absorbs_the_scaling_of_its_inputs():
    torch = pytest.importorskip("torch")
    with seeded(1):
        network = make_network([16, 8]).eval()
    X, centre, spread = torch.randn(30, 2) + 3, np.array([2.0, -1.0]), np.array([0.5, 4.0])
    with torch.no_grad():
        expected = network((X - torch.tensor([2.0, -1.0])) / torch.tensor([0.5, 4.0]))
        absorb_scaling(network, centre, spread)
        torch.testing.assert_close(network(X), expected)
