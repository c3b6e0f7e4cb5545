import numpy as np
from scipy.special import erfc

from nearcal_studies.simulation.data import correlated_inputs, simulate, true_mean


def test_inputs_have_the_covariance_of_the_paper():
    x = correlated_inputs(200_000, 20, np.random.default_rng(0))
    i, j = np.indices((20, 20))
    # an entry of the sample covariance has a standard error of at most √2 / √200,000 = 0.003
    np.testing.assert_allclose(np.cov(x.T), 0.5 ** np.abs(i - j), atol=0.016)
    np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=0.012)


def test_mean_is_the_paper_s_equation():
    x = np.random.default_rng(1).normal(size=(5, 20))
    expected = []
    for row in x:
        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = (float(value) for value in row[:10])
        y = 5 + 10 * x1 + 10 / (x2 * x2 + 1) + 5 * x3 * x4 + 2 * x4 + 5 * x4 * x4 + 5 * x5 + 2 * x6
        y += 10 / (x7 * x7 + 1) + 5 * x8 * x9 + 5 * x9 * x9 + 5 * x10
        expected.append(y)
    np.testing.assert_allclose(true_mean(x), expected, rtol=1e-12)


def test_moments_of_the_response():
    split = simulate(200_000, 0)
    y = np.concatenate([part.y for part in split])
    x = np.concatenate([part.x for part in split])
    # E 1 / (1 + X²) = √(π e / 2) erfc(1 / √2) for a standard Normal X; E X₃ X₄ = E X₈ X₉ = 1/2, E X² = 1
    bell = np.sqrt(np.pi * np.e / 2) * erfc(1 / np.sqrt(2))
    expected = 5 + 20 * bell + 5 * 0.5 + 5 + 5 * 0.5 + 5
    assert abs(y.mean() - expected) < 5 * y.std() / np.sqrt(len(y))
    noise = y - true_mean(x)
    assert abs(noise.var() - 1) < 5 * np.sqrt(2 / len(y))
    assert abs(np.corrcoef(noise, true_mean(x))[0, 1]) < 5 / np.sqrt(len(y))


def test_split_is_80_10_10_and_seeds_differ():
    one, same, other = simulate(1000, 0), simulate(1000, 0), simulate(1000, 1)
    assert [part.x.shape for part in one] == [(800, 20), (100, 20), (100, 20)]
    np.testing.assert_array_equal(one.test.y, same.test.y)
    assert not np.isin(one.test.y, other.test.y).any()
