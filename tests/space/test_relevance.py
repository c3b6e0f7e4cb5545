"""Relevance: columns that the errors depend on are found, the others are not rewarded."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.space._relevance import learn_relevance, learn_relevance_without
from tests import reference


def errors(n, d, seed=0):
    """Scores whose location depends on the first column and whose spread depends on the second."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, rng.normal(np.sin(2 * x[:, 0]), np.exp(0.7 * x[:, 1]))


@pytest.mark.parametrize("n", [200, 3000])
def test_location_and_spread_are_found_among_columns_of_noise(n):
    x, z = errors(n, 12)
    relevance = learn_relevance(x, z)
    assert relevance.max() == 1
    assert set(np.argsort(relevance)[-2:]) == {0, 1}
    assert relevance[2:].mean() < 0.1 * relevance[:2].min()


@pytest.mark.parametrize("n", [600, 1500, 2600, 6000])
def test_without_each_fold_others_tell_the_same_and_the_fold_nothing(n):
    """Trees that serve several folds have seen none of them: scores of a fold may be anything."""
    x, z = errors(n, 6)
    fold = np.random.default_rng(1).permutation(n) % 5
    for number, told in enumerate(learn_relevance_without(x, z, fold, 5)):
        assert set(np.argsort(told)[-2:]) == {0, 1}
        other = np.where(fold == number, 7.0, z)
        np.testing.assert_array_equal(learn_relevance_without(x, other, fold, 5)[number], told)
    if n < 1250:  # there a fold is learnt without as if it were absent
        without = learn_relevance_without(x, z, fold, 5)[2]
        np.testing.assert_allclose(without, learn_relevance(x[fold != 2], z[fold != 2]), rtol=1e-8)


def test_noise_alone_is_not_rewarded_on_average():
    """Importances on the rows that trees were grown on would all be positive."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(1000, 20)), rng.normal(size=1000)
    assert (learn_relevance(x, z) == 0).mean() > 0.25


@pytest.mark.parametrize(
    "z", [np.zeros(40), np.r_[np.zeros(39), 1e9], np.arange(40.0)], ids=["equal", "outlier", "line"]
)
def test_degenerate_scores_and_columns(z):
    x = np.column_stack([np.arange(40.0), np.ones(40), np.repeat([0.0, 1.0], 20)])
    relevance = learn_relevance(x, z)
    assert np.isfinite(relevance).all()
    assert relevance.max() == 1
    assert relevance.min() >= 0


@pytest.mark.parametrize("n", [1, 2, 3, 31])
def test_few_points_tell_nothing_and_all_columns_stay(n):
    x, z = errors(n, 3)
    np.testing.assert_array_equal(learn_relevance(x, z), 1)


def test_a_step_along_a_column_is_as_long_as_the_root_of_what_the_column_tells():
    """One standard deviation along column j is √relevance_j long, as the slow twin of the trees has it."""
    x, z = errors(120, 4)
    x[:, 3] = 0.0
    units = np.array([1e-3, 10.0, 1e4, 1.0])
    told = reference.relevance((x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0), z)
    assert told[3] == 0  # a constant column is left out
    assert (told[:2] > told[2]).all()
    assert ((told[:2] > 0.05) & (told[:2] <= 1)).all()
    space_map = nc.Scaling("relevance").learn(7.0 + units * x, z)
    start = space_map(np.full((1, 4), 7.0))
    steps = np.diag(units * np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0))
    lengths = np.linalg.norm(space_map(7.0 + steps) - start, axis=1)
    np.testing.assert_allclose(lengths, np.sqrt(told), rtol=1e-9)
    np.testing.assert_allclose(lengths.max(), 1.0, rtol=1e-12)


def test_recalibration_in_the_stretched_space_forgets_columns_of_noise():
    (x, z), (new, z_new) = errors(2000, 15, 1), errors(1000, 15, 2)
    crps = {}
    for scaling in ("standard", "relevance"):
        rc = nc.LocalRecalibrator(k=100, scaling=scaling).fit(nc.Normal(np.zeros(2000), 1.0), z, x)
        crps[scaling] = nc.scores.crps(rc.recalibrate(nc.Normal(np.zeros(1000), 1.0), new), z_new).mean()
    assert crps["relevance"] < 0.93 * crps["standard"]
