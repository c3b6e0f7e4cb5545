"""Principal components against scikit-learn's."""

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence

import nearcal as nc
from nearcal.space import CalibrationSpace, SpaceMap, principal_axes

RNG = np.random.default_rng(0)
SPACE = RNG.normal(size=(200, 6)) @ RNG.normal(size=(6, 6)) + 3.0
NEW = RNG.normal(size=(9, 6)) + 3.0
Z = RNG.normal(size=200)


def distances(a, b):
    return np.linalg.norm(a[:, np.newaxis] - b, axis=2)


@pytest.mark.parametrize("components", [1, 3, 6])
@pytest.mark.parametrize("scaling", ["none", "standard", "whiten"])
def test_distances_are_those_of_sklearns_components(scaling, components):
    decomposition = pytest.importorskip("sklearn.decomposition")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    steps = preprocessing.StandardScaler(with_std=scaling != "none").fit(SPACE)
    pca = decomposition.PCA(components, whiten=scaling == "whiten").fit(steps.transform(SPACE))
    cal, new = (pca.transform(steps.transform(points)) for points in (SPACE, NEW))
    space_map = nc.Scaling(scaling, components).learn(SPACE, Z)
    # sklearn's unit is the deviation with n - 1
    unit = np.sqrt(200 / 199) if scaling == "whiten" else 1.0
    np.testing.assert_allclose(distances(space_map(NEW), space_map(SPACE)), unit * distances(new, cal), rtol=1e-10)


def test_all_components_keep_distances_and_more_than_all_are_all():
    plain = nc.Scaling("standard").learn(SPACE, Z)
    for components in (6, 50):
        rotated = nc.Scaling("standard", components).learn(SPACE, Z)
        expected = distances(plain(NEW), plain(SPACE))
        np.testing.assert_allclose(distances(rotated(NEW), rotated(SPACE)), expected, rtol=1e-10)


@pytest.mark.parametrize("scaling", ["none", "standard", "whiten"])
def test_signs_do_not_depend_on_the_order_of_rows(scaling):
    one = nc.Scaling(scaling, 3).learn(SPACE, Z)(NEW)
    other = nc.Scaling(scaling, 3).learn(SPACE[::-1], Z[::-1])(NEW)
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_whitening_drops_what_varies_by_the_rounding_of_float32_alone():
    hidden = SPACE[:, :4].astype(np.float32)
    layer = hidden @ RNG.normal(size=(4, 30)).astype(np.float32)  # 30 units that vary in four directions
    white = nc.Scaling("whiten").learn(layer.astype(np.float64))(layer.astype(np.float64))
    assert white.shape == (200, 4)
    expected = nc.Scaling("whiten").learn(hidden.astype(np.float64))(hidden.astype(np.float64))
    np.testing.assert_allclose(distances(white, white), distances(expected, expected), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_whitening_keeps_narrow_directions_of_float64(offset):
    first, second = RNG.normal(size=(2, 200))
    space = offset + 1e-3 * np.column_stack([first, first + 1e-4 * second])  # copies but for a ten-thousandth
    white = nc.Scaling("whiten").learn(space)(space)
    assert white.shape == (200, 2)
    assert abs(np.corrcoef(white[:, 1], second)[0, 1]) > 0.99


def test_recalibrators_take_components():
    y = RNG.normal(size=200)
    dist, new = nc.Normal(np.zeros(200), 1.0), nc.Normal(np.zeros(9), 1.0)
    reduced = nc.Scaling("standard", 2).learn(SPACE, Z)
    expected = nc.LocalRecalibrator(k=20).fit(dist, y, reduced(SPACE)).recalibrate(new, reduced(NEW))
    out = nc.LocalRecalibrator(k=20, scaling=nc.Scaling("standard", 2)).fit(dist, y, SPACE).recalibrate(new, NEW)
    np.testing.assert_allclose(out.mean(), expected.mean(), rtol=1e-12)
    with pytest.raises(nc.InvalidParameterError, match="components must be a whole number >= 1, got 0"):
        nc.LocalRecalibrator(k=20, scaling=nc.Scaling("none", 0)).fit(dist, y, SPACE)


def test_relevance_needs_scores():
    with pytest.raises(nc.InvalidParameterError, match="learnt from the scores"):
        nc.Scaling("relevance").learn(SPACE)


@pytest.mark.parametrize("name", ["standard", "whiten", "relevance"])
@pytest.mark.parametrize("unit", [1e-290, 1e-200, 1e140])
def test_a_column_of_any_unit_counts_like_the_others(name, unit):
    """Squares of its entries vanish or overflow."""
    scaled = nc.Scaling(name).learn(SPACE, Z)
    units = np.array([1.0, unit, 1.0, 1.0, 1.0, 1.0])
    other = nc.Scaling(name).learn(SPACE * units, Z)
    expected = distances(scaled(NEW), scaled(SPACE))
    np.testing.assert_allclose(distances(other(NEW * units), other(SPACE * units)), expected, rtol=1e-8)


def test_differences_too_small_to_be_squared_are_refused():
    with pytest.raises(nc.InvalidInputError, match=r"space_cal must .* differ by 1e-150 and more.*; rescale it"):
        nc.Scaling("none").learn(SPACE * 1e-160)
    nc.Scaling("none").learn(np.full((9, 2), 1e-200))  # the same place


def test_a_view_without_a_direction_is_refused(monkeypatch):
    """Relevance learnt without some points may leave out the one column in which a row is not zero."""
    space = np.concatenate([SPACE[:, :2] - SPACE[:, :2].mean(axis=0), [[0.0, 1.0]]])
    space[:, 0] -= space[:, 0].mean()
    space[-1, 0] = 0.0
    monkeypatch.setattr(SpaceMap, "__call__", lambda self, points: points * self.matrix)
    monkeypatch.setattr("nearcal.space.scaling.learn_relevance", lambda points, z, weights: np.ones(2))
    monkeypatch.setattr(
        "nearcal.space.calibration_space.learn_relevance_without", lambda *given: [np.array([1.0, 0.0])] * 5
    )
    ready = CalibrationSpace(space, np.zeros(len(space)), nc.Scaling("relevance"), 5, metric="cosine")
    assert ready.whole.points.shape == space.shape
    with pytest.raises(nc.InvalidInputError, match="space_cal must have no zero row"):
        _ = ready.views


@pytest.mark.parametrize("shape", [(400, 900), (900, 400)], ids=["wide", "long"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_few_of_many_axes_are_those_of_the_full_decomposition(shape, weighted):
    rng = np.random.default_rng(2)
    moved = rng.normal(size=shape) / np.sqrt(1 + np.arange(shape[1]))
    weights = rng.uniform(0.5, 1.5, size=shape[0]) if weighted else None
    axes, deviation = principal_axes(moved, weights)
    few, few_deviations = principal_axes(moved, weights, 20)
    assert few.shape == (shape[1], 20)
    np.testing.assert_allclose(few_deviations, deviation[:20], rtol=1e-10)
    np.testing.assert_allclose(few, axes[:, :20], atol=1e-8)


def test_axes_that_iterations_cannot_part_are_decomposed(monkeypatch):
    def fail(*arguments, **options):
        raise ArpackNoConvergence("no", np.zeros(0), np.zeros((0, 0)))

    moved = np.random.default_rng(0).normal(size=(300, 400))
    expected = principal_axes(moved)[0][:, :5]
    monkeypatch.setattr("scipy.sparse.linalg.svds", fail)
    np.testing.assert_array_equal(principal_axes(moved, None, 5)[0], expected)


@pytest.mark.parametrize("scaling", ["none", "standard", "whiten", "relevance"])
def test_more_components_than_a_wide_space_has_directions_are_those_there_are(scaling):
    """Six points in 300 columns, of which one is constant."""
    rng = np.random.default_rng(5)
    space, z = rng.normal(size=(6, 300)), rng.normal(size=6)
    space[:, 0] = 1.0
    learnt = nc.Scaling(scaling, 50).learn(space, z)
    whole = nc.Scaling(scaling).learn(space, z)
    np.testing.assert_allclose(
        distances(learnt(space), learnt(space)), distances(whole(space), whole(space)), atol=1e-6
    )
