"""A promise survives compilation, and export: ends are read where points set aside say."""

import numpy as np
import pytest

import nearcal as nc
from tests.compiled.cases import compile_quickly

rng = np.random.default_rng(3)
SPACE = rng.normal(size=(600, 2))
Y = rng.normal(SPACE[:, 0], np.exp(SPACE[:, 1] / 2))
BASE = nc.Normal(np.zeros(600), 1.0)
LOCAL = nc.LocalRecalibrator(k=100, quantile_rule="predictive")


@pytest.fixture(scope="module")
def exact():
    return nc.GuaranteedRecalibrator(LOCAL, nc.Marginal(share=199)).fit(BASE, Y, SPACE)


@pytest.fixture(scope="module")
def compiled(exact):
    return compile_quickly(exact, bumps=400)


def test_intervals_hold_the_points_set_aside_as_often_as_before(exact, compiled):
    # with n = 199 an interval of 90% lies between order statistics 10 and 190 of scores under whatever is inside
    held = exact.held_
    out = compiled.inner_.recalibrate(nc.Normal(np.zeros(199), 1.0), held.space)
    lower, upper = compiled.recalibrate(nc.Normal(np.zeros(199), 1.0), held.space).interval(0.9)
    assert ((lower <= held.z) & (held.z <= upper)).sum() == 181
    np.testing.assert_allclose(np.sort(compiled.scores_), np.sort(out.z(held.z)), rtol=1e-9)
    assert compiled.guarantee_ == exact.guarantee_


def test_no_position_is_kept(compiled):
    assert compiled.held_.space is None
    assert isinstance(compiled.inner_, nc.CompiledRecalibrator)


def test_a_file_has_the_promise_and_the_same_ends(compiled, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    path = compiled.to_onnx(tmp_path / "promised.onnx", "normal", coverage=0.9, levels=[0.1, 0.5, 0.9])
    session = runtime.InferenceSession(path)
    ones = np.ones((50, 1))
    answers = session.run(None, {"loc": 0 * ones, "scale": ones, "position": SPACE[:50]})
    named = dict(zip([output.name for output in session.get_outputs()], answers, strict=True))
    out = compiled.recalibrate(BASE[:50], SPACE[:50])
    np.testing.assert_allclose(named["lower"][:, 0], out.interval(0.9)[0], atol=1e-4)
    np.testing.assert_allclose(named["upper"][:, 0], out.interval(0.9)[1], atol=1e-4)
    np.testing.assert_allclose(named["quantiles"], out.ppf([0.1, 0.5, 0.9]), atol=1e-4)
    np.testing.assert_allclose(named["mean"][:, 0], out.mean(), atol=1e-3)
    assert "199 points set aside" in session.get_modelmeta().custom_metadata_map["guarantee"]


def test_what_cannot_be_promised_is_not_written(exact, compiled, tmp_path):
    with pytest.raises(nc.InvalidInputError, match="takes 1999 points set aside, not 199"):
        compiled.to_onnx(tmp_path / "x.onnx", "normal", coverage=0.999)
    with pytest.raises(nc.InvalidParameterError, match=r"give it to nearcal\.compile first"):
        exact.to_onnx(tmp_path / "x.onnx", "normal")
    to_groups = nc.GuaranteedRecalibrator(LOCAL, nc.Marginal(groups=SPACE[:, 0] > 0)).fit(BASE, Y, SPACE)
    with pytest.raises(nc.InvalidParameterError, match="made to everybody alike"):
        to_groups.to_onnx(tmp_path / "x.onnx", "normal")
    with pytest.raises(nc.InvalidParameterError, match="whose promise survives"):
        nc.compile(nc.ConformalRecalibrator().fit(BASE, Y))
